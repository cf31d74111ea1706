//! The trace daemon's configuration file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fairwind_scenario::Diagnostic;
use fairwind_scenario::diagnostic::Span;
use fairwind_scenario::file::decode::{self, Fields, Findings, each};
use fairwind_scenario::file::value::{Node, Table, Value};
use fairwind_trace::filter::{Filter, Network};
use fairwind_trace::instrument::Instrument;
use fairwind_trace::kernel::Options;
use fairwind_trace::plan::Plan;
use fairwind_trace::record::{Limits, WhenFull};
use fairwind_trace::session::MIN_INTERVAL;

use super::DEFAULT_INTERVAL;
use super::columns::{columns, variable};
use super::value::{cgroup, namespace};
use crate::failure::Failure;

/// The decoded file.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The folder in which each run gets its own.
    pub out: PathBuf,
    interval: Option<Duration>,
    options: Options,
    variables: Vec<&'static Instrument>,
    limits: Limits,
}

impl Config {
    /// The plan of a run, still without its folder.
    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        Ok(Plan {
            options: self.options.clone(),
            interval: self.interval,
            folder: PathBuf::new(),
            columns: columns(&self.variables, self.options.control_state)?,
            limits: self.limits,
        })
    }
}

/// Reads the file.
pub(crate) fn load(file: &Path) -> Result<Config, Failure> {
    let text = fs::read_to_string(file).map_err(Failure::no_input(file))?;
    Ok(read(&file.display().to_string(), &text)?)
}

fn read(name: &str, text: &str) -> Result<Config, Diagnostic> {
    decode::document(text, name, |table, findings| top(&table, findings))
}

fn top(table: &Table, findings: &mut Findings) -> Option<Config> {
    let mut fields = Fields::new("the trace", table, Span::default(), findings);
    let default = Options::default();
    let out = fields.required("out", "\"/var/lib/fairwind\"", decode::text);
    let every_ack = fields.or_default("every_ack", decode::boolean);
    let interval = fields.optional("interval", interval);
    let variables = each("[\"CurCwnd\", \"SmoothedRTT\"]", instrument);
    let config = Config {
        out: PathBuf::from(out),
        interval: interval.or((!every_ack).then_some(DEFAULT_INTERVAL)),
        variables: fields.or_default("variables", variables),
        options: Options {
            every_ack,
            control_state: fields.or_default("control_state", decode::boolean),
            ring_bytes: fields.get_or("buffer", default.ring_bytes, buffer),
            filter: fields.or_default("match", filter),
        },
        limits: fields.or_default("limits", limits),
    };
    fields.finish(config)
}

fn filter(node: &Node, findings: &mut Findings) -> Option<Filter> {
    let mut fields = Fields::of("match", node, findings, "[match]")?;
    let port = decode::whole::<u16>(1, u16::MAX);
    let hosts = each("[\"10.0.0.0/8\"]", network);
    let ports = each("[20, 21]", port);
    let programs = each("[\"proftpd\"]", decode::text);
    let namespaces = each("[\"/proc/1/ns/net\"]", inode(namespace));
    let cgroups = each("[\"/sys/fs/cgroup/ftp.slice\"]", inode(cgroup));
    let filter = Filter {
        hosts: fields.or_default("hosts", hosts),
        ports: fields.or_default("ports", ports),
        programs: fields.or_default("programs", programs),
        namespaces: fields.or_default("namespaces", namespaces),
        cgroups: fields.or_default("cgroups", cgroups),
    };
    fields.finish(filter)
}

fn limits(node: &Node, findings: &mut Findings) -> Option<Limits> {
    let mut fields = Fields::of("limits", node, findings, "[limits]")?;
    let default = Limits::default();
    let when_full = decode::choice(&[
        ("leave-out", WhenFull::LeaveOut),
        ("remove-oldest", WhenFull::RemoveOldest),
    ]);
    let total_bytes = fields.optional("total", decode::bytes);
    let connections = fields.optional("connections", decode::whole(1, 10_000_000));
    let free_bytes = fields.optional("free", decode::bytes);
    let limits = Limits {
        total_bytes: total_bytes.map(|bytes| bytes.0),
        connections: connections.map_or(default.connections, |files| files as usize),
        free_bytes: free_bytes.map_or(default.free_bytes, |bytes| bytes.0),
        when_full: fields.get_or("when_full", default.when_full, when_full),
    };
    fields.finish(limits)
}

fn interval(node: &Node, findings: &mut Findings) -> Option<Duration> {
    let interval = decode::duration(node, findings)?;
    let interval = Duration::from_nanos(interval.as_nanos());
    if interval < MIN_INTERVAL {
        let help = "write \"1ms\", or every_ack = true for more";
        return findings.refuse(node.span, "the shortest interval is 1ms", help);
    }
    Some(interval)
}

fn buffer(node: &Node, findings: &mut Findings) -> Option<u32> {
    let bytes = decode::bytes(node, findings)?.0;
    if !(4096..=1 << 30).contains(&bytes) {
        let message = format!("{bytes} bytes are out of range");
        return findings.refuse(node.span, message, "write a size from \"4KiB\" to \"1GiB\"");
    }
    u32::try_from(bytes).ok()
}

fn instrument(node: &Node, findings: &mut Findings) -> Option<&'static Instrument> {
    let name = decode::text(node, findings)?;
    let found = variable(&name);
    if let Err(error) = &found {
        let (message, help) = error.split_once("; ").unwrap_or((error, ""));
        findings.add(node.span, message, help);
    }
    found.ok()
}

fn network(node: &Node, findings: &mut Findings) -> Option<Network> {
    let text = decode::text(node, findings)?;
    let found = text.parse().ok();
    found.or_else(|| {
        let help = "write \"10.0.0.1\", \"10.0.0.0/8\", \"2001:db8::1\" or \"2001:db8::/32\"";
        let message = format!("\"{text}\" is neither an address nor a network");
        findings.refuse(node.span, message, help)
    })
}

