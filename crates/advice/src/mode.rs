//! The modes of a transfer: the thesis' two, and two that take no more than standard TCP does.

use serde::{Deserialize, Serialize};

/// How a transfer shares its path with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub enum Mode {
    /// As standard TCP: the path is congested, is not the operator's own, or has no recent test.
    CongestionControl,
    /// Without congestion control: no hop is congested and the path is the operator's own.
    NoCongestionControl,
    /// In the background, by a congestion control that takes only what others leave.
    Background,
    /// As standard TCP, but no faster than a rate that the forecast vouches for.
    Rate,
}

impl Mode {
    /// `congestion-control`, `no-congestion-control`, `background` or `rate`.
    pub fn name(self) -> &'static str {
        match self {
            Self::CongestionControl => "congestion-control",
            Self::NoCongestionControl => "no-congestion-control",
            Self::Background => "background",
            Self::Rate => "rate",
        }
    }

    /// The thesis' input: whether there is congestion control.
    pub fn has_congestion_control(self) -> bool {
        self != Self::NoCongestionControl
    }
}

/// A mode as advisors and clients write it. A client that knows only `mode` does as it says with the
/// congestion control and the pacing that the advice names, and so follows the other modes, too.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = AdviceMode))]
pub(crate) struct Written {
    /// `congestion-control` or `no-congestion-control`, the thesis' two.
    mode: Two,
    /// `background` or `rate`, modes with congestion control; missing in the thesis' two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    full_mode: Option<Further>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Mode))]
#[serde(rename_all = "kebab-case")]
enum Two {
    CongestionControl,
    NoCongestionControl,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FullMode))]
#[serde(rename_all = "kebab-case")]
enum Further {
    Background,
    Rate,
}

impl From<Mode> for Written {
    fn from(mode: Mode) -> Written {
        Written {
            mode: match mode.has_congestion_control() {
                true => Two::CongestionControl,
                false => Two::NoCongestionControl,
            },
            full_mode: match mode {
                Mode::CongestionControl | Mode::NoCongestionControl => None,
                Mode::Background => Some(Further::Background),
                Mode::Rate => Some(Further::Rate),
            },
        }
    }
}

impl From<Written> for Mode {
    fn from(written: Written) -> Mode {
        match (written.full_mode, written.mode) {
            (Some(Further::Background), _) => Mode::Background,
            (Some(Further::Rate), _) => Mode::Rate,
            (None, Two::CongestionControl) => Mode::CongestionControl,
            (None, Two::NoCongestionControl) => Mode::NoCongestionControl,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_knows_the_thesis_two_modes_reads_one_of_them() {
        for (mode, written) in [
            (Mode::CongestionControl, r#"{"mode":"congestion-control"}"#),
            (
                Mode::NoCongestionControl,
                r#"{"mode":"no-congestion-control"}"#,
            ),
            (
                Mode::Background,
                r#"{"mode":"congestion-control","full_mode":"background"}"#,
            ),
            (
                Mode::Rate,
                r#"{"mode":"congestion-control","full_mode":"rate"}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&mode).unwrap(), written);
            assert_eq!(serde_json::from_str::<Mode>(written).unwrap(), mode);
        }
    }
}
