//! The description of a pinned control, a line of text beside its pins.
//!
//! A BPF file system holds only pins, folders and symbolic links, so the line is the target of a
//! symbolic link: `readlink /sys/fs/bpf/fairwind/fw_sfsack/about`.

use std::fmt;

use super::super::object;
use crate::native::{self, Control, Parameter};

/// Identifies a control and its build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The control's name in `cc/`.
    pub control: String,
    /// The version of fairwind that loaded it.
    pub version: String,
    /// A hash of the eBPF object.
    object: String,
    /// Names of the parameters, in the order of the settings, separated by commas.
    parameters: String,
}

impl About {
    /// The description of a control in this build.
    pub(super) fn of(control: &Control, bytes: &[u8]) -> About {
        About {
            control: control.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            object: format!("{:016x}", fingerprint(bytes)),
            parameters: parameter_names(control),
        }
    }

    /// Parses the line.
    pub(super) fn parse(line: &str) -> Option<About> {
        let value = |key: &str| {
            line.split(' ')
                .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
                .map(str::to_owned)
        };
        Some(About {
            control: value("control")?,
            version: value("version")?,
            object: value("object")?,
            parameters: value("parameters")?,
        })
    }

    /// Whether it is byte for byte what this build would load.
    pub fn is_this_build(&self) -> bool {
        native::find(&self.control)
            .is_some_and(|control| *self == About::of(control, object::of(control)))
    }

    /// The control, if this build knows it with the same layout of its settings.
    pub(super) fn known_control(&self) -> Option<&'static Control> {
        native::find(&self.control).filter(|control| self.parameters == parameter_names(control))
    }
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "control={} version={} object={} parameters={}",
            self.control, self.version, self.object, self.parameters
        )
    }
}

fn parameter_names(control: &Control) -> String {
    let names: Vec<&str> = control.parameters().iter().map(Parameter::name).collect();
    names.join(",")
}

/// 64-bit FNV-1a.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_reads_back() {
        let cubic = native::find("cubic").unwrap();
        let about = About::of(cubic, b"object");
        assert_eq!(About::parse(&about.to_string()), Some(about.clone()));
        assert!(!about.is_this_build());
        assert_eq!(about.known_control(), Some(cubic));
        assert_eq!(About::parse("control=cubic"), None);
    }

    #[test]
    fn a_control_without_parameters_says_so() {
        let about = About::of(native::find("reno").unwrap(), b"");
        // The offset basis of FNV-1a is the fingerprint of nothing.
        let line = format!(
            "control=reno version={} object=cbf29ce484222325 parameters=",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(about.to_string(), line);
        assert_eq!(About::parse(&line), Some(about));
    }

    #[test]
    fn settings_of_another_order_are_not_known() {
        let line = "control=sfsack version=9.0.0 object=0 parameters=gain,tau";
        let about = About::parse(line).unwrap();
        assert_eq!(about.known_control(), None);
        assert!(!about.is_this_build());
    }
}
