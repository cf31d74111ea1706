//! Converts the lab's measurements to a result.

use fairwind_lab::application;
use fairwind_lab::emulator::{FlowCounts, Statistics};
use fairwind_path::units::Duration;
use fairwind_result::{EmulatorResult, FlowResult, Late, Machine, RunResult};
use fairwind_scenario::FlowCopy;
use fairwind_scenario::file::flow::Application;
use fairwind_scenario::topology::DirectedLink;
use fairwind_sim::outcome::FlowOutcome;
use fairwind_trace::kernel::Counts;

use super::Lab;
use super::connections::FlowTotals;
use super::plan::Plan;
use super::stack;
use crate::engine::{Run, totals};

/// Everything measured in a run.
pub(crate) struct Measured {
    /// The applications' measurements, by flow.
    pub outcomes: Vec<application::FlowOutcome>,
    /// The tracer's, by flow.
    pub gauges: Vec<FlowTotals>,
    /// The emulator's.
    pub statistics: Statistics,
    /// What the tracer missed; `None` if it failed.
    pub unseen: Option<Counts>,
    /// Why the run ended early, if it did.
    pub incomplete: Option<String>,
    /// How long it ran.
    pub duration: Duration,
    /// How long after the start of the run the applications were ready.
    pub late: Duration,
}

/// The result of a run, except for its cost.
pub(super) fn result(lab: &Lab, run: &Run<'_>, plan: &Plan, measured: &Measured) -> RunResult {
    let copies = run.experiment.flows();
    let statistics = &measured.statistics;
    let flows = copies.iter().enumerate().map(|(index, copy)| {
        let outcome = &measured.outcomes[index];
        flow_result(
            copy,
            outcome,
            statistics.flows[index],
            &measured.gauges[index],
        )
    });
    let pipe = |direction: DirectedLink| &statistics.pipes[direction.index()].statistics;
    let release = kernel_release();
    let hosts = plan
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.stack));
    let mut result = RunResult {
        stack: stack::describe(&release, hosts),
        // The clocks of a run are not more precise than milliseconds.
        duration_s: (measured.duration.as_secs_f64() * 1e3).round() / 1e3,
        incomplete: measured.incomplete.clone(),
        warnings: warnings(&copies, measured),
        emulator: Some(emulator_result(statistics)),
        ..totals::result(run, lab, flows.collect(), pipe)
    };
    result.versions.insert("kernel".to_owned(), release);
    result
}

/// Data packets that arrived.
pub(crate) fn data_packets(statistics: &Statistics) -> u64 {
    let arrived = |flow: &FlowCounts| flow.packets.saturating_sub(flow.lost);
    statistics.flows.iter().map(arrived).sum()
}

fn flow_result(
    copy: &FlowCopy<'_>,
    outcome: &application::FlowOutcome,
    counts: FlowCounts,
    gauge: &FlowTotals,
) -> FlowResult {
    let programs = matches!(copy.flow.application, Application::Command { .. });
    let micros = |us: u32| Duration::from_micros(us.into());
    // Nothing else counts the datagrams of programs.
    let datagram_bytes = if programs { counts.datagram_bytes } else { 0 };
    // Only the tracer sees the sockets of programs.
    let (retransmits, timeouts, ecn_signals) = if programs {
        (gauge.retransmits, gauge.timeouts, gauge.ecn_signals)
    } else {
        (outcome.retransmits, outcome.timeouts, outcome.ecn_signals)
    };
    let outcome = FlowOutcome {
        bytes: outcome.bytes + datagram_bytes,
        bytes_per_second: match datagram_bytes {
            0 => outcome.bytes_per_second.clone(),
            _ => Vec::new(),
        },
        active: outcome.active,
        completion: outcome.completion,
        retransmits,
        timeouts,
        ecn_signals,
        rtt_min: outcome.rtt_min.or(gauge.rtt_min_us.map(micros)),
        rtt_mean: gauge
            .rtt_mean_us()
            .map(|us| Duration::from_nanos((us * 1e3) as u64)),
        packets_sent: counts.packets,
        packets_lost: counts.lost,
        object_times: outcome.object_times.clone(),
    };
    FlowResult {
        kernel_controls: gauge.controls.clone(),
        ..totals::flow_result(copy, &outcome)
    }
}

