//! One command behind one path: its host, a pipe in each direction, and the emulator between. At the
//! other end is a second host, or this machine's own network.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::thread;

use fairwind_path::pipe::PipeConfig;

use crate::congestion_control::{self, Control};
use crate::emulator::{Capture, Emulator, EmulatorOptions};
use crate::host::{Host, HostConfig, Offload};
use crate::machine::Pair;
use crate::network::{FlowId, FlowKey, Network, PipeId};
use crate::process::{self, HeldBack};
use crate::program::{Program, shell, with_placeholder};
use crate::statistics::Statistics;
use crate::{LabError, privilege};

/// The addresses of the host that the command runs in and of its peer, if that is a host of the lab.
const ADDRESSES: Pair = Pair::numbered(0);
/// In arguments this stands for the address of the other end.
pub const PEER_PLACEHOLDER: &str = "{peer}";

/// A command and its path.
#[derive(Clone, Debug)]
pub struct ExecConfig {
    /// From the command to the peer.
    pub there: PipeConfig,
    /// From the peer to the command.
    pub back: PipeConfig,
    /// Ports at the peer, there and back: packets of the first's connections have the first class of
    /// the pipe's scheduler and so on, all others the class behind them.
    pub classes: [Vec<u16>; 2],
    /// The congestion control of both ends; none: the machine's default.
    pub congestion_control: Option<Control>,
    /// Who cuts into segments what the hosts send.
    pub offload: Offload,
    /// Seed of all that is left to chance.
    pub seed: u64,
    /// What is at the other end.
    pub peer: Peer,
    /// Files for the packets of both pipes, there and back.
    pub capture: Option<[PathBuf; 2]>,
    /// The command and its arguments; empty: a shell.
    pub command: Vec<OsString>,
}

/// The other end of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A host of the lab.
    Host {
        /// A command line for its shell. It runs before and beside the command, which starts when a
        /// socket in the peer listens.
        server: Option<OsString>,
    },
    /// This machine's own network: see [`Host::of_this_machine`].
    Machine,
}

impl Peer {
    /// A host of the lab with a server.
    pub fn serving(line: impl Into<OsString>) -> Peer {
        Peer::Host {
            server: Some(line.into()),
        }
    }
}

impl ExecConfig {
    /// A command behind a path that is the same in both directions, a host of the lab at its other
    /// end.
    pub fn new(path: PipeConfig, command: Vec<OsString>) -> ExecConfig {
        ExecConfig {
            there: path.clone(),
            back: path,
            classes: [Vec::new(), Vec::new()],
            congestion_control: None,
            offload: Offload::default(),
            seed: 1,
            peer: Peer::Host { server: None },
            capture: None,
            command,
        }
    }
}

/// How it went.
#[derive(Clone, Debug)]
pub struct ExecOutcome {
    /// The command's exit code; 128 and the signal's number if a signal ended it.
    pub exit_code: u8,
    /// What the emulator did.
    pub statistics: Statistics,
}

/// Runs the command behind the path and waits for its end. Standard input and outputs are the
/// caller's. SIGINT, SIGTERM, SIGHUP and their like go to the command while it runs.
///
/// Nothing is left when this returns, or when the process ends in any way.
///
/// # Errors
/// What is missing, wrong or refused; the command's own failure is no error.
pub fn run(config: &ExecConfig) -> Result<ExecOutcome, LabError> {
    run_with(config, |_| Ok(())).map(|(outcome, ())| outcome)
}

