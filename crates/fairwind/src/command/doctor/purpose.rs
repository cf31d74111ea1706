//! What a host may be used for, and what each use requires.

use clap::ValueEnum;

use super::Goal;
use super::buffers;
use super::check::{self, Finding, State};
use super::facts::Facts;

/// What is to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Purpose {
    /// fairwind sim
    Simulator,
    /// fairwind lab
    Lab,
    /// fairwind trace
    Trace,
    /// fairwind cc load
    Controls,
    /// Congestion control off, in serve and put
    Nocc,
    /// fairwind serve
    Serve,
    /// fairwind get, put and copy
    Client,
    /// Buffers sized to a path of --bandwidth and --rtt
    Drs,
    /// fairwind advisor
    Advisor,
    /// make demo on the kernel
    Demo,
}

impl Purpose {
    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.expect("none is hidden").get_name().to_owned()
    }

    /// The findings about all that it requires.
    pub(super) fn findings(self, facts: &Facts, goal: Goal) -> Vec<Finding> {
        match self {
            Self::Simulator => Vec::new(),
            Self::Lab => lab(facts),
            Self::Trace => trace(facts),
            Self::Controls => controls(facts),
            Self::Nocc => nocc(facts),
            Self::Serve => serve(facts, goal),
            Self::Client => transfers(facts, goal),
            Self::Drs => drs(facts, goal),
            Self::Advisor => vec![check::echo(facts)],
            Self::Demo => demo(facts),
        }
    }
}

fn lab(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![check::lab_capabilities(facts), check::tun(facts)];
    // Without them, a refused trial would say nothing new.
    if findings.iter().all(|finding| finding.state == State::Fine) {
        findings.push(check::lab_trial(facts));
    }
    findings
}

fn trace(facts: &Facts) -> Vec<Finding> {
    vec![
        check::kernel(facts, (5, 18)),
        check::btf(facts),
        check::ebpf_capabilities(facts),
        check::cgroup(facts),
    ]
}

fn controls(facts: &Facts) -> Vec<Finding> {
    vec![
        check::kernel(facts, (6, 4)),
        check::btf(facts),
        check::ebpf_capabilities(facts),
        check::bpf_file_system(facts),
        check::loaded(facts),
    ]
}

fn nocc(facts: &Facts) -> Vec<Finding> {
    vec![check::nocc_loaded(facts), check::nocc_allowed(facts)]
}

fn serve(facts: &Facts, goal: Goal) -> Vec<Finding> {
    let mut findings = vec![
        check::kernel(facts, (5, 6)),
        check::port_21(facts),
        check::files(facts),
    ];
    findings.extend(transfers(facts, goal));
    findings
}

fn transfers(facts: &Facts, goal: Goal) -> Vec<Finding> {
    let mut findings = options(facts);
    findings.extend(buffers::autotuned(facts, goal));
    findings
}

fn drs(facts: &Facts, goal: Goal) -> Vec<Finding> {
    let mut findings = vec![check::kernel(facts, (5, 15))];
    findings.extend(options(facts));
    findings.extend(buffers::sized(facts, goal));
    findings
}

fn options(facts: &Facts) -> Vec<Finding> {
    vec![
        check::window_scaling(facts),
        check::timestamps(facts),
        check::sack(facts),
    ]
}

fn demo(facts: &Facts) -> Vec<Finding> {
    let mut findings = lab(facts);
    findings.push(check::kernel(facts, (6, 4)));
    findings.push(check::btf(facts));
    findings.push(check::ebpf_capabilities(facts));
    findings
}
