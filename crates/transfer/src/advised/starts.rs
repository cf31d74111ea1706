//! Starts that are advised of connections by their sockets: Careful Resume (RFC 9959), by the controls of `cc/`.

use std::fmt;
use std::os::fd::AsFd;

use fairwind_advice::wire::Answer;
use fairwind_cc::AdvisedStart;
use fairwind_cc::kernel::{AdvisedStarts, Pins};
use fairwind_cc::{kernel, native};

use super::congestion_control::Refusal;

/// What an answer forecasts of the path until `until_ns`, nanoseconds of `CLOCK_MONOTONIC`: the low edge of its interval,
/// at its round-trip time. None without either, or if no path can have them.
pub fn forecast(answer: &Answer, until_ns: u64) -> Option<AdvisedStart> {
    let [low_mbps, _] = answer.advice.interval_mbps?;
    let rtt_us = answer.advice.rtt_ms? * 1e3;
    AdvisedStart::new((low_mbps * 1e6 / 8.0) as u64, rtt_us as u64, until_ns).ok()
}

/// A start in words: `100 Mbit/s in 50 ms`.
pub(super) struct InWords(pub AdvisedStart);

impl fmt::Display for InWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mbps = self.0.rate() as f64 * 8e-6;
        let rtt_ms = f64::from(self.0.rtt_us()) / 1e3;
        write!(f, "{mbps} Mbit/s in {rtt_ms} ms")
    }
}

/// Where loaded congestion controls look up how a connection may start. A process that has been root when this was opened can
/// advise its connections without that right.
#[derive(Debug)]
pub(super) struct Starts(Option<Open>);

#[derive(Debug)]
struct Open {
    /// Names in the kernel of those that look there.
    controls: Vec<String>,
    maps: AdvisedStarts,
}

impl Starts {
    /// Those of the congestion controls that `fairwind cc load` has loaded, as far as this process may use them.
    pub(super) fn open() -> Starts {
        let pins = Pins::default();
        let open = || {
            let maps = pins.advised_starts().ok()??;
            let all = pins.all().ok()?.into_iter();
            let controls = all.map(|pinned| pinned.name().to_owned());
            let takes = |name: &String| pins.advised_starts_of(name).is_some();
            Some(Open {
                controls: controls.filter(takes).collect(),
                maps,
            })
        };
        Starts(open())
    }

    /// None, as for connections of another program.
    pub(super) fn none() -> Starts {
        Starts(None)
    }

    /// Whether a congestion control, by its name in the kernel, takes such advice, be it known here or not.
    pub(super) fn are_taken_by(&self, control: &str) -> bool {
        let own = kernel::own_name(control);
        let is_loaded =
            own != control && native::find(own).is_some_and(|own| own.takes_advised_start());
        is_loaded || self.reach(control).is_some()
    }

    fn reach(&self, control: &str) -> Option<&AdvisedStarts> {
        let open = self.0.as_ref()?;
        let mut controls = open.controls.iter();
        controls.any(|one| one == control).then_some(&open.maps)
    }

    /// Advises the connection, which has this congestion control.
    pub(super) fn advise(
        &self,
        socket: impl AsFd,
        control: &str,
        start: &AdvisedStart,
    ) -> Result<(), Refusal> {
        let Some(maps) = self.reach(control) else {
            let own = kernel::own_name(control);
            return Err(Refusal {
                reason: "this program was not root when it began, or began before that was loaded"
                    .into(),
                fix: format!("fairwind cc load {own}, and start it as root"),
            });
        };
        maps.advise_socket(socket, start).map_err(|error| Refusal {
            reason: error.to_string(),
            fix: "fairwind doctor".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_is_the_low_edge_of_its_interval() {
        let answer = |fields: &str| -> Answer {
            let text = format!(
                "{{\"mode\": \"congestion-control\", {fields} \"next_advice\": \"2026-01-01T00:00:00Z\", \
                 \"model\": \"profile\", \"days_used\": 0, \"reason\": \"\", \"ask_again_after_s\": 2.0}}"
            );
            serde_json::from_str(&text).unwrap()
        };
        let known = answer("\"interval_mbps\": [80.0, 90.0], \"rtt_ms\": 12.5,");
        let expected = AdvisedStart::new(10_000_000, 12_500, 9).unwrap();
        assert_eq!(forecast(&known, 9), Some(expected));
        assert_eq!(InWords(expected).to_string(), "80 Mbit/s in 12.5 ms");
        for fields in [
            "\"available_mbps\": 80.0, \"rtt_ms\": 12.5,",
            "\"interval_mbps\": [80.0, 90.0],",
            "\"interval_mbps\": [0.0, 90.0], \"rtt_ms\": 12.5,",
            "\"interval_mbps\": [-5.0, 90.0], \"rtt_ms\": 12.5,",
            "\"interval_mbps\": [80.0, 90.0], \"rtt_ms\": 0.0,",
        ] {
            assert_eq!(forecast(&answer(fields), 9), None, "{fields}");
        }
    }

    #[test]
    fn who_cannot_reach_a_control_says_what_is_needed() {
        let starts = Starts::none();
        assert!(starts.are_taken_by("fw_cubic"));
        assert!(!starts.are_taken_by("cubic"));
        assert!(!starts.are_taken_by("fw_nocc"));
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let start = AdvisedStart::new(10_000_000, 12_500, 9).unwrap();
        let refusal = starts.advise(&one, "fw_cubic", &start).unwrap_err();
        assert_eq!(refusal.fix, "fairwind cc load cubic, and start it as root");
    }
}
