//! Estimates as they come: a line that changes on a terminal, lines of JSON elsewhere.

use std::io::{self, IsTerminal, Write};

use fairwind_estimate::Figure;

use super::{Measurement, fields};
use crate::failure::Failure;
use crate::output;

/// Where estimates go.
pub(super) struct Output {
    is_json: bool,
}

impl Output {
    /// JSON if it is asked for, or standard output is no terminal.
    pub(super) fn new(json: bool) -> Output {
        Output {
            is_json: json || !io::stdout().is_terminal(),
        }
    }

    /// The latest estimate.
    pub(super) fn show(&mut self, measurement: &Measurement) -> Result<(), Failure> {
        if self.is_json {
            return Ok(output::line(&fields(measurement).to_string())?);
        }
        let mut out = io::stdout().lock();
        write!(out, "\r\x1b[K{}", line(measurement))?;
        Ok(out.flush()?)
    }

    /// The result.
    pub(super) fn finish(&mut self, measurement: &Measurement) -> Result<(), Failure> {
        if self.is_json {
            let mut object = fields(measurement);
            object["result"] = true.into();
            return Ok(output::line(&object.to_string())?);
        }
        Ok(output::line(&format!("\r\x1b[K{}", summary(measurement)))?)
    }
}

fn range(figure: &Figure) -> String {
    let mbps = |bps: f64| bps / 1e6;
    format!(
        "{:.1} Mbit/s (80 %: {:.1} to {:.1})",
        mbps(figure.value),
        mbps(figure.low),
        mbps(figure.high)
    )
}

fn ms(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |ms| format!("{ms:.2} ms"))
}

/// No longer than a terminal is wide, as what is beyond would stay.
fn line(measurement: &Measurement) -> String {
    let seconds = measurement.seconds;
    let rtt = ms(measurement.rtt_ms);
    match &measurement.estimate {
        Ok(estimate) => {
            let of = match estimate.is_policed {
                true => "Mbit/s, policed".to_owned(),
                false => format!("of {:.1} Mbit/s", estimate.capacity.value / 1e6),
            };
            format!(
                "{seconds:5.1} s  available {:.1} ({:.1} to {:.1}) {of}  RTT {rtt}",
                estimate.available.value / 1e6,
                estimate.available.low / 1e6,
                estimate.available.high / 1e6
            )
        }
        Err(unknown) => {
            let why = unknown.to_string();
            let why = why.split(':').next().unwrap_or_default();
            format!("{seconds:5.1} s  unknown: {why}  RTT {rtt}")
        }
    }
}

/// What a policer means for who reads the figures.
const POLICER: &str = "what exceeds this rate is dropped, once a burst has passed";

fn summary(measurement: &Measurement) -> String {
    let mut rows = Vec::new();
    match &measurement.estimate {
        Ok(estimate) => {
            rows.push(("available bandwidth", range(&estimate.available)));
            rows.push(("capacity", range(&estimate.capacity)));
            if estimate.is_policed {
                rows.push(("policer", POLICER.to_owned()));
            }
        }
        Err(unknown) => rows.push(("available bandwidth", format!("unknown: {unknown}"))),
    }
    rows.push((
        "round-trip time",
        format!("at least {}", ms(measurement.min_rtt_ms)),
    ));
    rows.push((
        "sent",
        format!(
            "{} bytes in {:.1} s, {} trains",
            measurement.bytes, measurement.seconds, measurement.trains
        ),
    ));
    let rows = rows
        .into_iter()
        .map(|(name, value)| format!("{name:<20} {value}"));
    rows.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use fairwind_estimate::{Estimate, Unknown};

    use super::*;

    #[test]
    fn a_line_that_changes_fits_into_a_terminal() {
        let gigabit = Figure {
            value: 1e9,
            low: 1e9,
            high: 1e9,
        };
        let estimate = Estimate {
            capacity: gigabit,
            available: gigabit,
            from_s: 0.0,
            to_s: 1.0,
            is_policed: false,
        };
        let policed = Estimate {
            is_policed: true,
            ..estimate
        };
        for estimate in [Ok(estimate), Ok(policed), Err(Unknown::FairQueueing)] {
            let measurement = Measurement {
                seconds: 100.0,
                bytes: 1,
                trains: 1,
                rtt_ms: Some(100.0),
                min_rtt_ms: None,
                estimate,
            };
            let line = line(&measurement);
            assert!(line.len() < 80, "{line}");
        }
    }
}
