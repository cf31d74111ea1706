//! What advice asks of a data connection, after validation: an advisor may be wrong.

use fairwind_advice::wire::Answer;
use fairwind_advice::{Advice, Mode};
use fairwind_cc::AdvisedStart;
use fairwind_cc::kernel::is_nocc;

use super::bounds::{self, Observed};
use super::record::{Event, Setting};
use super::starts::forecast;
use crate::Direction;

/// Largest buffer accepted, bytes.
const LARGEST_BUFFER: u64 = 1 << 30;
/// Smallest buffer accepted, bytes: what a connection needs to make any progress.
const SMALLEST_BUFFER: u64 = 4 << 10;
/// Slowest pacing accepted, Mbit/s: a slower transfer stands still.
const SLOWEST_MBPS: f64 = 0.1;
/// Fastest pacing accepted, Mbit/s.
const FASTEST_MBPS: f64 = 1e6;
/// Longest reason kept, characters.
const LONGEST_REASON: usize = 500;
/// Longest name of a congestion control in the kernel (`TCP_CA_NAME_MAX` with its final zero is 16).
const LONGEST_NAME: usize = 15;

/// What to do with the connection. Fields that are none are left to the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orders {
    /// Whether congestion control is to be off.
    pub(super) off: bool,
    /// The congestion control, by the advisor's name for it.
    pub(super) control: Option<String>,
    /// Send buffer, bytes.
    pub(super) send_buffer: Option<u32>,
    /// Receive buffer, bytes.
    pub(super) receive_buffer: Option<u32>,
    /// Pacing, bytes a second.
    pub(super) pacing: Option<u64>,
    /// Available bandwidth, as the advisor claims, bytes a second.
    pub(super) claimed: Option<u64>,
    /// How a connection may start that has not sent anything yet.
    pub(super) start: Option<AdvisedStart>,
    /// Why, in a sentence.
    pub(super) reason: String,
}

impl Orders {
    /// Validates an answer; what it forecasts holds until `until_ns`, nanoseconds of `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// As of the advice in it.
    pub fn of_answer(answer: &Answer, until_ns: u64) -> Result<Self, String> {
        Ok(Self {
            start: forecast(answer, until_ns),
            ..Self::of(&answer.advice)?
        })
    }

    /// The congestion control, by the advisor's name for it; `None`: the host's standard.
    pub fn control(&self) -> Option<&str> {
        self.control.as_deref()
    }

    /// The same with another congestion control.
    pub fn with_control(self, control: String) -> Self {
        Self {
            control: Some(control),
            ..self
        }
    }

    /// Validates the advice.
    ///
    /// # Errors
    /// The value that makes no sense; the advice as a whole is then worth nothing.
    pub(super) fn of(advice: &Advice) -> Result<Self, String> {
        rate("available bandwidth", advice.available_mbps)?;
        rate("round-trip time", advice.rtt_ms)?;
        let control = advice.congestion_control.clone();
        if let Some(name) = &control
            && !is_name(name)
        {
            return Err(format!(
                "{:?} is not a name of a congestion control",
                clean(name)
            ));
        }
        if advice.mode == Mode::Background && control.is_none() {
            return Err(
                "the transfer is to be in the background, but the advice names no control for that"
                    .into(),
            );
        }
        if advice.mode == Mode::Rate && advice.pacing_mbps.is_none() {
            return Err("the transfer is to keep a rate, but the advice has no pacing_mbps".into());
        }
        // nocc may be named as the congestion control, whatever the mode says.
        let off =
            advice.mode == Mode::NoCongestionControl || control.as_deref().is_some_and(is_nocc);
        if off && control.is_none() {
            return Err(
                "congestion control is to be off, but the advice does not name what replaces it"
                    .into(),
            );
        }
        Ok(Self {
            off,
            control,
            send_buffer: buffer("send buffer", advice.send_buffer_bytes)?,
            receive_buffer: buffer("receive buffer", advice.receive_buffer_bytes)?,
            pacing: pacing(advice.pacing_mbps)?,
            claimed: advice.available_mbps.map(bytes_a_second),
            start: None,
            reason: clean(&advice.reason),
        })
    }
}

impl Orders {
    /// These orders within what the path has shown, and what was changed for that.
    pub(super) fn within(&self, observed: Observed, direction: Direction) -> (Self, Vec<Event>) {
        let (mut orders, mut events) = (self.clone(), Vec::new());
        let mut bound = |what, advised: String, to: String, reason| {
            events.push(Event::Bounded {
                what,
                advised,
                to,
                reason,
            });
        };
        if direction == Direction::Send
            && let Some(advised) = self.pacing
            && let Some(bounded) = bounds::pacing(advised, self.claimed, observed)
        {
            orders.pacing = Some(bounded.to);
            let (advised, to) = (in_mbps(Some(advised)), in_mbps(Some(bounded.to)));
            bound(Setting::Pacing, advised, to, bounded.reason);
        }
        let advised = match direction {
            Direction::Send => &mut orders.send_buffer,
            Direction::Receive => &mut orders.receive_buffer,
        };
        if let Some(bytes) = *advised
            && let Some(bounded) =
                bounds::buffer(bytes, direction.buffer_limits().adapted, observed)
        {
            *advised = Some(bounded.to);
            let (what, to) = (Setting::buffer(direction), bounded.to.to_string());
            bound(what, bytes.to_string(), to, bounded.reason);
        }
        (orders, events)
    }
}

