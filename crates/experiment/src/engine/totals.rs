//! Converts the engines' totals to the units of results.

use std::collections::BTreeMap;

use fairwind_path::pipe::PipeStatistics;
use fairwind_path::rate::Rate;
use fairwind_result::statistic::nearest_rank;
use fairwind_result::{FORMAT_VERSION, FlowResult, LinkResult, Performance, RunResult};
use fairwind_scenario::file::{ExperimentFile, flow};
use fairwind_scenario::topology::DirectedLink;
use fairwind_scenario::{Experiment, FlowCopy};
use fairwind_sim::outcome::FlowOutcome;

use super::{Engine, Run};

/// The result of a run, with nothing that only one engine has. `pipe` returns the totals of a pipe.
pub(super) fn result<'a>(
    run: &Run<'_>,
    engine: &dyn Engine,
    flows: Vec<FlowResult>,
    pipe: impl Fn(DirectedLink) -> &'a PipeStatistics,
) -> RunResult {
    let experiment = run.experiment;
    let file = experiment.file();
    let links = experiment.reported_links().into_iter();
    RunResult {
        format_version: FORMAT_VERSION,
        title: experiment.title().to_owned(),
        engine: engine.name().to_owned(),
        seed: run.seed,
        versions: BTreeMap::from([("fairwind".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
        accounting: experiment.accounting(),
        stack: file.stack.word().to_owned(),
        duration_s: file.duration.as_secs_f64(),
        warmup_s: file.warmup.as_secs_f64(),
        overrides: experiment.overrides().to_vec(),
        incomplete: None,
        warnings: Vec::new(),
        flows,
        links: links
            .map(|link| link_result(link, file, pipe(link)))
            .collect(),
        emulator: None,
        performance: Performance::default(),
    }
}

/// The position of each pipe in the result's links; none for pipes that are not reported.
pub(super) fn link_of_pipe(experiment: &Experiment) -> Vec<Option<usize>> {
    let mut links = vec![None; 2 * experiment.file().link.len()];
    for (index, direction) in experiment.reported_links().iter().enumerate() {
        links[direction.index()] = Some(index);
    }
    links
}

/// A flow's totals in the units of results.
pub(super) fn flow_result(copy: &FlowCopy<'_>, outcome: &FlowOutcome) -> FlowResult {
    let flow = copy.flow;
    let active_s = outcome.active.as_secs_f64();
    let mbps = |bytes: u64, seconds: f64| bytes as f64 * 8.0 / 1e6 / seconds;
    let each_second: Vec<f64> = outcome
        .bytes_per_second
        .iter()
        .map(|&bytes| mbps(bytes, 1.0))
        .collect();
    let uses_tcp = flow.application.uses_tcp();
    let is_web = matches!(flow.application, flow::Application::Web { .. });
    let mut object_times = outcome.object_times.clone();
    object_times.sort_unstable();
    let object_time = |share: f64| {
        let time = nearest_rank(&object_times, share)?;
        is_web.then(|| time.as_secs_f64())
    };
    FlowResult {
        name: copy.name.clone(),
        congestion_control: uses_tcp.then(|| flow.congestion_control.value.clone()),
        bytes: outcome.bytes,
        goodput_mbps: if active_s > 0.0 {
            mbps(outcome.bytes, active_s)
        } else {
            0.0
        },
        goodput_sd_mbps: standard_deviation(&each_second),
        completion_s: outcome.completion.map(|d| d.as_secs_f64()),
        retransmits: outcome.retransmits,
        timeouts: outcome.timeouts,
        ecn_signals: (uses_tcp && flow.ecn).then_some(outcome.ecn_signals),
        rtt_min_ms: outcome.rtt_min.map(|d| d.as_secs_f64() * 1e3),
        rtt_mean_ms: outcome.rtt_mean.map(|d| d.as_secs_f64() * 1e3),
        application: flow.application.kind().to_owned(),
        start_s: copy.start.as_secs_f64(),
        packets_sent: outcome.packets_sent,
        packets_lost: outcome.packets_lost,
        objects: is_web.then_some(outcome.object_times.len() as u64),
        object_p50_s: object_time(0.5),
        object_p99_s: object_time(0.99),
        kernel_controls: Vec::new(),
    }
}

/// The totals of one direction of a link.
fn link_result(
    direction: DirectedLink,
    file: &ExperimentFile,
    statistics: &PipeStatistics,
) -> LinkResult {
    let link = &file.link[direction.link()];
    let limited = !matches!(direction.of(link).bandwidth, Rate::Unlimited);
    LinkResult {
        name: direction.name(link),
        utilization: limited.then_some(statistics.utilization),
        queue_mean_pkts: statistics.queue_mean_pkts,
        queue_p99_pkts: statistics.queue_p99_pkts as f64,
        drops: statistics.drops,
        marks: statistics.marks,
        random_losses: statistics.random_losses,
        policed: statistics.policed,
        packets: statistics.packets,
        bytes: statistics.bytes,
    }
}

/// Sample standard deviation (n - 1); `None` for fewer than two values.
fn standard_deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fairwind_path::units::Duration;

    use super::*;

    fn experiment() -> Experiment {
        let text = "duration = \"10s\"\n\
                    [[link]]\nbetween = [\"a\", \"b\"]\nbandwidth = \"10Mbit/s\"\n\
                    [[flow]]\nname = \"one\"\nfrom = \"a\"\nto = \"b\"\nstart = \"1s\"\n\
                    congestion_control = \"reno\"\n\
                    [[flow]]\nname = \"udp\"\nfrom = \"a\"\nto = \"b\"\n\
                    application = { kind = \"constant\", rate = \"1Mbit/s\" }\n";
        Experiment::parse(text, "x.toml", Path::new(""), &[]).unwrap()
    }

    #[test]
    fn an_outcome_becomes_megabits_milliseconds_and_seconds() {
        let experiment = experiment();
        let outcome = FlowOutcome {
            bytes: 2_500_000,
            bytes_per_second: vec![1_000_000, 1_500_000],
            active: Duration::from_secs(4),
            completion: Some(Duration::from_millis(3_500)),
            retransmits: 3,
            timeouts: 1,
            rtt_min: Some(Duration::from_micros(20_500)),
            rtt_mean: Some(Duration::from_millis(40)),
            ..FlowOutcome::default()
        };
        let flows = experiment.flows();
        let result = flow_result(&flows[0], &outcome);
        assert_eq!(result.name, "one");
        assert_eq!(result.congestion_control.as_deref(), Some("reno"));
        assert_eq!(result.goodput_mbps, 5.0);
        // 8 and 12 Mbit/s deviate by 2 from the mean: the square root of 8 / (2 - 1).
        assert_eq!(result.goodput_sd_mbps, Some(8f64.sqrt()));
        assert_eq!(result.completion_s, Some(3.5));
        assert_eq!((result.retransmits, result.timeouts), (3, 1));
        assert_eq!(result.rtt_min_ms, Some(20.5));
        assert_eq!(result.rtt_mean_ms, Some(40.0));
        assert_eq!(result.start_s, 1.0);
        assert_eq!((result.objects, result.object_p50_s), (None, None));
    }

    #[test]
    fn a_flow_that_was_never_active_has_no_goodput() {
        let experiment = experiment();
        let result = flow_result(&experiment.flows()[1], &FlowOutcome::default());
        assert_eq!(result.goodput_mbps, 0.0);
        assert_eq!(result.goodput_sd_mbps, None);
        assert_eq!(result.congestion_control, None);
        assert_eq!(result.application, "constant");
    }
}