/// As [`run`], and calls `begin` with the lab's hosts, the command's first, before a program runs in
/// them; what it gives comes back with the outcome.
///
/// # Errors
/// See [`run`]; and what `begin` fails with.
pub fn run_with<T, E: From<LabError>>(
    config: &ExecConfig,
    begin: impl FnOnce(&[Host]) -> Result<T, E>,
) -> Result<(ExecOutcome, T), E> {
    config.there.check().map_err(LabError::from)?;
    config.back.check().map_err(LabError::from)?;
    privilege::check()?;
    let control = config.congestion_control.as_ref();
    let control = control.map(congestion_control::provide).transpose()?;
    let control = control.as_ref().map(|control| control.name.clone());
    let (hosts, addresses) = ends(config, control)?;
    let (network, pipes) = network(config, addresses)?;

    let [here, there] = hosts.clone();
    let command = command(here, &config.command, addresses);
    let server = match &config.peer {
        Peer::Host { server } => server.as_deref(),
        Peer::Machine => None,
    };
    let server = server.map(|line| program(there, shell(line), addresses.host));
    let servers: Vec<Program> = server.into_iter().collect();

    let options = EmulatorOptions {
        seed: config.seed,
        captures: captures(config, pipes),
        ..EmulatorOptions::default()
    };
    let _held_back = HeldBack::new()?;
    let begun = begin(match config.peer {
        Peer::Host { .. } => &hosts,
        Peer::Machine => &hosts[..1],
    })?;
    let emulator = Emulator::start(&network, &hosts, options)?;
    let programs = thread::spawn(move || process::run(&command, &servers));
    let ended = match programs.join() {
        Ok(ended) => ended,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    let statistics = emulator.stop();
    let outcome = ExecOutcome {
        exit_code: ended?,
        statistics,
    };
    Ok((outcome, begun))
}

/// The command's host and the other end, and their addresses.
fn ends(config: &ExecConfig, control: Option<String>) -> Result<([Host; 2], Pair), LabError> {
    let host = |address| {
        Host::create(HostConfig {
            offload: config.offload,
            congestion_control: control.clone(),
            ..HostConfig::new(address)
        })
    };
    match config.peer {
        Peer::Host { .. } => {
            let hosts = [host(ADDRESSES.host)?, host(ADDRESSES.machine)?];
            Ok((hosts, ADDRESSES))
        }
        Peer::Machine => {
            let (machine, pair) = Host::of_this_machine(config.offload, control.clone())?;
            Ok(([host(pair.host)?, machine], pair))
        }
    }
}

fn network(config: &ExecConfig, addresses: Pair) -> Result<(Network, [PipeId; 2]), LabError> {
    let mut network = Network::new();
    let here = network.add_host(addresses.host)?;
    let there = network.add_host(addresses.machine)?;
    let pipes = [
        network.add_pipe("there", here, there, config.there.clone())?,
        network.add_pipe("back", there, here, config.back.clone())?,
    ];
    let mut flows: HashMap<u16, FlowId> = HashMap::new();
    for ((pipe, ports), comes_back) in pipes.into_iter().zip(&config.classes).zip([false, true]) {
        for (class, port) in (0..).zip(ports) {
            let flow = flows.entry(*port).or_insert_with(|| {
                network.add_flow(FlowKey {
                    from: addresses.host,
                    to: addresses.machine,
                    port: Some(*port),
                })
            });
            network.set_class(pipe, *flow, comes_back, class);
        }
        network.set_default_class(pipe, ports.len() as u16);
    }
    if config.peer == Peer::Machine {
        network.set_gateway(there);
    }
    Ok((network, pipes))
}

fn captures(config: &ExecConfig, pipes: [PipeId; 2]) -> Vec<Capture> {
    let files = config.capture.iter().flatten();
    let captures = pipes.into_iter().zip(files);
    captures
        .map(|(pipe, file)| Capture {
            pipe,
            file: file.clone(),
            snap_length: Capture::HEADERS,
        })
        .collect()
}

fn command(host: Host, words: &[OsString], addresses: Pair) -> Program {
    if !words.is_empty() {
        return program(host, words.to_vec(), addresses.machine);
    }
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    let shell = shell.unwrap_or("/bin/sh".into());
    let prompt = prompt(&shell);
    let mut program = program(host, vec![shell], addresses.machine);
    program.environment.extend(prompt);
    program
}

/// What lets a shell's prompt show where it is. The first prompt of bash puts it before that of its
/// start files; shells that take theirs from there alone show nothing.
fn prompt(shell: &OsStr) -> Option<(OsString, OsString)> {
    match Path::new(shell).file_name()?.to_str()? {
        "bash" => Some((
            "PROMPT_COMMAND".into(),
            "PS1=\"(fairwind) $PS1\"; unset PROMPT_COMMAND".into(),
        )),
        "sh" | "dash" | "ash" | "ksh" | "mksh" => Some(("PS1".into(), "(fairwind) $ ".into())),
        _ => None,
    }
}

fn program(host: Host, words: Vec<OsString>, peer: Ipv4Addr) -> Program {
    let environment = [
        ("FAIRWIND_HOST", host.config().address),
        ("FAIRWIND_PEER", peer),
    ];
    let peer = peer.to_string();
    let words = words
        .iter()
        .map(|word| with_placeholder(word, PEER_PLACEHOLDER, &peer));
    Program {
        host,
        words: words.collect(),
        environment: environment
            .map(|(name, address)| (name.into(), address.to_string().into()))
            .into(),
        output: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(peer: Peer) -> ExecConfig {
        ExecConfig {
            classes: [vec![80, 443], vec![443]],
            peer,
            ..ExecConfig::new(PipeConfig::default(), Vec::new())
        }
    }

    #[test]
    fn ports_of_the_peer_choose_the_class_in_either_direction() {
        let config = config(Peer::Host { server: None });
        let (network, _) = network(&config, ADDRESSES).unwrap();
        let ports: Vec<_> = network.flows().iter().map(|flow| flow.port).collect();
        assert_eq!(ports, [Some(80), Some(443)]);
        let [there, back] = network.pipes() else {
            panic!("two pipes")
        };
        assert_eq!(
            there.classes,
            HashMap::from([((0, false), 0), ((1, false), 1)])
        );
        assert_eq!(there.default_class, 2);
        assert_eq!(back.classes, HashMap::from([((1, true), 0)]));
        assert_eq!(back.default_class, 1);
    }

    #[test]
    fn strangers_are_beyond_the_machine_alone() {
        let stranger = Ipv4Addr::new(192, 0, 2, 1);
        for (peer, reached) in [(Peer::Machine, Some(1)), (Peer::serving("true"), None)] {
            let (network, _) = network(&config(peer), ADDRESSES).unwrap();
            assert_eq!(network.routes().unwrap().host(stranger), reached);
        }
    }

    #[test]
    fn shells_that_can_show_where_they_are_do() {
        let name = |shell: &str| prompt(OsStr::new(shell)).map(|(name, _)| name);
        assert_eq!(name("/usr/bin/bash"), Some("PROMPT_COMMAND".into()));
        assert_eq!(name("sh"), Some("PS1".into()));
        assert_eq!(name("/usr/bin/fish"), None);
    }
}