/// Formats a rate in Mbit/s.
pub(super) fn in_mbps(bytes_per_second: Option<u64>) -> String {
    match bytes_per_second {
        None => "unlimited".into(),
        Some(rate) => format!("{}", rate as f64 * 8.0 / 1e6),
    }
}

/// Text from outside, made fit for one line of a log.
pub(super) fn clean(text: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(LONGEST_REASON).map(visible).collect()
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(allowed)
}

fn rate(what: &str, value: Option<f64>) -> Result<(), String> {
    match value {
        Some(value) if !value.is_finite() || value < 0.0 => Err(format!("{what} of {value}")),
        _ => Ok(()),
    }
}

fn buffer(what: &str, bytes: Option<u64>) -> Result<Option<u32>, String> {
    match bytes {
        Some(bytes) if !(SMALLEST_BUFFER..=LARGEST_BUFFER).contains(&bytes) => {
            Err(format!("{what} of {bytes} bytes"))
        }
        bytes => Ok(bytes.map(|bytes| bytes as u32)),
    }
}

fn pacing(mbps: Option<f64>) -> Result<Option<u64>, String> {
    match mbps {
        Some(mbps) if !(SLOWEST_MBPS..=FASTEST_MBPS).contains(&mbps) => {
            Err(format!("pacing at {mbps} Mbit/s"))
        }
        mbps => Ok(mbps.map(bytes_a_second)),
    }
}

fn bytes_a_second(mbps: f64) -> u64 {
    (mbps * 1e6 / 8.0).round() as u64
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Congestion control by the kernel's default, and nothing else.
    pub(crate) fn advice() -> Advice {
        serde_json::from_value(serde_json::json!({
            "mode": "congestion-control", "congestion_control": null, "available_mbps": 40.0,
            "interval_mbps": [35.0, 45.0], "rtt_ms": 50.0, "send_buffer_bytes": null,
            "receive_buffer_bytes": null, "pacing_mbps": null, "threshold_mbps": 42.0,
            "next_advice": "2026-03-02T14:05:00Z", "model": "linear", "days_used": 63,
            "r_squared": 0.5, "reason": "because"
        }))
        .unwrap()
    }

    #[test]
    fn pacing_is_bytes_a_second() {
        let mut advice = advice();
        advice.pacing_mbps = Some(80.0);
        assert_eq!(Orders::of(&advice).unwrap().pacing, Some(10_000_000));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_value() {
        let refused = |change: fn(&mut Advice)| {
            let mut advice = advice();
            change(&mut advice);
            Orders::of(&advice).unwrap_err()
        };
        assert_eq!(
            refused(|advice| advice.available_mbps = Some(-3.0)),
            "available bandwidth of -3"
        );
        assert_eq!(
            refused(|advice| advice.send_buffer_bytes = Some(1 << 40)),
            "send buffer of 1099511627776 bytes"
        );
        assert_eq!(
            refused(|advice| advice.receive_buffer_bytes = Some(0)),
            "receive buffer of 0 bytes"
        );
        assert_eq!(
            refused(|advice| advice.pacing_mbps = Some(0.001)),
            "pacing at 0.001 Mbit/s"
        );
        assert_eq!(
            refused(|advice| advice.pacing_mbps = Some(f64::NAN)),
            "pacing at NaN Mbit/s"
        );
        assert_eq!(
            refused(|advice| advice.congestion_control = Some("cubic\n; reboot".into())),
            "\"cubic ; reboot\" is not a name of a congestion control"
        );
        assert_eq!(
            refused(|advice| advice.mode = Mode::NoCongestionControl),
            "congestion control is to be off, but the advice does not name what replaces it"
        );
        assert_eq!(
            refused(|advice| advice.mode = Mode::Background),
            "the transfer is to be in the background, but the advice names no control for that"
        );
        assert_eq!(
            refused(|advice| advice.mode = Mode::Rate),
            "the transfer is to keep a rate, but the advice has no pacing_mbps"
        );
    }

    #[test]
    fn orders_that_the_path_belies_are_told_with_what_is_done_instead() {
        let mut advice = advice();
        advice.available_mbps = None;
        advice.pacing_mbps = Some(0.1);
        advice.send_buffer_bytes = Some(1 << 30);
        let orders = Orders::of(&advice).unwrap();
        let observed = Observed {
            rate: Some(12_500_000),
            round_trip: Some(std::time::Duration::from_millis(40)),
        };
        let (bounded, events) = orders.within(observed, Direction::Send);
        assert_eq!(bounded.pacing, Some(1_250_000));
        assert!(bounded.send_buffer < orders.send_buffer, "{bounded:?}");
        let pairs: Vec<_> = events
            .iter()
            .map(|event| match event {
                Event::Bounded { what, advised, .. } => (*what, advised.as_str()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            pairs,
            [
                (Setting::Pacing, "0.1"),
                (Setting::SendBuffer, "1073741824")
            ]
        );
    }

    #[test]
    fn nocc_is_known_by_every_name_that_it_is_loaded_by() {
        for name in ["nocc", "fw_nocc", "fw_nocc_1a2b"] {
            let mut advice = advice();
            advice.congestion_control = Some(name.into());
            assert!(Orders::of(&advice).unwrap().off, "{name}");
        }
        assert!(!is_nocc("cubic"));
    }

    #[test]
    fn a_reason_is_one_line() {
        assert_eq!(clean("a\r\n226 done\u{7}"), "a  226 done ");
        assert_eq!(clean(&"x".repeat(100_000)).len(), 500);
    }
}
