//! What the sender of a flow has to send.

use fairwind_path::units::{Bandwidth, Bytes, Duration};
use schemars::JsonSchema;

use crate::file::decode::{self, Fields, FieldsReader, Findings, duration, positive_duration};
use crate::file::value::Node;

/// What a sender has to send.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Application {
    /// As much as the connection takes, or the flow's `bytes`.
    Bulk,
    /// Sessions that fetch objects one after another, each over a new connection.
    Web {
        /// Number of sessions at the same time.
        #[schemars(with = "Option<u32>", range(min = 1, max = 100_000), extend("default" = 1))]
        sessions: u32,
        /// Mean size of an object, above 0; sizes follow a Pareto distribution.
        #[schemars(with = "Option<Bytes>", extend("default" = "12kB"))]
        object_mean: Bytes,
        /// Shape of that distribution, 1.001 to 100; the smaller, the heavier the tail.
        #[schemars(with = "Option<f64>", extend("default" = 1.2))]
        object_shape: f64,
        /// Mean time between two objects, exponentially distributed.
        #[schemars(with = "Option<Duration>", extend("default" = "1s"))]
        think_mean: Duration,
    },
    /// UDP datagrams at even intervals, without acknowledgements. Fields for TCP are refused.
    Constant {
        /// Sending rate in IP bytes, above 0.
        rate: Bandwidth,
        /// Size of a datagram with its IP header, 28 B to 65535 B.
        #[schemars(with = "Option<Bytes>", extend("default" = "1500B"))]
        packet: u32,
    },
    /// A TCP connection that alternately has data to send and has none.
    OnOff {
        /// Mean length of a period with data, above 0.
        on: Duration,
        /// Mean length of a period without data, above 0.
        off: Duration,
        /// Whether lengths are exponentially distributed; otherwise all are the same.
        #[schemars(with = "Option<bool>", extend("default" = true))]
        random: bool,
    },
    /// Any program, in the lab; the simulator refuses it. Everything that the programs of the two hosts
    /// send to each other and no other flow claims is the flow's.
    Command {
        /// Command line at `from`, run by the shell; `{from}` and `{to}` stand for the hosts'
        /// addresses. The flow is over when it ends.
        client: String,
        /// Command line at `to`, started before the client and ended after it. Default: none.
        #[schemars(with = "Option<String>")]
        server: Option<String>,
    },
}

impl Application {
    /// Its name in files and results.
    pub fn kind(&self) -> &'static str {
        match self {
            Application::Bulk => "bulk",
            Application::Web { .. } => "web",
            Application::Constant { .. } => "constant",
            Application::OnOff { .. } => "on-off",
            Application::Command { .. } => "command",
        }
    }

    /// Whether it runs over TCP.
    pub fn uses_tcp(&self) -> bool {
        !matches!(self, Application::Constant { .. })
    }

    /// Reads an application.
    pub(super) fn read(node: &Node, findings: &mut Findings) -> Option<Application> {
        const KINDS: &[(&str, FieldsReader<Application>)] = &[
            ("bulk", |_| Application::Bulk),
            ("web", web),
            ("constant", constant),
            ("on-off", on_off),
            ("command", command),
        ];
        let examples = ["\"web\"", "{ kind = \"web\", sessions = 20 }"];
        decode::by_kind(node, findings, "application", examples, KINDS)
    }

    /// Reports the fields of its flow that do not apply to it.
    pub(super) fn refuse_others(&self, flow: &mut Fields<'_, '_>) {
        let mut refuse = |fields: &[&str], help: &str| {
            for field in fields {
                if let Some(node) = flow.peek(field) {
                    let message = format!("`{field}` with the application `{}`", self.kind());
                    flow.findings.add(node.span, message, help);
                }
            }
        };
        if *self != Application::Bulk {
            let help = "leave it out, or leave the application out: only bulk has a size";
            refuse(&["bytes"], help);
        }
        match self {
            Application::Constant { .. } => {
                let help = "leave it out: datagrams have no TCP";
                refuse(&OF_HOSTS, help);
                refuse(&OF_CONNECTIONS, help);
            }
            Application::Command { .. } => {
                let help = "leave it out: a program sets up its own connections";
                refuse(&OF_CONNECTIONS, help);
            }
            Application::Bulk | Application::Web { .. } | Application::OnOff { .. } => {}
        }
    }
}

/// Fields of a flow that belong to its connections.
const OF_CONNECTIONS: [&str; 6] = [
    "switch",
    "receive_buffer",
    "send_buffer",
    "mss",
    "pacing",
    "ecn",
];
/// Fields of a flow that belong to TCP in its hosts.
const OF_HOSTS: [&str; 4] = ["congestion_control", "parameters", "advised_start", "stack"];

fn web(fields: &mut Fields<'_, '_>) -> Application {
    Application::Web {
        sessions: fields.get_or("sessions", 1, decode::whole(1, 100_000)),
        object_mean: fields.get_or("object_mean", Bytes(12_000), decode::bytes),
        // The mean of a Pareto distribution of shape 1 or less is infinite.
        object_shape: fields.get_or("object_shape", 1.2, decode::number(1.001, 100.0)),
        think_mean: fields.get_or("think_mean", Duration::from_secs(1), duration),
    }
}

fn constant(fields: &mut Fields<'_, '_>) -> Application {
    Application::Constant {
        rate: fields.required("rate", "\"1Mbit/s\"", decode::bandwidth),
        packet: fields.get_or("packet", 1_500, datagram),
    }
}

fn on_off(fields: &mut Fields<'_, '_>) -> Application {
    Application::OnOff {
        on: fields.required("on", "\"2s\"", positive_duration),
        off: fields.required("off", "\"1s\"", positive_duration),
        random: fields.get_or("random", true, decode::boolean),
    }
}

fn command(fields: &mut Fields<'_, '_>) -> Application {
    Application::Command {
        client: fields.required("client", "\"iperf3 -c {to}\"", command_line),
        server: fields.optional("server", command_line),
    }
}

/// A command line for the shell.
fn command_line(node: &Node, findings: &mut Findings) -> Option<String> {
    let text = decode::text(node, findings)?;
    if text.trim().is_empty() || text.contains('\0') {
        let help = "write what a shell would run, such as \"iperf3 -c {to}\"";
        return findings.refuse(node.span, format!("{text:?} is not a command"), help);
    }
    Some(text)
}

/// IP bytes of a datagram: at least the headers, at most what an IP packet holds.
fn datagram(node: &Node, findings: &mut Findings) -> Option<u32> {
    let bytes = decode::bytes(node, findings)?;
    if (28..=65_535).contains(&bytes.0) {
        return Some(bytes.0 as u32);
    }
    let message = format!("a datagram of {} bytes", bytes.0);
    findings.refuse(
        node.span,
        message,
        "write a size from \"28B\" to \"65535B\"",
    )
}
