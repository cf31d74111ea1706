//! Decodes a `[[flow]]` table into a [`Flow`].

use fairwind_path::units::{Bytes, Duration};

use super::{Application, Flow, control};
use crate::diagnostic::Located;
use crate::file::decode::{self, Fields, Findings};
use crate::file::stack::Stack;
use crate::file::value::Node;

/// Range of a segment's payload in bytes: the kernel's minimum, and what fits into an IP packet.
pub const MSS_RANGE: (u64, u64) = (48, 65_483);

/// Reads flow number `position` (from 1). `stack` and `mss` are the file's, for a flow without its own.
pub fn flow(
    node: &Node,
    position: usize,
    stack: Stack,
    mss: u32,
    findings: &mut Findings,
) -> Option<Flow> {
    let example = "[[flow]] with from = \"a\" and to = \"b\"";
    let table = decode::table(node, findings, example)?;
    let mut fields = Fields::new("flow", table, node.span);
    let name = fields.optional(findings, "name", decode::name);
    let from = fields.required(findings, "from", "\"a\"", decode::name);
    let to = fields.required(findings, "to", "\"b\"", decode::name);
    let stack_node = fields.node("stack");
    let stack = stack_node
        .and_then(|node| decode::choice(Stack::WORDS)(node, findings))
        .unwrap_or(stack);
    let application = fields.optional(findings, "application", application);
    let application = application.unwrap_or(Application::Bulk);

    let control_node = fields.node("congestion_control");
    let congestion_control = match control_node {
        Some(node) => decode::located_text(node, findings),
        None => Some(Located {
            value: stack.default_control().to_owned(),
            span: node.span,
        }),
    };
    let parameters_node = fields.node("parameters");
    let control = congestion_control
        .as_ref()
        .and_then(|name| control::control(name, parameters_node, findings));
    let switch_node = fields.node("switch");
    let switch = switch_node.and_then(|node| control::switches(node, findings));

    let bytes_node = fields.node("bytes");
    let bytes = bytes_node.and_then(|node| decode::bytes(node, findings));
    let start = fields.optional(findings, "start", decode::duration);
    let receive_buffer_node = fields.node("receive_buffer");
    let receive_buffer = receive_buffer_node.and_then(|node| decode::bytes(node, findings));
    let send_buffer_node = fields.node("send_buffer");
    let send_buffer = send_buffer_node.and_then(|node| decode::bytes(node, findings));
    let count = fields.optional(findings, "count", decode::whole(1, 100_000));
    let every = fields.optional(findings, "every", decode::duration);
    let mss_node = fields.node("mss");
    let mss = mss_node
        .and_then(|node| decode::whole(MSS_RANGE.0, MSS_RANGE.1)(node, findings))
        .map_or(mss, |mss| mss as u32);
    let pacing_node = fields.node("pacing");
    let pacing = pacing_node.and_then(|node| decode::boolean(node, findings));
    fields.finish(findings);

    if let (Some(node), false) = (bytes_node, application == Application::Bulk) {
        findings.add(
            node.span,
            format!("`bytes` with the application `{}`", application.kind()),
            "leave it out, or leave the application out: only bulk has a size",
        );
    }
    let of_connections = [
        ("switch", switch_node),
        ("receive_buffer", receive_buffer_node),
        ("send_buffer", send_buffer_node),
        ("mss", mss_node),
        ("pacing", pacing_node),
    ];
    let of_hosts = [
        ("congestion_control", control_node),
        ("parameters", parameters_node),
        ("stack", stack_node),
    ];
    match application {
        Application::Constant { .. } => {
            let help = "leave it out: datagrams have no TCP";
            let fields = of_hosts.iter().chain(&of_connections);
            refuse(fields, &application, help, findings);
        }
        Application::Command { .. } => {
            let help = "leave it out: a program sets up its own connections";
            refuse(&of_connections, &application, help, findings);
        }
        Application::Bulk | Application::Web { .. } | Application::OnOff { .. } => {}
    }
    let count = count.unwrap_or(1) as u32;
    let (from, to) = (from?, to?);
    if from.value == to.value {
        findings.add(
            to.span,
            format!("a flow from `{}` to itself", from.value),
            "name two different hosts",
        );
        return None;
    }
    Some(Flow {
        name: name.unwrap_or_else(|| Located {
            value: format!("flow-{position}"),
            span: node.span,
        }),
        from,
        to,
        congestion_control: congestion_control?,
        control: control?,
        switch: switch.unwrap_or_default(),
        application,
        bytes,
        start: start.unwrap_or(Duration::ZERO),
        receive_buffer,
        send_buffer,
        count,
        every: every.unwrap_or(Duration::ZERO),
        stack,
        mss,
        pacing: pacing.unwrap_or(false),
    })
}

