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

fn line(measurement: &Measurement) -> String {
    let seconds = measurement.seconds;
    let rtt = ms(measurement.rtt_ms);
    match &measurement.estimate {
        Ok(estimate) => format!(
            "{seconds:5.1} s  available {}  capacity {:.1}  RTT {rtt}",
            range(&estimate.available),
            estimate.capacity.value / 1e6
        ),
        Err(unknown) => format!("{seconds:5.1} s  unknown: {unknown}  RTT {rtt}"),
    }
}

fn summary(measurement: &Measurement) -> String {
    let mut rows = Vec::new();
    match &measurement.estimate {
        Ok(estimate) => {
            rows.push(("available bandwidth", range(&estimate.available)));
            rows.push(("capacity", range(&estimate.capacity)));
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