fn emulator_result(statistics: &Statistics) -> EmulatorResult {
    let lateness = statistics.lateness.summary();
    let mishaps = statistics.mishaps;
    let histogram = statistics.lateness.buckets().map(|(late, packets)| Late {
        us: late.as_nanos() as f64 / 1e3,
        packets,
    });
    EmulatorResult {
        packets: lateness.packets,
        lateness_p50_us: lateness.lateness_p50_us,
        lateness_p99_us: lateness.lateness_p99_us,
        lateness_max_us: lateness.lateness_max_us,
        histogram: histogram.collect(),
        device_drops: mishaps.device_drops,
        no_memory: mishaps.no_memory,
        unroutable: mishaps.unroutable,
        undelivered: mishaps.undelivered,
    }
}

fn warnings(copies: &[FlowCopy<'_>], measured: &Measured) -> Vec<String> {
    let mut warnings = measured.statistics.warnings();
    if let Some(unseen) = &measured.unseen {
        // Missed runs of the tracer's programs on ACKs are included in the segments skipped.
        let lost = unseen.lost.iter().sum::<u64>() + unseen.missed_runs.max(unseen.skipped);
        if lost > 0 {
            warnings.push(format!("{lost} samples of connections were lost"));
        }
        if unseen.unwatched > 0 {
            warnings.push(format!(
                "{} connections were not traced: the kernel had no memory for it",
                unseen.unwatched
            ));
        }
    }
    if measured.late > Duration::ZERO {
        warnings.push(format!(
            "the applications were ready {:.1} ms after the beginning of the run",
            measured.late.as_nanos() as f64 / 1e6
        ));
    }
    for ((copy, outcome), gauge) in copies.iter().zip(&measured.outcomes).zip(&measured.gauges) {
        let name = &copy.name;
        if let Some(ssthresh) = gauge.impossible_ssthresh {
            warnings.push(format!(
                "flow {name} had an impossible slow-start threshold of {ssthresh} packets"
            ));
        }
        if outcome.datagrams_skipped > 0 {
            warnings.push(format!(
                "flow {name} left out {} datagrams that this machine was too late to send",
                outcome.datagrams_skipped
            ));
        }
        if outcome.datagrams_unread > 0 {
            warnings.push(format!(
                "flow {name} lost {} datagrams that this machine was too late to read",
                outcome.datagrams_unread
            ));
        }
    }
    warnings
}

/// The kernel's release, as in `uname -r`.
fn kernel_release() -> String {
    let system = Machine::here().system;
    system.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fairwind_lab::emulator::NamedPipe;
    use fairwind_path::pipe::{Pipe, PipeConfig};
    use fairwind_path::units::Time;
    use fairwind_scenario::Experiment;

    use super::*;

    #[test]
    fn what_was_measured_until_the_trace_failed_is_a_result() {
        let text = "duration = \"10s\"\n[[link]]\nbetween = [\"a\", \"b\"]\n\
                    [[flow]]\nfrom = \"a\"\nto = \"b\"\n";
        let experiment = Experiment::parse(text, "x.toml", Path::new(""), &[]).unwrap();
        let plan = Plan::of(&experiment).unwrap();
        let run = Run {
            experiment: &experiment,
            seed: 1,
            folder: Path::new(""),
        };
        let mut pipe: Pipe<()> = Pipe::new(&PipeConfig::default(), 1);
        let pipe = NamedPipe {
            name: "link".to_owned(),
            statistics: pipe.statistics(Time::from_secs(4)),
        };
        let measured = Measured {
            outcomes: vec![application::FlowOutcome {
                bytes: 3_000_000,
                active: Duration::from_secs(4),
                ..application::FlowOutcome::default()
            }],
            gauges: vec![FlowTotals::default()],
            statistics: Statistics {
                pipes: vec![pipe.clone(), pipe],
                flows: vec![FlowCounts::default()],
                unread: Some("reading /proc".to_owned()),
                ..Statistics::default()
            },
            unseen: None,
            incomplete: Some("after 4.000 s: the kernel does not answer".to_owned()),
            duration: Duration::from_secs(4),
            late: Duration::from_millis(3),
        };
        let result = result(&Lab::default(), &run, &plan, &measured);
        assert_eq!(result.flows[0].bytes, 3_000_000);
        assert_eq!(result.flows[0].goodput_mbps, 6.0);
        assert_eq!(result.duration_s, 4.0);
        assert_eq!(result.incomplete, measured.incomplete);
        let warnings = result.warnings.join("\n");
        assert!(warnings.contains("reading /proc"), "{warnings}");
        assert!(
            warnings.contains("3.0 ms after the beginning"),
            "{warnings}"
        );
    }
}
