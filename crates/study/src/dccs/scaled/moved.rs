//! The result of a test, from the samples of a run and the answers in a server's log.

use std::time::Duration;

use fairwind_advice::Mode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ALONE_S, RATE, START_S, Test};
use crate::Error;
use crate::dccs::following::{self, Input};
use crate::demo::measure::Measured;

/// The result of a test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Moved {
    /// Mean throughput of the transfer, Mbit/s; 0 without one.
    pub mbps: f64,
    /// Mean throughput of all others together meanwhile, Mbit/s.
    pub others_mbps: f64,
    /// The inputs it received, in the thesis' notation.
    pub inputs: String,
    /// Retransmitted segments.
    pub retransmits: f64,
}

impl Moved {
    /// The result of a measured run. The transfer lasts from the opening of its connection to its last byte.
    pub(crate) fn of(test: &Test, measured: &Measured, inputs: &[Input]) -> Result<Moved, Error> {
        let Some(transfer) = &measured.transfer else {
            let bytes = measured.others_bytes(START_S, START_S + ALONE_S);
            return Ok(Moved {
                mbps: 0.0,
                others_mbps: bytes * 8.0 / 1e6 / ALONE_S,
                inputs: String::new(),
                retransmits: 0.0,
            });
        };
        let file_bytes = test.story.file_bytes;
        if transfer.bytes < file_bytes {
            let (name, bytes, longest) = (&test.name, transfer.bytes, test.story.length_s);
            let what = format!("{name}: {bytes} bytes were sent in {longest:.0} s");
            return Err(Error::work(what));
        }
        let (opened_s, end_s) = (transfer.opened_s, transfer.end_s);
        let took_s = end_s - opened_s;
        let told = inputs.partition_point(|input| input.after.as_secs_f64() < took_s * RATE);
        Ok(Moved {
            mbps: file_bytes as f64 * 8.0 / 1e6 / took_s,
            others_mbps: measured.others_bytes(opened_s, end_s) * 8.0 / 1e6 / took_s,
            inputs: following::text(&inputs[..told]),
            retransmits: transfer.retransmits as f64,
        })
    }

    /// The mean over the seeds of a test; the inputs are those of most seeds.
    pub(crate) fn mean(all: &[Moved]) -> Moved {
        let mean = |value: fn(&Moved) -> f64| all.iter().map(value).sum::<f64>() / all.len() as f64;
        let count = |moved: &&Moved| all.iter().filter(|m| m.inputs == moved.inputs).count();
        let first = all.iter().max_by_key(count).expect("there are seeds");
        Moved {
            mbps: mean(|moved| moved.mbps),
            others_mbps: mean(|moved| moved.others_mbps),
            retransmits: mean(|moved| moved.retransmits),
            inputs: first.inputs.clone(),
        }
    }
}

/// The answers in a server's log of advice, on the advisor's clock.
pub(crate) fn logged(log: &str) -> Vec<Input> {
    let input = |line: &str| {
        let record: Value = serde_json::from_str(line).ok()?;
        let mode = match (record["event"].as_str()?, record["mode"].as_str()?) {
            ("advice", "congestion-control") => Mode::CongestionControl,
            ("advice", "no-congestion-control") => Mode::NoCongestionControl,
            _ => return None,
        };
        let after = Duration::try_from_secs_f64(record["seconds"].as_f64()? * RATE).ok()?;
        Some(Input { after, mode })
    };
    log.lines().filter_map(input).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_in_a_log_are_inputs_on_the_advisors_clock() {
        let log = "{\"event\":\"advice\",\"mode\":\"congestion-control\",\"seconds\":0.0}\n\
                   {\"event\":\"change\",\"what\":\"congestion_control\",\"seconds\":0.1}\n\
                   {\"event\":\"advice\",\"mode\":\"no-congestion-control\",\"seconds\":1.5}\n";
        let inputs = logged(log);
        assert_eq!(following::text(&inputs), "1,0");
        assert_eq!(inputs[1].after, Duration::from_secs(360));
    }
}
