//! One command behind one path: two hosts, a pipe in each direction, and the emulator between.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::thread;

use fairwind_path::pipe::PipeConfig;

use crate::emulator::{Emulator, EmulatorOptions};
use crate::host::{Host, HostConfig, Offload};
use crate::network::Network;
use crate::process::{self, HeldBack};
use crate::program::{Program, shell, with_placeholder};
use crate::statistics::Statistics;
use crate::{LabError, congestion_control, privilege};

/// The address of the host that the command runs in.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The address of the host at the other end of the path.
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// In arguments this stands for the address of the other end.
pub const PEER_PLACEHOLDER: &str = "{peer}";

/// A command and its path.
#[derive(Clone, Debug)]
pub struct ExecConfig {
    /// From the command to the peer.
    pub there: PipeConfig,
    /// From the peer to the command.
    pub back: PipeConfig,
    /// The congestion control of both hosts: the kernel's, or one of `cc/`, loaded for the run; none:
    /// the machine's default.
    pub congestion_control: Option<String>,
    /// Who cuts into segments what the hosts send.
    pub offload: Offload,
    /// Seed of all that is left to chance.
    pub seed: u64,
    /// A command line for the shell of the peer. It runs before and beside the command, which starts
    /// when a socket in the peer listens.
    pub server: Option<OsString>,
    /// The command and its arguments; empty: a shell.
    pub command: Vec<OsString>,
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

/// As [`run`], and calls `begin` with both hosts before a program runs in them; what it gives comes
/// back with the outcome.
///
/// # Errors
/// See [`run`]; and what `begin` fails with.
pub fn run_with<T, E: From<LabError>>(
    config: &ExecConfig,
    begin: impl FnOnce(&[Host; 2]) -> Result<T, E>,
) -> Result<(ExecOutcome, T), E> {
    config.there.check().map_err(LabError::from)?;
    config.back.check().map_err(LabError::from)?;
    privilege::check()?;
    let control = config.congestion_control.as_deref();
    let control = control.map(congestion_control::provide).transpose()?;
    let host = |address| {
        Host::create(HostConfig {
            offload: config.offload,
            congestion_control: control.as_ref().map(|control| control.name.clone()),
            ..HostConfig::new(address)
        })
    };
    let hosts = [host(HOST)?, host(PEER)?];
    let mut network = Network::new();
    let [here, there] = [network.add_host(HOST)?, network.add_host(PEER)?];
    network.add_pipe("there", here, there, config.there.clone())?;
    network.add_pipe("back", there, here, config.back.clone())?;

    let [here, there] = hosts.clone();
    let command = program(here, command_words(&config.command), PEER);
    let server = config.server.as_deref();
    let server = server.map(|text| program(there, shell(text), HOST));
    let servers: Vec<Program> = server.into_iter().collect();

    let options = EmulatorOptions {
        seed: config.seed,
        ..EmulatorOptions::default()
    };
    let _held_back = HeldBack::new()?;
    let begun = begin(&hosts)?;
    let emulator = Emulator::start(&network, &hosts, options)?;
    let programs = thread::spawn(move || process::run(&command, &servers));
    let ended = match programs.join() {
        Ok(ended) => ended,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    let statistics = emulator.stop()?;
    let outcome = ExecOutcome {
        exit_code: ended?,
        statistics,
    };
    Ok((outcome, begun))
}

fn command_words(command: &[OsString]) -> Vec<OsString> {
    match command.is_empty() {
        true => vec![std::env::var_os("SHELL").unwrap_or("/bin/sh".into())],
        false => command.to_vec(),
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
