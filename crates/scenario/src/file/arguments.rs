//! A link described on the command line: options for some of its fields, and `KEY=VALUE` for any of them.

mod effect;

use std::path::Path;

use fairwind_path::accounting::Accounting;

use super::decode::Findings;
use super::link::Link;
use super::overrides;
use super::trace::Recordings;
use super::value::{Node, Table, Value, parse_typed};
use crate::diagnostic::{Diagnostic, Located, Sources, Span};

/// The names of the two ends: the host of the command, and its peer.
const ENDS: &str = "[\"host\", \"peer\"]";

/// Fields that make sense only for the links of a file, and what to do instead.
const FILE_ONLY_FIELDS: [(&str, &str); 3] = [
    ("name", "leave it out: there is one path"),
    ("between", "leave it out: there is one path"),
    ("capture", "write --capture FILE"),
];

/// An argument about a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkArgument {
    /// The option, as messages show it.
    pub option: &'static str,
    /// The field that it sets; if none, the text is `FIELD=VALUE`.
    pub field: Option<&'static str>,
    /// The value as typed: TOML, or a string without its quotes.
    pub text: String,
}

/// Reads a link. Later arguments override earlier ones; traces are looked up in `folder` and play back
/// `time_scale` times as fast as recorded.
///
/// Names in schedulers are ports at the peer.
///
/// # Errors
/// Fails if an argument is invalid, as in a file, or sets a field that would have no effect, such as a queue
/// without a bandwidth.
pub fn link(
    arguments: &[LinkArgument],
    folder: &Path,
    time_scale: f64,
) -> Result<Link, Diagnostic> {
    let mut findings = Findings::new(Sources::new("path", ""));
    let mut table = Table::default();
    for argument in arguments {
        let text = &argument.text;
        let source = findings.sources.add(argument.option, text);
        let Some(field) = argument.field else {
            overrides::apply_to_link(&mut table, text, source, &mut findings);
            continue;
        };
        let field = Located::new(field, Span::new(source, 0..text.len()));
        table.set(field, parse_typed(text.trim(), source, 0));
    }
    for (key, _) in &table.entries {
        let of_files = FILE_ONLY_FIELDS
            .iter()
            .find(|(field, _)| *field == key.value);
        if let Some((field, help)) = of_files {
            let message = format!("`{field}` is only allowed in experiment files");
            findings.add(key.span, message, *help);
        }
    }
    let between = Located::new("between", Span::default());
    table.set(between, parse_typed(ENDS, 0, 0));
    let whole = Node::new(Span::default(), Value::Table(table.clone()));
    let recordings = Recordings { folder, time_scale };
    let link = Link::read(&whole, Accounting::Ip, recordings, &mut findings);
    if let Some(link) = &link {
        scheduler_names(link, &mut findings);
        effect::check(&table, link, &mut findings);
    }
    findings.result(link)
}

/// The port that a name in a scheduler denotes; none unless it is a number from 1 to 65535.
pub fn port(name: &str) -> Option<u16> {
    name.parse().ok().filter(|port| *port > 0)
}