/// A number as it is, or the inode of a file.
fn inode<T: TryFrom<i64>>(
    read: fn(&str) -> Result<T, String>,
) -> impl Fn(&Node, &mut Findings) -> Option<T> {
    move |node, findings| {
        if let Value::Integer(inode) = node.value
            && let Ok(inode) = T::try_from(inode)
        {
            return Some(inode);
        }
        let text = decode::text(node, findings)?;
        let found = read(&text);
        if let Err(error) = &found {
            findings.add(node.span, error, "write a file that is there, or an inode");
        }
        found.ok()
    }
}

#[cfg(test)]
mod tests {
    use fairwind_scenario::diagnostic::Sources;
    use fairwind_scenario::file::value::parse_document;
    use fairwind_testing::page::{check_sections, keys};

    use super::*;

    fn wrong(text: &str) -> String {
        read("trace.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_folder_is_enough() {
        let config = read("trace.toml", "out = \"traces\"").unwrap();
        assert_eq!(config.out, PathBuf::from("traces"));
        assert_eq!(config.interval, Some(Duration::from_millis(10)));
        assert_eq!(config.options, Options::default());
        assert_eq!(config.limits, Limits::default());
        assert_eq!(config.plan().unwrap().columns.instruments.len(), 54);
    }

    #[test]
    fn the_example_of_the_document_says_what_it_says() {
        let document = include_str!("../../../../../docs/reference/trace-daemon.md");
        let example = document.split("```toml\n").nth(1).unwrap();
        let example = example.split("```").next().unwrap();
        let config = read("trace.toml", example).unwrap();
        assert_eq!(config.interval, Some(Duration::from_millis(100)));
        assert!(!config.options.every_ack && config.options.control_state);
        let filter = &config.options.filter;
        assert_eq!(filter.hosts, ["192.168.1.0/24".parse().unwrap()]);
        assert_eq!(filter.ports, [20, 21]);
        assert_eq!(filter.programs, ["proftpd"]);
        assert_eq!(config.limits.total_bytes, Some(20_000_000_000));
        assert_eq!(config.limits.connections, 50_000);
        assert_eq!(config.limits.when_full, WhenFull::RemoveOldest);
        let columns = config.plan().unwrap().columns;
        let names: Vec<&str> = columns.instruments.iter().map(|i| i.name).collect();
        assert_eq!(names[..3], ["CurCwnd", "CurSsthresh", "SmoothedRTT"]);
        let states: Vec<&str> = columns.states.iter().map(|s| &s.control[..]).collect();
        // Every control has a state.
        let controls = fairwind_cc::native::all();
        let names = controls.iter().map(|control| control.name());
        assert_eq!(states, Vec::from_iter(names));
    }

    #[test]
    fn every_ack_needs_no_interval_and_may_have_one() {
        let config = read("t", "out = \"t\"\nevery_ack = true").unwrap();
        assert_eq!(config.interval, None);
        let config = read("t", "out = \"t\"\nevery_ack = true\ninterval = \"1s\"").unwrap();
        assert_eq!(config.interval, Some(Duration::from_secs(1)));
    }

    #[test]
    fn what_is_wrong_is_shown_with_its_line_and_what_would_be_right() {
        assert_eq!(
            wrong("out = \"t\"\nvariables = [\"CurCwnd\", \"SmoothRTT\"]\n"),
            "trace.toml:2:25: `SmoothRTT` is not an instrument\n  \
             2 | variables = [\"CurCwnd\", \"SmoothRTT\"]\n    \
               |                         ^^^^^^^^^^^\n  \
             help: did you mean `SmoothedRTT`?"
        );
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let text = "interval = \"10us\"\nbuffer = \"2GiB\"\n[match]\nhosts = [\"ten\"]\nport = [1]\n\
                    ports = [0]\nnamespaces = [\"/nowhere\"]\n[limits]\nwhen_full = \"stop\"\n";
        let text = wrong(text);
        for part in [
            "the trace without `out`",
            "the shortest interval is 1ms",
            "out of range",
            "\"ten\" is neither an address nor a network",
            "unknown field `port` in match",
            "did you mean `ports`?",
            "0 is out of range",
            "/nowhere: No such file or directory",
            "\"stop\" is not known here",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    fn schema() -> serde_json::Value {
        let schema = include_str!("../../../../../docs/reference/trace-daemon.schema.json");
        serde_json::from_str(schema).unwrap()
    }

    #[test]
    fn generated_sections_have_the_keys_of_the_schema() {
        let schema = schema();
        let properties = &schema["properties"];
        let known = check_sections("trace-daemon.md", |section| {
            let table = match section.what {
                "keys of the file" => &schema,
                "keys of match" => &properties["match"],
                "keys of limits" => &properties["limits"],
                _ => return None,
            };
            Some(keys(table, section))
        });
        assert_eq!(known.len(), 3, "{known:?}");
    }

    #[test]
    fn the_schema_has_the_fields_of_the_reader() {
        let schema = schema();
        let mut findings = Findings::new(Sources::new("t", ""));
        let table = parse_document("out = \"t\"\n[match]\n[limits]").unwrap();
        top(&table, &mut findings);
        let properties = &schema["properties"];
        for (what, described) in [
            ("the trace", properties),
            ("match", &properties["match"]["properties"]),
            ("limits", &properties["limits"]["properties"]),
        ] {
            let mut fields = findings.asked[what].clone();
            fields.sort_unstable();
            let described: Vec<&String> = described.as_object().unwrap().keys().collect();
            assert_eq!(described, fields, "{what}");
        }
    }
}
