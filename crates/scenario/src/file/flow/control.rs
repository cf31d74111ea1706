//! Congestion controls by name: those in `cc/`, available in both engines, and those that only the kernel may
//! have.

use fairwind_cc::native::{self, Parameters};
use fairwind_path::units::Duration;
use schemars::JsonSchema;
use std::collections::BTreeMap;

use super::parameters;
use crate::diagnostic::{Located, did_you_mean, nearest, some};
use crate::file::decode::{self, Fields, Findings};
use crate::file::schema::ParameterValue;
use crate::file::value::Node;

/// Congestion controls in the sources of Linux 6.x that are not in `cc/`, by their names there.
const LINUX: &[&str] = &[
    "bic",
    "cdg",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "nv",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
];

/// Prefix of the name of any congestion control that a kernel may have.
const KERNEL_PREFIX: &str = "kernel:";

/// `TCP_CA_NAME_MAX` without the terminating zero.
const LONGEST_KERNEL_NAME: usize = 15;

/// A congestion control and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// One in `cc/`, available in both engines.
    Own(Parameters),
    /// One of the kernel's, by its name there; not available in the simulator.
    Kernel(String),
}

impl Control {
    /// Whether it is one in `cc/` with a parameter that differs from its default.
    pub fn is_tuned(&self) -> bool {
        match self {
            Control::Own(parameters) => *parameters != parameters.control().default_parameters(),
            Control::Kernel(_) => false,
        }
    }
}

/// Another congestion control from a time on.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Switch {
    /// When, from the start of the run: above 0 and later than the entry before.
    pub at: Duration,
    /// The congestion control from then on, also of connections that open later.
    #[schemars(with = "String")]
    pub congestion_control: Located<String>,
    /// Parameters of that congestion control. Default: its own.
    #[schemars(
        rename = "parameters",
        with = "Option<BTreeMap<String, ParameterValue>>"
    )]
    pub control: Control,
}

/// Reads `parameters`, of the congestion control of this name; none if that is wrong.
pub(super) fn read(fields: &mut Fields<'_, '_>, name: Option<&Located<String>>) -> Control {
    let parameters = fields.node("parameters");
    let control = name.and_then(|name| control(name, parameters, fields.findings));
    fields
        .needed(control)
        .unwrap_or_else(|| Control::Kernel(String::new()))
}

/// Reads the fields `congestion_control` and `parameters` of any table; none if the first is missing, or either is wrong.
pub fn congestion_control(fields: &mut Fields<'_, '_>) -> Option<Control> {
    let name = fields.optional("congestion_control", decode::located_text);
    let parameters = fields.node("parameters");
    if let (None, Some(node)) = (&name, parameters) {
        let help = "add congestion_control = \"fairwind\"";
        fields.refuse(node.span, "`parameters` without `congestion_control`", help);
    }
    control(&name?, parameters, fields.findings)
}

/// Looks up a congestion control by name, with the parameters in `node` or else its defaults.
fn control(
    name: &Located<String>,
    node: Option<&Node>,
    findings: &mut Findings,
) -> Option<Control> {
    if let Some(control) = native::find(&name.value) {
        let parameters = match node {
            Some(node) => parameters::parameters(control, node, findings)?,
            None => control.default_parameters(),
        };
        return Some(Control::Own(parameters));
    }
    let kernel_name = kernel_name(name, findings)?;
    if let Some(node) = node {
        let message = format!("`parameters` with `{}`", name.value);
        let help = "leave it out: only fairwind's own controls take parameters; `fairwind cc list` \
                    prints them";
        return findings.refuse(node.span, message, help);
    }
    Some(Control::Kernel(kernel_name.to_owned()))
}

fn kernel_name<'a>(name: &'a Located<String>, findings: &mut Findings) -> Option<&'a str> {
    if let Some(asked) = name.value.strip_prefix(KERNEL_PREFIX) {
        let allowed = |c: char| c.is_ascii_graphic() && c != '/';
        if (1..=LONGEST_KERNEL_NAME).contains(&asked.len()) && asked.chars().all(allowed) {
            return Some(asked);
        }
        let message = format!("{asked:?} is not a valid name of a kernel congestion control");
        let help =
            format!("write 1 to {LONGEST_KERNEL_NAME} characters without space after kernel:");
        return findings.refuse(name.span, message, help);
    }
    if LINUX.contains(&name.value.as_str()) {
        return Some(&name.value);
    }
    let own: Vec<&str> = native::all().iter().map(|own| own.name()).collect();
    let known = own.iter().chain(LINUX).copied();
    let help = match nearest(&name.value, known) {
        Some(meant) => did_you_mean(meant),
        None => format!(
            "known here: {}; of the kernel: {}; another one of the kernel's is written \
             \"{KERNEL_PREFIX}NAME\"",
            some(&own),
            some(LINUX)
        ),
    };
    let message = format!("there is no congestion control `{}`", name.value);
    findings.refuse(name.span, message, help)
}

/// An entry of `switch`.
const EXAMPLE: &str = "{ at = \"60s\", congestion_control = \"nocc\" }";

/// Reads the list of switches; the times must increase.
pub(super) fn switches(node: &Node, findings: &mut Findings) -> Option<Vec<Switch>> {
    let mut switches: Vec<Switch> = Vec::new();
    for item in decode::list(node, findings, &format!("[{EXAMPLE}]"))? {
        let switch = switch(item, findings)?;
        if let Some(last) = switches.last().filter(|last| switch.at <= last.at) {
            let message = format!("a switch at {} after one at {}", switch.at, last.at);
            let help = "write switches in the order of their times, each time once";
            return findings.refuse(item.span, message, help);
        }
        switches.push(switch);
    }
    Some(switches)
}

fn switch(node: &Node, findings: &mut Findings) -> Option<Switch> {
    let mut fields = Fields::of("switch", node, findings, EXAMPLE)?;
    let at = fields.required("at", "\"60s\"", decode::positive_duration);
    let name = |node: &Node, findings: &mut Findings| Some(decode::located_text(node, findings));
    let name = fields.required("congestion_control", "\"nocc\"", name);
    let switch = Switch {
        at,
        control: read(&mut fields, name.as_ref()),
        congestion_control: name.unwrap_or_default(),
    };
    fields.finish(switch)
}
