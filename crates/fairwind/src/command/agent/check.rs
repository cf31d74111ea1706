//! `fairwind agent check`: is a policy right, and which rule would a connection meet?

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fairwind_agent::daemon;
use fairwind_agent::policy::{Action, Described, Direction, Policy};
use fairwind_cc::kernel::Choice;
use fairwind_scenario::units_text;
use nix::unistd::User;

use super::{POLICY, rules};
use crate::failure::Failure;
use crate::output;

/// Check a policy, and explain which rule a connection would meet
///
/// Without a description of a connection only the file is checked. What is not described is: of user 0, in no control
/// group, from and to 0.0.0.0:0, opened by this host, new.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind agent check agent.toml
  fairwind agent check agent.toml --program rsync --user backup --remote 192.0.2.7:873
  fairwind agent check agent.toml --unit-path /system.slice/nginx.service --local 192.0.2.1:443 --incoming --bytes 20MB")]
pub(super) struct Check {
    /// Policy file (TOML)
    #[arg(value_name = "FILE", default_value = POLICY)]
    file: PathBuf,
    /// Name of the process
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
    /// User, by name or number
    #[arg(long, value_name = "USER", value_parser = user)]
    user: Option<u32>,
    /// Control group, from the root, as /proc/PID/cgroup has it
    #[arg(long, value_name = "PATH")]
    unit_path: Option<String>,
    /// Address and port of this host
    #[arg(long, value_name = "ADDRESS:PORT")]
    local: Option<SocketAddr>,
    /// Address and port of the peer
    #[arg(long, value_name = "ADDRESS:PORT")]
    remote: Option<SocketAddr>,
    /// The peer has opened the connection
    #[arg(long)]
    incoming: bool,
    /// Bytes moved so far
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    bytes: Option<u64>,
    /// Age of the connection
    #[arg(long, value_name = "TIME", value_parser = age)]
    age: Option<Duration>,
}

impl Check {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let policy = daemon::load(&self.file)?;
        let file = self.file.display();
        if !self.describes() {
            let rules = rules(policy.rules.len());
            return Ok(output::line(&format!("{file}: valid, {rules}"))?);
        }
        Ok(output::line(&explanation(&policy, &self.described()))?)
    }

    fn describes(&self) -> bool {
        self.program.is_some()
            || self.user.is_some()
            || self.unit_path.is_some()
            || self.local.is_some()
            || self.remote.is_some()
            || self.incoming
            || self.bytes.is_some()
            || self.age.is_some()
    }

    fn described(&self) -> Described {
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Described {
            program: self.program.clone().unwrap_or_default(),
            user: self.user.unwrap_or(0),
            group: self.unit_path.clone().unwrap_or_default(),
            local: self.local.unwrap_or(nowhere),
            remote: self.remote.unwrap_or(nowhere),
            direction: match self.incoming {
                true => Direction::In,
                false => Direction::Out,
            },
            bytes: self.bytes.unwrap_or(0),
            age: self.age.unwrap_or_default(),
        }
    }
}

/// Each rule up to the one that is met.
fn explanation(policy: &Policy, connection: &Described) -> String {
    let mut lines = Vec::new();
    for rule in &policy.rules {
        match rule.conditions.unmet(connection) {
            Some(kind) => lines.push(format!("{}: no, the {} differs", rule.name, kind.name())),
            None => {
                lines.push(format!("{}: yes; {}", rule.name, gives(&rule.action)));
                return lines.join("\n");
            }
        }
    }
    lines.push("no rule is met: the connection is left alone".to_owned());
    lines.join("\n")
}

fn gives(action: &Action) -> String {
    let mut parts = Vec::new();
    if let Some(control) = &action.control {
        let name = match control {
            Choice::Named(name) => name.clone(),
            Choice::Own(parameters) => {
                let control = parameters.control();
                let values = control.parameters().iter().zip(parameters.values());
                let changed = values.filter(|(one, value)| one.default_value() != **value);
                let changed: Vec<String> = changed
                    .map(|(one, value)| format!("{}={value}", one.name()))
                    .collect();
                format!("{} ({})", control.name(), changed.join(", "))
            }
        };
        let forced = if action.is_forced {
            ", whatever the program chooses"
        } else {
            ""
        };
        parts.push(format!("congestion control {name}{forced}"));
    }
    if let Some(rate) = action.max_rate {
        parts.push(format!("at most {:.3} Mbit/s", f64::from(rate) * 8e-6));
    }
    if action.is_held {
        parts.push("what it receives held down".to_owned());
    }
    if action.is_lower_effort {
        parts.push("the Lower-Effort mark".to_owned());
    }
    let buffers = [
        ("send", action.send_buffer),
        ("receive", action.receive_buffer),
    ];
    for (name, bytes) in buffers {
        if let Some(bytes) = bytes {
            parts.push(format!("a {name} buffer of {bytes} bytes"));
        }
    }
    let advised = if action.is_advised {
        "; or what the advisor says of its peer"
    } else {
        ""
    };
    if parts.is_empty() && action.is_advised {
        return "it is given what the advisor says of its peer".to_owned();
    }
    if parts.is_empty() {
        return "the connection is left alone".to_owned();
    }
    format!("it is given {}{}", parts.join(", "), advised)
}

fn user(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let found = User::from_name(text).ok().flatten();
    let user = found.ok_or_else(|| "there is no such user".to_owned())?;
    Ok(user.uid.as_raw())
}

fn bytes(text: &str) -> Result<u64, String> {
    let bytes = units_text::bytes(text);
    bytes
        .map(|bytes| bytes.0)
        .map_err(|error| format!("{}; {}", error.message, error.help))
}

fn age(text: &str) -> Result<Duration, String> {
    let age = units_text::duration(text);
    age.map(|age| Duration::from_nanos(age.as_nanos()))
        .map_err(|error| format!("{}; {}", error.message, error.help))
}
