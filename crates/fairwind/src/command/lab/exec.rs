//! `fairwind lab exec`: one command behind one path.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use fairwind_cc::kernel::Choice;
use fairwind_lab::emulator::Statistics;
use fairwind_lab::exec::{ExecConfig, Peer};
use fairwind_lab::host::Offload;
use fairwind_path::pipe::PipeConfig;
use serde_json::{Value, json};

use super::{OFFLOADS, path, traced};
use crate::command::cc::value;
use crate::failure::Failure;
use crate::output::{self, LaterFile};
use crate::words::one_of;

/// Run a command behind an emulated path
///
/// The command runs in a host of its own, a network namespace whose only way out is the path. The
/// other end is a second host, the peer, which runs the command of --server; with --host it is this
/// machine. {peer} in the command stands for the address of the other end, and FAIRWIND_PEER holds it;
/// FAIRWIND_HOST holds the command's own. Without a command there is a shell. The exit code is the
/// command's.
///
/// Needs root. However it ends, nothing is left of the hosts and their programs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind lab exec --bandwidth 50Mbit/s --delay 15ms -- ping -c 5 {peer}
  fairwind lab exec --bandwidth 50Mbit/s --delay 15ms --queue 100pkt --server 'iperf3 -s -1' \\
      --congestion-control sfsack --parameter tau=50ms -- iperf3 -c {peer}
  fairwind lab exec --delay 40ms --loss 0.1% --server 'python3 -m http.server 80' -- curl {peer}
  fairwind lab exec --bandwidth 20Mbit/s --delay 30ms --server 'iperf3 -s -1' --trace iperf.trace \\
      -- iperf3 -c {peer}
  fairwind lab exec --bandwidth 16Mbit/s --set reverse.bandwidth=1Mbit/s --set 'aqm={kind=\"codel\"}' \\
      --set jitter=2ms --capture dsl.pcapng --host -- curl http://{peer}:8080/

With --host:
  Services that listen on all addresses of this machine are reached at {peer}: 10.77.0.2, or
  10.77.N.2 beside others. The command reaches hosts beyond this machine only if the machine forwards
  and masquerades; fairwind never changes that. To set it, then to undo it (the last line only if it was
  0 before):
    sysctl -w net.ipv4.ip_forward=1
    iptables -t nat -A POSTROUTING -s 10.77.0.0/16 ! -o fw+ -j MASQUERADE
    iptables -t nat -D POSTROUTING -s 10.77.0.0/16 ! -o fw+ -j MASQUERADE
    sysctl -w net.ipv4.ip_forward=0")]
pub(crate) struct Exec {
    #[command(flatten)]
    path: path::PathOptions,
    /// Congestion control of all connections of both hosts: one of the kernel's, or one of `fairwind cc list`,
    /// loaded for this run [default: the machine's]
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    /// Set a parameter of that congestion control, which is then fairwind's own; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::assignment)]
    #[arg(requires = "congestion_control")]
    parameter: Vec<(String, String)>,
    /// Seed of all random choices on the path
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// What the hosts leave to their network devices
    #[arg(long, value_name = "MODE", value_parser = one_of(OFFLOADS), default_value = "send")]
    offload: Offload,
    /// Command line to run in the peer's shell; the command starts when something listens there, and fails if
    /// nothing does within 30 s
    #[arg(long, value_name = "COMMAND LINE")]
    server: Option<OsString>,
    /// Put this machine at the other end instead of a peer; not with --server
    #[arg(long, conflicts_with = "server")]
    host: bool,
    /// Write what the emulator did to this file, as JSON
    #[arg(long, value_name = "FILE")]
    statistics: Option<PathBuf>,
    #[command(flatten)]
    traced: traced::Traced,
    /// Command and its arguments [default: a shell]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Exec {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let control = self.control()?;
        let mut config = ExecConfig {
            congestion_control: control,
            offload: self.offload,
            seed: self.seed,
            peer: if self.host {
                Peer::Machine
            } else {
                Peer::Host {
                    server: self.server,
                }
            },
            ..ExecConfig::new(PipeConfig::default(), self.command)
        };
        self.path.apply(&mut config)?;
        let file = self.statistics.as_deref().map(LaterFile::open);
        let file = file.transpose()?;
        let outcome = self.traced.run(&config)?;
        // The command has run: whatever fails from now on, its exit code stays.
        for warning in outcome.statistics.warnings() {
            output::note(&format!("warning: {warning}"));
        }
        if let Some(file) = file {
            let text = format!("{:#}", statistics_json(&outcome.statistics));
            if let Err(failure) = file.replace(&text) {
                output::note(&format!("error: {}", failure.message()));
            }
        }
        match outcome.exit_code {
            0 => Ok(()),
            code => std::process::exit(code.into()),
        }
    }

    fn control(&self) -> Result<Option<Choice>, Failure> {
        let name = self.congestion_control.as_ref();
        name.map(|name| value::choice(name, &self.parameter))
            .transpose()
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
                "marks": s.marks, "random_losses": s.random_losses, "policed": s.policed,
                "utilization": s.utilization,
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
