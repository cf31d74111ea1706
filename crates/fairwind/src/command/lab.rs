//! `fairwind lab`: a command behind an emulated path, or an experiment on the running kernel.

mod run;
mod traced;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use fairwind_experiment::units_text::{self, Amount, UnitError};
use fairwind_lab::LabError;
use fairwind_lab::exec::ExecConfig;
use fairwind_lab::host::Offload;
use fairwind_lab::statistics::Statistics;
use fairwind_path::delay::{Delay, DelayConfig};
use fairwind_path::loss::LossConfig;
use fairwind_path::pipe::PipeConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::units::{Bandwidth, Duration};
use serde_json::{Value, json};

use crate::failure::Failure;

#[derive(Subcommand)]
pub enum Command {
    Exec(Exec),
    Run(run::Run),
}

impl Command {
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Exec(exec) => exec.run(),
            Self::Run(run) => run.run(),
        }
    }
}

/// Run a command behind an emulated path
///
/// The command runs in a host of its own, a network namespace whose only way out is the path. At the
/// other end is a second host, the peer, at 10.77.0.2; what --server names runs there. {peer} in the
/// command stands for the peer's address, and FAIRWIND_PEER holds it. Both directions of the path are
/// alike. Without a command there is a shell. The exit code is the command's.
///
/// Needs root. When the command ends, or this process in any way, nothing is left of the hosts and
/// their programs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind lab exec --bandwidth 50Mbit/s --delay 15ms -- ping -c 5 {peer}
  fairwind lab exec --bandwidth 50Mbit/s --delay 15ms --queue 100pkt --server 'iperf3 -s -1' \\
      --congestion-control sfsack -- iperf3 -c {peer}
  fairwind lab exec --delay 40ms --loss 0.1% --server 'python3 -m http.server 80' -- curl {peer}
  fairwind lab exec --bandwidth 20Mbit/s --delay 30ms --server 'iperf3 -s -1' --trace iperf.trace \\
      -- iperf3 -c {peer}")]
pub struct Exec {
    /// Bandwidth of each direction, of IP packets with their headers [default: unlimited]
    #[arg(long, value_name = "RATE", value_parser = bandwidth)]
    bandwidth: Option<Bandwidth>,
    /// Delay of each direction; a round trip has it twice
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0ms")]
    delay: Duration,
    /// Queue before each direction, in packets or bytes [default: 50pkt with a bandwidth]
    #[arg(long, value_name = "AMOUNT", value_parser = queue)]
    queue: Option<Capacity>,
    /// Share of the packets of each direction that is lost at random
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0%")]
    loss: f64,
    /// Congestion control of both hosts: one of the kernel's, or one of `fairwind cc list`, loaded for
    /// this run [default: the machine's]
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    /// Seed of the random losses
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// What the hosts leave to their network devices
    #[arg(long, value_enum, default_value_t = Offloads::Send)]
    offload: Offloads,
    /// Command line to run in the peer; the command starts when something listens there
    #[arg(long, value_name = "COMMAND LINE")]
    server: Option<OsString>,
    /// File for what the emulator did, as JSON
    #[arg(long, value_name = "FILE")]
    statistics: Option<PathBuf>,
    #[command(flatten)]
    traced: traced::Traced,
    /// Command and its arguments [default: a shell]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What network devices do; on the path there is one packet a segment in any case.
#[derive(Clone, Copy, ValueEnum)]
enum Offloads {
    /// Nothing: captures in the hosts show what is on the path
    None,
    /// Cut what is sent into segments, as most cards do; captures show large packets
    Send,
    /// Hand over as one what arrives together, too; the receiver acknowledges less often
    Both,
}

impl From<Offloads> for Offload {
    fn from(offloads: Offloads) -> Offload {
        match offloads {
            Offloads::None => Offload::None,
            Offloads::Send => Offload::Send,
            Offloads::Both => Offload::Both,
        }
    }
}

impl Exec {
    fn run(self) -> Result<(), Failure> {
        let path = self.path();
        let config = ExecConfig {
            there: path.clone(),
            back: path,
            congestion_control: self.congestion_control,
            offload: self.offload.into(),
            seed: self.seed,
            server: self.server,
            command: self.command,
        };
        let outcome = self.traced.run(&config)?;
        for warning in outcome.statistics.warnings() {
            eprintln!("warning: {warning}");
        }
        if let Some(file) = self.statistics {
            let text = format!("{:#}\n", statistics_json(&outcome.statistics));
            fs::write(&file, text)
                .map_err(|error| Failure::work(format!("{}: {error}", file.display())))?;
        }
        match outcome.exit_code {
            0 => Ok(()),
            code => std::process::exit(code.into()),
        }
    }

    fn path(&self) -> PipeConfig {
        let limited = self.bandwidth.is_some();
        PipeConfig {
            bandwidth: self.bandwidth.map_or(Rate::Unlimited, Rate::Constant),
            delay: DelayConfig {
                base: Delay::Constant(self.delay),
                ..DelayConfig::default()
            },
            capacity: self.queue.unwrap_or(match limited {
                true => Capacity::Packets(50),
                false => Capacity::Unlimited,
            }),
            loss: match self.loss > 0.0 {
                true => LossConfig::Bernoulli(self.loss),
                false => LossConfig::None,
            },
            ..PipeConfig::default()
        }
    }
}

fn failure(error: LabError) -> Failure {
    match error {
        LabError::Path(_) | LabError::UnknownControl { .. } => Failure::input(error),
        _ => Failure::work(error),
    }
}

fn statistics_json(statistics: &Statistics) -> Value {
    let pipes: Vec<Value> = statistics
        .pipes
        .iter()
        .map(|pipe| {
            let s = &pipe.statistics;
            json!({
                "name": pipe.name, "packets": s.packets, "bytes": s.bytes, "drops": s.drops,
                "random_losses": s.random_losses, "utilization": s.utilization,
                "queue_mean_pkts": s.queue_mean_pkts, "queue_p99_pkts": s.queue_p99_pkts,
            })
        })
        .collect();
    let histogram: Vec<Value> = statistics
        .lateness
        .buckets()
        .map(|(late, packets)| json!([late.as_nanos() as f64 / 1e3, packets]))
        .collect();
    let lateness = statistics.lateness.summary();
    let mishaps = statistics.mishaps;
    json!({
        "emulator": {
            "packets": lateness.packets,
            "lateness_p50_us": lateness.lateness_p50_us,
            "lateness_p99_us": lateness.lateness_p99_us,
            "lateness_max_us": lateness.lateness_max_us,
            "lateness_histogram_us": histogram,
            "device_drops": mishaps.device_drops,
            "no_memory": mishaps.no_memory,
            "unroutable": mishaps.unroutable,
            "undelivered": mishaps.undelivered,
        },
        "pipes": pipes,
    })
}

fn text(error: UnitError) -> String {
    format!("{}; {}", error.message, error.help)
}

fn bandwidth(value: &str) -> Result<Bandwidth, String> {
    units_text::bandwidth(value).map_err(text)
}

fn duration(value: &str) -> Result<Duration, String> {
    units_text::duration(value).map_err(text)
}

fn share(value: &str) -> Result<f64, String> {
    units_text::percentage(value).map_err(text)
}

fn queue(value: &str) -> Result<Capacity, String> {
    match units_text::amount(value).map_err(text)? {
        Amount::Bytes(bytes) => Ok(Capacity::Bytes(bytes)),
        Amount::Packets(packets) => u32::try_from(packets)
            .map(Capacity::Packets)
            .map_err(|_| format!("{packets} packets are too many; 4294967295 are the most")),
    }
}
