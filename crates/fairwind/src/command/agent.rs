//! `fairwind agent`: a policy for the connections of a host.

mod check;
mod status;

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use clap::{Args, Subcommand};
use fairwind_advice_client::{Client, ClientError};
use fairwind_agent::daemon::{self, Access, Handle, Options, Status};
use fairwind_kernel::raise_descriptor_limit;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::supervisor::Supervisor;
use crate::failure::Failure;
use crate::output;

/// Where the policy is looked for.
const POLICY: &str = "/etc/fairwind/agent.toml";
/// Where the agent listens.
pub(super) const SOCKET: &str = "/run/fairwind/agent.sock";

/// Take care of the connections of a host by the rules of a policy file
///
/// Connections of any program get the congestion control, the limit and the mark of the first rule that they meet: new ones
/// before their first data, those that are there at once. SIGTERM ends the agent, and connections keep what they have;
/// SIGHUP, as `fairwind agent reload`, reads the policy anew, and a mistake changes nothing. docs/reference/agent.md has
/// the rest.
///
/// Needs root, or CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and, for other network namespaces, CAP_SYS_ADMIN.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  fairwind agent check agent.toml --program rsync --remote 192.0.2.7:873
  fairwind agent --policy agent.toml --dry-run
  fairwind agent --socket-group fairwind --metrics /var/lib/node_exporter/fairwind.prom
  fairwind agent status --live
  fairwind agent undo"
)]
pub(crate) struct Agent {
    #[command(subcommand)]
    action: Option<Action>,
    /// Policy file (TOML)
    #[arg(long, value_name = "FILE", default_value = POLICY)]
    policy: PathBuf,
    /// Change nothing, and tell by `status` what would be changed
    #[arg(long)]
    dry_run: bool,
    /// Take care only of what is in this control group (version 2) or below it [default: the whole host]
    #[arg(long, value_name = "DIR")]
    control_group: Option<PathBuf>,
    /// Unix socket by which the agent is asked
    #[arg(long, value_name = "FILE", default_value = SOCKET)]
    socket: PathBuf,
    /// Let the members of this group ask [default: only who runs the agent]
    #[arg(long, value_name = "GROUP")]
    socket_group: Option<String>,
    /// Keep metrics in this file, in the text format of Prometheus
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Action {
    Check(check::Check),
    Status(status::ShowStatus),
    Reload(Reload),
    Undo(Undo),
}

/// The socket of an agent that runs.
#[derive(Args)]
struct Running {
    /// Unix socket of the agent
    #[arg(long, value_name = "FILE", default_value = SOCKET)]
    socket: PathBuf,
}

/// A client of the agent that listens there.
pub(super) fn client(socket: &Path) -> Result<Client, Failure> {
    let url = format!("unix:{}", socket.display());
    // A pass over many connections takes its time.
    let deadline = std::time::Duration::from_secs(30);
    Ok(Client::new(&url)?.with_deadline(deadline))
}

impl Running {
    fn client(&self) -> Result<Client, Failure> {
        client(&self.socket)
    }

    fn failed(error: ClientError) -> Failure {
        match error {
            ClientError::Unreachable { .. } => Failure::work(format!(
                "{error}\nno agent listens there: `fairwind agent` starts one"
            )),
            // Nothing is wrong with what was asked.
            ClientError::Refused { status: 403, .. } => Failure::work(error),
            error => error.into(),
        }
    }
}

/// Of a policy.
fn rules(number: usize) -> String {
    format!("{number} {}", if number == 1 { "rule" } else { "rules" })
}

/// Let the agent read its policy anew
///
/// A mistake changes nothing, and is told here.
#[derive(Args)]
struct Reload {
    #[command(flatten)]
    running: Running,
}

/// Give all connections back what they had before
///
/// The agent then leaves connections alone until `fairwind agent reload`. Without one that runs, what an ended one has left
/// is given back.
#[derive(Args)]
struct Undo {
    #[command(flatten)]
    running: Running,
    /// Control group of the agent that has ended, if it was given one
    #[arg(long, value_name = "DIR")]
    control_group: Option<PathBuf>,
}

impl Agent {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.action {
            Some(Action::Check(check)) => check.run(),
            Some(Action::Status(status)) => status.run(),
            Some(Action::Reload(reload)) => reload.run(),
            Some(Action::Undo(undo)) => undo.run(),
            None => self.serve(),
        }
    }

    fn serve(self) -> Result<(), Failure> {
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_target(false)
            .init();
        raise_descriptor_limit();
        let supervisor = Supervisor::of_environment()?;
        // Before anything else, so that none is missed.
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let mut agent = daemon::Agent::start(Options {
            policy: self.policy,
            group: self.control_group,
            is_dry: self.dry_run,
            metrics: self.metrics,
        })?;
        let (send, requests) = mpsc::channel();
        let handle = Handle::new(send);
        let access = Access {
            socket: self.socket,
            group: self.socket_group,
        };
        let _file = daemon::serve(&access, handle.clone()).map_err(Failure::work)?;
        let asked = format!("asked by {}", access.socket.display());
        output::line(&asked)?;
        supervisor.ready(&asked);
        thread::spawn(move || {
            for signal in signals.forever() {
                match signal {
                    SIGHUP => handle.reload(),
                    _ => {
                        supervisor.stops();
                        handle.stop();
                    }
                }
            }
        });
        Ok(agent.run(&requests)?)
    }
}

impl Reload {
    fn run(&self) -> Result<(), Failure> {
        let client = self.running.client()?;
        let answer: Result<Status, _> = client.post("/v1/reload", &());
        let status = answer.map_err(Running::failed)?;
        let (policy, rules) = (status.policy.display(), rules(status.rules.len()));
        Ok(output::line(&format!("{policy}: {rules}"))?)
    }
}

impl Undo {
    fn run(&self) -> Result<(), Failure> {
        let client = self.running.client()?;
        let answer: Result<Status, _> = client.post("/v1/undo", &());
        let said = match answer {
            Ok(_) => "everything has been given back; `fairwind agent reload` takes care again",
            Err(ClientError::Unreachable { .. }) => {
                match daemon::undo(self.control_group.as_deref())? {
                    true => "what an agent has left has been given back",
                    false => "no agent runs, and none has left anything",
                }
            }
            Err(error) => return Err(Running::failed(error)),
        };
        Ok(output::line(said)?)
    }
}