fn scheduler_names(link: &Link, findings: &mut Findings) {
    for direction in [&link.forward, &link.reverse] {
        let names = direction.scheduler.names();
        for (index, name) in names.iter().enumerate() {
            let port = &name.value;
            if self::port(port).is_none() {
                let help =
                    "name the ports at the peer whose connections go first or have weight: 80";
                findings.add(name.span, format!("`{port}` is not a port"), help);
            } else if names[..index].iter().any(|n| n.value == *port) {
                let message = format!("`{port}` is listed twice");
                findings.add(name.span, message, "name each port once");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fairwind_path::delay::Delay;
    use fairwind_path::pipe::Aqm;
    use fairwind_path::rate::Rate;
    use fairwind_path::units::{Bandwidth, Duration};

    use super::*;

    fn option(option: &'static str, field: &'static str, text: &str) -> LinkArgument {
        LinkArgument {
            option,
            field: Some(field),
            text: text.to_owned(),
        }
    }

    fn set(text: &str) -> LinkArgument {
        LinkArgument {
            option: "--set",
            field: None,
            text: text.to_owned(),
        }
    }

    fn error(arguments: &[LinkArgument]) -> String {
        let read = link(arguments, Path::new(""), 1.0);
        read.unwrap_err().to_string()
    }

    #[test]
    fn options_are_fields_and_the_reverse_is_as_the_forward_where_it_is_silent() {
        let read = link(
            &[
                option("--bandwidth", "bandwidth", "20Mbit/s"),
                option("--delay", "delay", "15ms"),
                set("reverse.bandwidth=5Mbit/s"),
                set("aqm={kind=\"codel\"}"),
                set("delay=20ms"),
            ],
            Path::new(""),
            1.0,
        )
        .unwrap();
        let constant = |mbps| Rate::Constant(Bandwidth::from_mbps(mbps));
        assert_eq!(read.forward.bandwidth, constant(20));
        assert_eq!(read.reverse.bandwidth, constant(5));
        let delay = Delay::Constant(Duration::from_millis(20));
        assert_eq!((&read.forward.delay, &read.reverse.delay), (&delay, &delay));
        assert!(matches!(read.reverse.aqm, Aqm::CoDel(_)));
    }

    #[test]
    fn a_path_of_names_makes_tables() {
        let read = link(
            &[
                option("--bandwidth", "bandwidth", "20Mbit/s"),
                set("aqm.kind=red"),
                set("aqm.min_th=5"),
                set("aqm.max_th=15"),
            ],
            Path::new(""),
            1.0,
        );
        assert!(matches!(read.unwrap().forward.aqm, Aqm::Red(_)));
    }

    #[test]
    fn what_is_wrong_is_told_as_in_files() {
        let text = error(&[option("--bandwidth", "bandwidth", "50Mbits")]);
        assert!(text.starts_with("--bandwidth:1:1: "), "{text}");
        assert!(
            text.contains("\n  1 | 50Mbits\n    | ^^^^^^^\n  help: "),
            "{text}"
        );
        let text = error(&[set("bandwith=5Mbit/s")]);
        assert!(text.starts_with("--set:1:1: "), "{text}");
        assert!(text.contains("did you mean `bandwidth`?"), "{text}");
        let text = error(&[set("delay")]);
        assert!(text.contains("no value"), "{text}");
        let text = error(&[set("between=[\"a\", \"b\"]"), set("capture=true")]);
        assert!(
            text.contains("`between` is only allowed in experiment files"),
            "{text}"
        );
        assert!(text.contains("help: write --capture FILE"), "{text}");
        let text = error(&[set("bandwidth={trace=\"no-such-file\"}")]);
        assert!(text.contains("no-such-file"), "{text}");
    }

    #[test]
    fn schedulers_know_ports() {
        let rate = || option("--bandwidth", "bandwidth", "20Mbit/s");
        let read = |text: &str| link(&[rate(), set(text)], Path::new(""), 1.0);
        assert!(read("scheduler={kind=\"wf2q+\", weights={5201=2, 5202=1}}").is_ok());
        let text = error(&[
            rate(),
            set("scheduler={kind=\"priority\", order=[\"web\"]}"),
        ]);
        assert!(text.contains("`web` is not a port"), "{text}");
    }

    #[test]
    fn what_would_change_nothing_is_refused() {
        let queue = || option("--queue", "queue", "100pkt");
        let text = error(&[queue(), option("--delay", "delay", "15ms")]);
        assert!(
            text.starts_with("--queue:1:1: `queue` has no effect without a bandwidth"),
            "{text}"
        );
        assert!(
            text.ends_with("help: write --bandwidth RATE, too"),
            "{text}"
        );
        for field in ["aqm={kind=\"codel\"}", "accounting=ethernet"] {
            let text = error(&[set(field)]);
            assert!(text.contains("has no effect without a bandwidth"), "{text}");
        }
        let text = error(&[set("reorder={probability=0.1}")]);
        assert!(text.contains("`reorder` has no effect"), "{text}");
    }

    #[test]
    fn what_acts_in_one_direction_is_taken() {
        let queue = || option("--queue", "queue", "100pkt");
        let read = |arguments: &[LinkArgument]| link(arguments, Path::new(""), 1.0).is_ok();
        assert!(read(&[queue(), set("reverse.bandwidth=1Mbit/s")]));
        assert!(read(&[set("reorder={probability=0.1}"), set("jitter=1ms")]));
        assert!(read(&[set("reorder={probability=0.1, delay=\"10ms\"}")]));
        let narrow_back = || set("reverse.bandwidth=1Mbit/s");
        assert!(!read(&[queue(), set("reverse.queue=5pkt"), narrow_back()]));
        let narrow_there = || option("--bandwidth", "bandwidth", "1Mbit/s");
        let wide_back = || set("reverse.bandwidth=unlimited");
        assert!(!read(&[
            narrow_there(),
            wide_back(),
            set("reverse.queue=5pkt")
        ]));
    }
}