/// Reports the fields that are present but do not apply to the application.
fn refuse<'a>(
    fields: impl IntoIterator<Item = &'a (&'static str, Option<&'a Node>)>,
    application: &Application,
    help: &str,
    findings: &mut Findings,
) {
    for (field, node) in fields {
        let Some(node) = node else { continue };
        let message = format!("`{field}` with the application `{}`", application.kind());
        findings.add(node.span, message, help);
    }
}

fn application(node: &Node, findings: &mut Findings) -> Option<Application> {
    const KINDS: &[(&str, u8)] = &[
        ("bulk", 0),
        ("web", 1),
        ("constant", 2),
        ("on-off", 3),
        ("command", 4),
    ];
    let example = "{ kind = \"web\", sessions = 20 }";
    let table = decode::table(node, findings, example)?;
    let peek = &mut Fields::new("application", table, node.span);
    match peek.required(findings, "kind", "\"web\"", decode::choice(KINDS))? {
        0 => {
            let mut fields = Fields::new("application of kind bulk", table, node.span);
            fields.node("kind");
            fields.finish(findings);
            Some(Application::Bulk)
        }
        1 => {
            let mut fields = Fields::new("application of kind web", table, node.span);
            fields.node("kind");
            let sessions = fields.optional(findings, "sessions", decode::whole(1, 100_000));
            let object_mean = fields.optional(findings, "object_mean", decode::bytes);
            // The mean of a Pareto distribution of shape 1 or less is infinite.
            let shape = decode::number(1.001, 100.0);
            let object_shape = fields.optional(findings, "object_shape", shape);
            let think_mean = fields.optional(findings, "think_mean", decode::duration);
            fields.finish(findings);
            Some(Application::Web {
                sessions: sessions.unwrap_or(1) as u32,
                object_mean: object_mean.unwrap_or(Bytes(12_000)),
                object_shape: object_shape.unwrap_or(1.2),
                think_mean: think_mean.unwrap_or(Duration::from_secs(1)),
            })
        }
        2 => {
            let mut fields = Fields::new("application of kind constant", table, node.span);
            fields.node("kind");
            let rate = fields.required(findings, "rate", "\"1Mbit/s\"", decode::bandwidth);
            let packet = fields.optional(findings, "packet", datagram);
            fields.finish(findings);
            Some(Application::Constant {
                rate: rate?,
                packet: packet.unwrap_or(1_500),
            })
        }
        3 => {
            let mut fields = Fields::new("application of kind on-off", table, node.span);
            fields.node("kind");
            let on = fields.required(findings, "on", "\"2s\"", decode::positive_duration);
            let off = fields.required(findings, "off", "\"1s\"", decode::positive_duration);
            let random = fields.optional(findings, "random", decode::boolean);
            fields.finish(findings);
            Some(Application::OnOff {
                on: on?,
                off: off?,
                random: random.unwrap_or(true),
            })
        }
        _ => {
            let mut fields = Fields::new("application of kind command", table, node.span);
            fields.node("kind");
            let example = "\"iperf3 -c {to}\"";
            let client = fields.required(findings, "client", example, command_line);
            let server = fields.optional(findings, "server", command_line);
            fields.finish(findings);
            Some(Application::Command {
                client: client?,
                server,
            })
        }
    }
}

/// A command line for the shell.
fn command_line(node: &Node, findings: &mut Findings) -> Option<String> {
    let text = decode::text(node, findings)?;
    if text.trim().is_empty() || text.contains('\0') {
        findings.add(
            node.span,
            format!("{text:?} is no command"),
            "write what a shell would run, such as \"iperf3 -c {to}\"",
        );
        return None;
    }
    Some(text)
}

/// IP bytes of a datagram: at least the headers, at most what an IP packet holds.
fn datagram(node: &Node, findings: &mut Findings) -> Option<u32> {
    let bytes = decode::bytes(node, findings)?;
    if (28..=65_535).contains(&bytes.0) {
        return Some(bytes.0 as u32);
    }
    findings.add(
        node.span,
        format!("a datagram of {} bytes", bytes.0),
        "write a size from \"28B\" to \"65535B\"",
    );
    None
}
