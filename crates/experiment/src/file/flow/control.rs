//! Congestion controls by name: those in `cc/`, available in both engines, and those that only the kernel may
//! have.

use fairwind_cc::native::{self, Parameters};
use fairwind_path::units::Duration;
use schemars::JsonSchema;
use std::collections::BTreeMap;

use super::parameters;
use crate::diagnostic::{Located, some, suggestion};
use crate::file::decode::{self, Fields, Findings};
use crate::file::schema::{DurationText, ParameterValue};
use crate::file::value::Node;

/// Congestion controls in the sources of Linux 6.x that are not in `cc/`, by their names there.
const LINUX: &[&str] = &[
    "bbr",
    "bic",
    "cdg",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
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
    #[schemars(with = "DurationText")]
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

/// Looks up a congestion control by name, with the parameters in `node` or else its defaults.
pub fn control(
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
        findings.add(
            node.span,
            format!("`parameters` with `{}`", name.value),
            "leave it out: only fairwind's own controls take parameters; `fairwind cc list` \
             prints them",
        );
        return None;
    }
    Some(Control::Kernel(kernel_name.to_owned()))
}

fn kernel_name<'a>(name: &'a Located<String>, findings: &mut Findings) -> Option<&'a str> {
    if let Some(asked) = name.value.strip_prefix(KERNEL_PREFIX) {
        let allowed = |c: char| c.is_ascii_graphic() && c != '/';
        if (1..=LONGEST_KERNEL_NAME).contains(&asked.len()) && asked.chars().all(allowed) {
            return Some(asked);
        }
        findings.add(
            name.span,
            format!("{asked:?} is not a valid name of a kernel congestion control"),
            format!("write 1 to {LONGEST_KERNEL_NAME} characters without space after kernel:"),
        );
        return None;
    }
    if LINUX.contains(&name.value.as_str()) {
        return Some(&name.value);
    }
    let own = || native::all().iter().map(|control| control.name());
    let known = own().chain(LINUX.iter().copied());
    let help = match suggestion(&name.value, known) {
        meant if meant.starts_with("did you mean") => meant,
        _ => format!(
            "known here: {}; of the kernel: {}; another one of the kernel's is written \
             \"{KERNEL_PREFIX}NAME\"",
            some(&own().collect::<Vec<_>>()),
            some(LINUX)
        ),
    };
    let message = format!("there is no congestion control `{}`", name.value);
    findings.add(name.span, message, help);
    None
}

/// Reads `[{ at = "60s", congestion_control = "nocc" }]`; the times must increase.
pub fn switches(node: &Node, findings: &mut Findings) -> Option<Vec<Switch>> {
    let example = "[{ at = \"60s\", congestion_control = \"nocc\" }]";
    let mut switches: Vec<Switch> = Vec::new();
    for item in decode::list(node, findings, example)? {
        let switch = switch(item, findings)?;
        if let Some(last) = switches.last()
            && switch.at <= last.at
        {
            findings.add(
                item.span,
                format!("a switch at {} after one at {}", switch.at, last.at),
                "write switches in the order of their times, each time once",
            );
            return None;
        }
        switches.push(switch);
    }
    Some(switches)
}

fn switch(node: &Node, findings: &mut Findings) -> Option<Switch> {
    let example = "{ at = \"60s\", congestion_control = \"nocc\" }";
    let table = decode::table(node, findings, example)?;
    let mut fields = Fields::new("switch", table, node.span);
    let at = fields.required(findings, "at", "\"60s\"", decode::positive_duration);
    let name = fields.required(
        findings,
        "congestion_control",
        "\"nocc\"",
        decode::located_text,
    );
    let parameters = fields.node("parameters");
    fields.finish(findings);
    let congestion_control = name?;
    Some(Switch {
        control: control(&congestion_control, parameters, findings)?,
        congestion_control,
        at: at?,
    })
}
