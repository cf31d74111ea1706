//! One command behind one path: the command's host, a pipe in each direction, and the emulator
//! between them. The peer is a second host, or this machine's own network.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::thread;

use fairwind_cc::kernel::{self, Choice};
use fairwind_kernel::BlockedSignals;
use fairwind_path::pipe::PipeConfig;

use crate::emulator::{Capture, Emulator, EmulatorOptions, Statistics};
use crate::error::{During, LabError, joined};
use crate::host::process::{self, Program, shell, with_placeholder};
use crate::host::{Host, HostConfig, Offload, Pair};
use crate::network::{FlowId, FlowKey, Network, PipeId};
use crate::privilege;

/// Addresses of the command's host and, if the peer is a host of the lab, of the peer.
const ADDRESSES: Pair = Pair::numbered(0);
/// Placeholder for the peer's address in command lines.
pub const PEER_PLACEHOLDER: &str = "{peer}";

/// A command and its path.
#[derive(Clone, Debug)]
pub struct ExecConfig {
    /// The pipe from the command to the peer.
    pub there: PipeConfig,
    /// The pipe from the peer to the command.
    pub back: PipeConfig,
    /// TCP and UDP ports at the peer, for the pipes `there` and `back`. Packets to or from the
    /// first port are in class 0 of the pipe's scheduler, those of the second in class 1 and so on;
    /// all others are in the class after the last.
    pub classes: [Vec<u16>; 2],
    /// Congestion control of both ends; `None`: the machine's default.
    pub congestion_control: Option<Choice>,
    /// Who segments what the hosts send.
    pub offload: Offload,
    /// Seed of all random choices.
    pub seed: u64,
    /// The other end of the path.
    pub peer: Peer,
    /// Capture files for the pipes `there` and `back`.
    pub capture: Option<[PathBuf; 2]>,
    /// The command and its arguments; if empty, a shell.
    pub command: Vec<OsString>,
}

/// The other end of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A host of the lab.
    Host {
        /// A server's command line, for the shell. The server runs beside the command, which starts
        /// once a socket in the peer listens.
        server: Option<OsString>,
    },
    /// This machine's own network: see [`Host::of_this_machine`].
    Machine,
}

impl Peer {
    /// A host of the lab that runs this server.
    pub fn serving(line: impl Into<OsString>) -> Peer {
        Peer::Host {
            server: Some(line.into()),
        }
    }
}

impl ExecConfig {
    /// A command behind a path that is the same in both directions, with a host of the lab as the
    /// peer.
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

/// Outcome of a command.
#[derive(Clone, Debug)]
pub struct ExecOutcome {
    /// The command's exit code; 128 plus the signal's number if a signal ended it.
    pub exit_code: u8,
    /// Statistics of the emulator.
    pub statistics: Statistics,
}

/// Runs the command behind the path and waits until it ends. The command has the caller's standard
/// input and outputs. While it runs, it gets the SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1 and
/// SIGUSR2 sent to this process.
///
/// Nothing is left behind when this returns or the process ends, however it ends.
///
/// # Errors
/// Fails if the configuration is invalid, a privilege or the congestion control is missing, the
/// kernel refuses a host or device, or a program cannot be started. A command that fails is not an
/// error.
pub fn run(config: &ExecConfig) -> Result<ExecOutcome, LabError> {
    run_with(config, |_| Ok(())).map(|(outcome, ())| outcome)
}

/// Like [`run`], but first calls `begin` with the lab's hosts, the command's first, before any
/// program runs in them. The value that `begin` returns is returned with the outcome.
///
/// # Errors
/// Fails like [`run`], or if `begin` fails.
pub fn run_with<T, E: From<LabError>>(
    config: &ExecConfig,
    begin: impl FnOnce(&[Host]) -> Result<T, E>,
) -> Result<(ExecOutcome, T), E> {
    config.there.check().map_err(LabError::from)?;
    config.back.check().map_err(LabError::from)?;
    privilege::check()?;
    let control = config.congestion_control.as_ref();
    let control = control.map(kernel::provide).transpose();
    let control = control.map_err(LabError::from)?;
    let control = control.as_ref().map(|control| control.name().to_owned());
    let (hosts, addresses) = ends(config, control)?;
    let (network, pipes) = network(config, addresses)?;

    let [here, there] = hosts.clone();
    let command = command(&here, &config.command, addresses);
    let server = match &config.peer {
        Peer::Host { server } => server.as_deref(),
        Peer::Machine => None,
    };
    let server = server.map(|line| program(&there, shell(line), addresses.host));
    let servers = Vec::from_iter(server);

    let options = EmulatorOptions {
        seed: config.seed,
        captures: captures(config, pipes),
        ..EmulatorOptions::default()
    };
    let _held_back = BlockedSignals::new()
        .during("holding signals back")
        .map_err(E::from)?;
    let begun = begin(match config.peer {
        Peer::Host { .. } => &hosts,
        Peer::Machine => &hosts[..1],
    })?;
    let emulator = Emulator::start(&network, &hosts, options)?;
    let ended = joined(thread::spawn(move || process::run(command, servers)).join());
    let statistics = emulator.stop();
    let outcome = ExecOutcome {
        exit_code: ended?,
        statistics,
    };
    Ok((outcome, begun))
}

/// The command's host and the peer, and their addresses.
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

fn command(host: &Host, words: &[OsString], addresses: Pair) -> Program {
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

/// A variable that makes the shell's prompt show that it runs in the lab. In bash, the first prompt
/// prepends the mark to the one from the start files. Shells that take their prompt from start
/// files alone are left unmarked.
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

fn program(host: &Host, words: Vec<OsString>, peer: Ipv4Addr) -> Program {
    let environment = [("FAIRWIND_HOST", host.address()), ("FAIRWIND_PEER", peer)];
    let peer = peer.to_string();
    let words = words
        .iter()
        .map(|word| with_placeholder(word, PEER_PLACEHOLDER, &peer));
    Program {
        namespace: host.namespace().clone(),
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
            assert_eq!(network.routes().host(stranger), reached);
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
