//! Throughput and loss: P = [(C S) / (RTT T)]² (thesis, section 5.3), in the units of the thesis'
//! program (appendix B.3): P in percent, S in bytes and counted as bits, RTT in milliseconds, T in
//! Mbit/s. With P as a share, its C is ten times the usual constant.

use std::fmt::Write;
use std::time::Duration;

use super::case::Losses;
use super::series::Recorded;

/// A packet, bytes: with it, the columns of Table 1 follow from the constants that the table names.
const PACKET: f64 = 1500.0;

/// The relation with a fitted constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Relation {
    pub constant: f64,
}

impl Relation {
    /// Long-term throughput in Mbit/s.
    pub(crate) fn mbps(self, rtt_ms: f64, loss_percent: f64) -> f64 {
        self.constant * 8.0 * PACKET / 1000.0 / (rtt_ms * loss_percent.sqrt())
    }

    /// The share of packets to lose, 0 to 1, for a throughput of `mbps`.
    pub(crate) fn loss(self, rtt_ms: f64, mbps: f64) -> f64 {
        let root = self.constant * 8.0 * PACKET / 1000.0 / (rtt_ms * mbps);
        (root * root / 100.0).min(1.0)
    }

    /// The constant with which the relation has the least error, as a share of the observations; each cell is
    /// a pair of the relation's value with a constant of 1 and the observed value.
    pub(crate) fn fit(cells: &[(f64, f64)]) -> Relation {
        let first: f64 = cells.iter().map(|(said, observed)| said / observed).sum();
        let second = cells
            .iter()
            .map(|(said, observed)| (said / observed).powi(2));
        Relation {
            constant: first / second.sum::<f64>(),
        }
    }
}

/// The parts in which the thesis' emulator counts losses.
const PARTS: f64 = 65536.0;

impl Losses {
    /// The share that is lost when `loss` is configured.
    pub(crate) fn taken(self, loss: f64) -> f64 {
        match self {
            Losses::Rounded => (loss * PARTS).round() / PARTS,
            Losses::Exact => loss,
        }
    }
}

/// The least bandwidth for which a trace has losses, Mbit/s, so that losses stay far below 1.
const LEAST_MBPS: f64 = 1.0;

/// The losses of the path in a transfer, as a recording for `loss`: those with which standard TCP gets the
/// available bandwidth, as far as the emulator applies them.
pub(crate) struct Trace {
    pub relation: Relation,
    pub losses: Losses,
    /// Round-trip time of the thesis' path, milliseconds.
    pub rtt_ms: f64,
    /// Duration of the transfer, relative to the thesis'.
    pub scale: f64,
    /// Factor of the losses, for a path whose round-trip time is not the thesis'.
    pub share: f64,
}

impl Trace {
    /// From the start of the transfer, one line per change: paths with the same losses get the same text.
    pub(crate) fn csv(&self, available: &[Recorded]) -> String {
        let mut text = String::from("time_s,loss_probability\n");
        let mut before = None;
        for sample in available {
            let asked = self.relation.loss(self.rtt_ms, sample.mbps.max(LEAST_MBPS));
            let loss = (self.losses.taken(asked) * self.share).min(1.0);
            if before == Some(loss) {
                continue;
            }
            before = Some(loss);
            let after = scaled(sample.after, self.scale);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{after:.6},{loss:.12}");
        }
        text
    }
}

/// `duration` in a run whose length is scaled by `scale`, seconds.
pub(crate) fn scaled(duration: Duration, scale: f64) -> f64 {
    duration.as_secs_f64() * scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_table_1_come_out_of_their_constants() {
        let said = |constant: f64, rtt_ms, loss| {
            let mbps = Relation { constant }.mbps(rtt_ms, loss);
            (mbps * 100.0).round() / 100.0
        };
        assert_eq!(
            [1.0, 2.0, 3.0, 4.0].map(|p| said(9.76, 25.0, p)),
            [4.68, 3.31, 2.7, 2.34]
        );
        assert_eq!(
            [1.0, 2.0, 3.0, 4.0].map(|p| said(12.2, 50.0, p)),
            [2.93, 2.07, 1.69, 1.46]
        );
    }

    #[test]
    fn a_loss_gives_the_throughput_that_it_was_computed_for() {
        let relation = Relation { constant: 9.76 };
        let loss = relation.loss(50.0, 42.0);
        assert!((relation.mbps(50.0, loss * 100.0) - 42.0).abs() < 1e-9);
    }

    #[test]
    fn a_fit_finds_the_constant_behind_exact_observations() {
        let unit = Relation { constant: 1.0 };
        let cells: Vec<(f64, f64)> = [1.0, 2.0, 4.0]
            .map(|loss| (unit.mbps(25.0, loss), 8.0 * unit.mbps(25.0, loss)))
            .to_vec();
        assert!((Relation::fit(&cells).constant - 8.0).abs() < 1e-12);
    }

    #[test]
    fn a_trace_runs_as_much_faster_as_the_transfer_is_smaller() {
        let available = [
            Recorded {
                after: Duration::ZERO,
                mbps: 42.0,
            },
            Recorded {
                after: Duration::from_secs(200),
                mbps: 0.0,
            },
        ];
        let trace = Trace {
            relation: Relation { constant: 9.76 },
            losses: Losses::Exact,
            rtt_ms: 50.0,
            scale: 0.01,
            share: 1.0,
        };
        let expected =
            "time_s,loss_probability\n0.000000,0.000031104522\n2.000000,0.054868377600\n";
        assert_eq!(trace.csv(&available), expected);
        // 2.04 and 3595.9 parts of 65,536; a fifth of the round-trip time needs 25 times the losses.
        let shorter = Trace {
            losses: Losses::Rounded,
            share: 25.0,
            ..trace
        };
        let expected =
            "time_s,loss_probability\n0.000000,0.000762939453\n2.000000,1.000000000000\n";
        assert_eq!(shorter.csv(&available), expected);
    }

    #[test]
    fn a_trace_has_a_line_a_change() {
        let sample = |seconds, mbps| Recorded {
            after: Duration::from_secs(seconds),
            mbps,
        };
        let trace = Trace {
            relation: Relation { constant: 7.0 },
            losses: Losses::Rounded,
            rtt_ms: 50.0,
            scale: 1.0,
            share: 1.0,
        };
        let available = [sample(0, 42.0), sample(300, 51.0), sample(600, 30.0)];
        let expected =
            "time_s,loss_probability\n0.000000,0.000015258789\n600.000000,0.000030517578\n";
        assert_eq!(trace.csv(&available), expected);
    }

    /// The program of the thesis (appendix B.3) asks for 0.71 parts at 51 Mbit/s and 1.05 at 42.
    #[test]
    fn what_the_slightly_congested_path_loses_is_one_part_at_all_times_of_day() {
        let program = Relation {
            constant: 9.76 * 1076.0 / 1500.0,
        };
        let parts = |mbps| Losses::Rounded.taken(program.loss(50.0, mbps)) * PARTS;
        assert_eq!([36.0, 42.0, 51.0, 55.0].map(parts), [1.0; 4]);
        // With 15 Mbit/s less from 1 to 4, and with 30 less not the same either.
        assert_eq!([21.0, 27.0, 36.0, 40.0].map(parts), [4.0, 3.0, 1.0, 1.0]);
        assert_eq!([6.0, 12.0, 21.0, 25.0].map(parts), [51.0, 13.0, 4.0, 3.0]);
    }
}
