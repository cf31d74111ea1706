//! What a host may be used for, and what each use requires.

use clap::ValueEnum;

use super::Goal;
use super::buffers;
use super::check::{
    Finding, State, agent_memory, bpf_file_system, btf, cgroup, control_group, ebpf_capabilities,
    echo, files, kernel, kernel_tls, lab_capabilities, lab_trial, loaded, nocc_allowed,
    nocc_loaded, port_21, sockets, trace_trial, tun,
};
use super::facts::{Facts, SWITCHES};

/// What is to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Purpose {
    /// fairwind sim
    Simulator,
    /// fairwind lab
    Lab,
    /// fairwind trace
    Trace,
    /// fairwind run
    Run,
    /// fairwind agent
    Agent,
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
        let of = |checks: &[Check]| -> Vec<Finding> {
            checks.iter().map(|check| check(facts)).collect()
        };
        let transfers = || [options(facts), buffers::autotuned(facts, goal)].concat();
        match self {
            Self::Simulator => Vec::new(),
            Self::Lab => lab(facts),
            Self::Trace => trace(facts),
            Self::Run => run(facts),
            Self::Agent => of(&[
                |f| kernel(f, (6, 4)),
                btf,
                ebpf_capabilities,
                control_group,
                agent_memory,
            ]),
            Self::Controls => of(&[
                |f| kernel(f, (6, 4)),
                btf,
                ebpf_capabilities,
                bpf_file_system,
                loaded,
            ]),
            Self::Nocc => of(&[nocc_loaded, nocc_allowed]),
            Self::Serve => [
                of(&[|f| kernel(f, (5, 6)), port_21, files, kernel_tls]),
                transfers(),
            ]
            .concat(),
            Self::Client => transfers(),
            Self::Drs => [
                of(&[|f| kernel(f, (5, 15))]),
                options(facts),
                buffers::sized(facts, goal),
            ]
            .concat(),
            Self::Advisor => of(&[echo]),
            Self::Demo => [
                lab(facts),
                of(&[|f| kernel(f, (6, 4)), btf, ebpf_capabilities]),
            ]
            .concat(),
        }
    }
}

type Check = fn(&Facts) -> Finding;

fn lab(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![lab_capabilities(facts), tun(facts)];
    // Without them, a refused trial would say nothing new.
    if findings.iter().all(|finding| finding.state == State::Fine) {
        findings.push(lab_trial(facts));
    }
    findings
}

/// Without rights, or what the kernel needs for them, it does what needs neither.
fn run(facts: &Facts) -> Vec<Finding> {
    let needs: [Check; 4] = [|f| kernel(f, (6, 4)), btf, ebpf_capabilities, control_group];
    let mut findings: Vec<Finding> = needs.iter().map(|check| check(facts)).collect();
    // Who has the rights, and not the rest, is refused.
    if ebpf_capabilities(facts).state == State::Fine {
        return findings;
    }
    let sockets = sockets(facts);
    if sockets.state == State::Fine {
        for finding in &mut findings {
            finding.state = finding.state.min(State::Limited);
        }
    }
    findings.push(sockets);
    findings
}

fn trace(facts: &Facts) -> Vec<Finding> {
    let needs: [Check; 3] = [|f| kernel(f, (5, 18)), btf, ebpf_capabilities];
    let mut findings: Vec<Finding> = needs.iter().map(|check| check(facts)).collect();
    if findings.iter().all(|finding| finding.state == State::Fine) {
        findings.push(trace_trial(facts));
    }
    findings.push(cgroup(facts));
    findings
}

/// All but the sizing of buffers.
fn options(facts: &Facts) -> Vec<Finding> {
    let [options @ .., _] = &SWITCHES;
    options.iter().map(|switch| switch.check(facts)).collect()
}
