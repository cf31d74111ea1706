//! The policy file: TOML.

use std::ops::RangeInclusive;
use std::time::Duration;

use fairwind_advice_client::{Client, DEFAULT_URL};
use fairwind_cc::kernel::{Choice, is_nocc};
use fairwind_scenario::Diagnostic;
use fairwind_scenario::diagnostic::Span;
use fairwind_scenario::file::decode::{self, Fields, Findings, each};
use fairwind_scenario::file::flow::{Control, congestion_control};
use fairwind_scenario::file::value::{Node, Table, Value};
use fairwind_trace::filter::Network;
use nix::unistd::User;

use crate::advised::Advisor;

use super::{Action, Conditions, Direction, Policy, RULES_MAX, Rule};

/// The congestion control that `background` stands for.
const BACKGROUND: &str = "fairwind";

/// Reads the text of a policy file that messages call `name`.
///
/// # Errors
///
/// With every mistake, each with its line and key and what would be right.
pub fn read(name: &str, text: &str) -> Result<Policy, Diagnostic> {
    decode::document(text, name, |table, findings| policy(&table, findings))
}

fn policy(table: &Table, findings: &mut Findings) -> Option<Policy> {
    let mut fields = Fields::new("the policy", table, Span::default(), findings);
    let allow_nocc = fields.or_default("allow_nocc", each("[\"10.0.0.0/8\"]", network));
    let is_declared = fields.findings.list.is_empty();
    let advisor = fields.get_or("advisor", DEFAULT_URL.to_owned(), advisor);
    let items = fields.items("rule").unwrap_or_default();
    let mut policy = Policy {
        rules: Vec::new(),
        advisor: Advisor {
            url: advisor,
            allow_nocc: allow_nocc.clone(),
        },
    };
    for node in items {
        let rule = rule(node, is_declared.then_some(&allow_nocc), fields.findings);
        let Some(rule) = fields.needed(rule) else {
            continue;
        };
        if policy.rules.iter().any(|other| other.name == rule.name) {
            let message = format!("rule \"{}\" is there twice", rule.name);
            fields.refuse(node.span, message, "give each rule a name of its own");
        }
        policy.rules.push(rule);
    }
    if let Some(node) = items.get(RULES_MAX) {
        let message = format!("{} rules", items.len());
        fields.refuse(node.span, message, format!("write {RULES_MAX} at most"));
    }
    fields.finish(policy)
}

/// Reads a rule, where congestion control may be off in these networks; none if they are wrong.
fn rule(node: &Node, allow_nocc: Option<&Vec<Network>>, findings: &mut Findings) -> Option<Rule> {
    let earlier = findings.list.len();
    let mut fields = Fields::of("rule", node, findings, "[[rule]]")?;
    let name = fields.required("name", "\"backups\"", |node, findings| {
        decode::name(node, findings).map(|name| name.value)
    });
    let conditions: Conditions = fields.or_default("match", conditions);
    let leaves_alone = fields.or_default("leave_alone", decode::boolean);
    let is_background = fields.or_default("background", decode::boolean);
    let nocc = fields.peek("congestion_control").map(|node| node.span);
    let action = Action {
        control: congestion_control(&mut fields)
            .map(choice)
            .or_else(|| is_background.then(|| Choice::Named(BACKGROUND.to_owned()))),
        is_forced: fields.or_default("force", decode::boolean),
        max_rate: fields.optional("limit", limit),
        is_lower_effort: fields.or_default("lower_effort", decode::boolean),
        is_held: is_background,
        is_advised: fields.or_default("advised", decode::boolean),
        send_buffer: fields.optional("send_buffer", buffer),
        receive_buffer: fields.optional("receive_buffer", buffer),
    };
    let rule = fields.finish(Rule {
        name,
        conditions,
        action,
    })?;
    // What follows from a mistake is none of its own.
    if findings.list.len() > earlier {
        return Some(rule);
    }
    let Rule {
        conditions, action, ..
    } = &rule;
    // `force` says whose connections are given something, not what.
    let nothing = Action {
        is_forced: action.is_forced,
        ..Action::default()
    };
    let wrong = if leaves_alone && *action != Action::default() {
        Some((
            "a rule that both leaves alone and gives",
            "leave one of them out",
        ))
    } else if !leaves_alone && *action == nothing {
        Some((
            "a rule that gives nothing",
            "add background = true, limit = \"20Mbit/s\" or another action; or leave_alone = true",
        ))
    } else {
        None
    };
    if let Some((message, help)) = wrong {
        findings.add(node.span, message, help);
    }
    let control = action.control.as_ref().map(|control| match control {
        Choice::Named(name) => name.as_str(),
        Choice::Own(parameters) => parameters.control().name(),
    });
    if let (Some(control), Some(span), Some(allowed)) = (control, nocc, allow_nocc)
        && is_nocc(control)
        && !is_own(&conditions.remote, allowed)
    {
        let help = "write match.remote with networks that are your own, and the same in allow_nocc = [\"10.0.0.0/8\"]: \
                    without congestion control a transfer takes what it can from everybody on its path";
        findings.add(span, "nocc beyond the networks of `allow_nocc`", help);
    }
    Some(rule)
}

/// Whether the conditions keep connections within these networks.
fn is_own(remote: &[Network], allowed: &[Network]) -> bool {
    let is_within = |network: &Network| allowed.iter().any(|around| around.covers(*network));
    !remote.is_empty() && remote.iter().all(is_within)
}

/// The kernel's control of this name is preferred to that of `cc/` with default parameters.
fn choice(control: Control) -> Choice {
    match control {
        Control::Kernel(name) => Choice::Named(name),
        Control::Own(parameters) if parameters == parameters.control().default_parameters() => {
            Choice::Named(parameters.control().name().to_owned())
        }
        Control::Own(parameters) => Choice::Own(parameters),
    }
}

fn conditions(node: &Node, findings: &mut Findings) -> Option<Conditions> {
    let mut fields = Fields::of("match", node, findings, "[rule.match]")?;
    let networks = || each("[\"192.0.2.0/24\"]", network);
    let ports = || each("[873, \"6000-6063\"]", ports);
    let direction = decode::choice(&[("in", Direction::In), ("out", Direction::Out)]);
    let conditions = Conditions {
        programs: fields.or_default("programs", each("[\"rsync\"]", decode::text)),
        users: fields.or_default("users", each("[\"backup\"]", user)),
        units: fields.or_default("units", each("[\"backup.service\"]", unit)),
        groups: fields.or_default("control_groups", each("[\"/system.slice\"]", group)),
        local: fields.or_default("local", networks()),
        remote: fields.or_default("remote", networks()),
        local_ports: fields.or_default("local_ports", ports()),
        remote_ports: fields.or_default("remote_ports", ports()),
        direction: fields.optional("direction", direction),
        least_bytes: fields
            .optional("bytes", decode::bytes)
            .map_or(0, |bytes| bytes.0),
        least_age: fields.or_default("age", age),
    };
    fields.finish(conditions)
}

fn advisor(node: &Node, findings: &mut Findings) -> Option<String> {
    let url = decode::text(node, findings)?;
    match Client::new(&url) {
        Ok(_) => Some(url),
        Err(error) => {
            let help = format!("write \"{DEFAULT_URL}\" or \"unix:/run/fairwind/advisor.sock\"");
            findings.refuse(node.span, error.to_string(), help)
        }
    }
}

fn network(node: &Node, findings: &mut Findings) -> Option<Network> {
    let text = decode::text(node, findings)?;
    match text.parse() {
        Ok(network) => Some(network),
        Err(_) => {
            let message = format!("\"{text}\" is neither an address nor a network");
            let help = "write \"10.0.0.1\", \"10.0.0.0/8\", \"2001:db8::1\" or \"2001:db8::/32\"";
            findings.refuse(node.span, message, help)
        }
    }
}

fn ports(node: &Node, findings: &mut Findings) -> Option<RangeInclusive<u16>> {
    if let Value::Integer(_) = node.value {
        let port = decode::whole(1, u16::MAX)(node, findings)?;
        return Some(port..=port);
    }
    let text = decode::text(node, findings)?;
    let range = text.split_once('-').and_then(|(first, last)| {
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (1 <= first && first <= last).then_some(first..=last)
    });
    range.or_else(|| {
        let message = format!("\"{text}\" is no range of ports");
        findings.refuse(node.span, message, "write 873 or \"6000-6063\"")
    })
}

fn user(node: &Node, findings: &mut Findings) -> Option<u32> {
    if let Value::Integer(_) = node.value {
        return decode::whole(0, u32::MAX)(node, findings);
    }
    let name = decode::text(node, findings)?;
    match User::from_name(&name).ok().flatten() {
        Some(user) => Some(user.uid.as_raw()),
        None => {
            let message = format!("there is no user \"{name}\"");
            findings.refuse(node.span, message, "write a user of this host, or a number")
        }
    }
}

fn unit(node: &Node, findings: &mut Findings) -> Option<String> {
    let unit = decode::text(node, findings)?;
    if unit.is_empty() || unit.contains('/') {
        let help = "write \"backup.service\"; whole paths belong into control_groups";
        return findings.refuse(node.span, format!("\"{unit}\" is no unit"), help);
    }
    Some(unit)
}

fn group(node: &Node, findings: &mut Findings) -> Option<String> {
    let group = decode::text(node, findings)?;
    if !group.starts_with('/') || group.contains("//") {
        let message = format!("\"{group}\" is no path of a control group");
        let help = "write \"/system.slice/backup.service\": from the root of the control groups, as in /proc/PID/cgroup";
        return findings.refuse(node.span, message, help);
    }
    Some(group)
}

fn age(node: &Node, findings: &mut Findings) -> Option<Duration> {
    let age = decode::duration(node, findings)?;
    Some(Duration::from_nanos(age.as_nanos()))
}

/// As the kernel takes it, bytes a second in 32 bits.
fn limit(node: &Node, findings: &mut Findings) -> Option<u32> {
    let rate = decode::bandwidth(node, findings)?;
    match u32::try_from(rate.as_bps() / 8) {
        Ok(rate @ 1..) => Some(rate),
        _ => {
            let help = "write a rate from \"8bit/s\" to \"34Gbit/s\"";
            findings.refuse(node.span, "the rate is out of range", help)
        }
    }
}

fn buffer(node: &Node, findings: &mut Findings) -> Option<u32> {
    let bytes = decode::bytes(node, findings)?.0;
    match u32::try_from(bytes) {
        // The kernel doubles it, in 31 bits.
        Ok(bytes @ 4096..=0x3fff_ffff) => Some(bytes),
        _ => {
            let help = "write a size from \"4KiB\" to \"1023MiB\"";
            findings.refuse(node.span, format!("{bytes} bytes are out of range"), help)
        }
    }
}

#[cfg(test)]
mod tests {
    use fairwind_scenario::diagnostic::Sources;
    use fairwind_scenario::file::value::parse_document;
    use fairwind_testing::page::{check_sections, keys};

    use super::*;

    fn wrong(text: &str) -> String {
        read("agent.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_policy_has_rules_with_conditions_and_actions() {
        let policy = read(
            "agent.toml",
            r#"
            [[rule]]
            name = "inside"
            match = { remote = ["10.0.0.0/8"] }
            leave_alone = true

            [[rule]]
            name = "backups"
            congestion_control = "fairwind"
            parameters = { delay = "1ms" }
            limit = "20Mbit/s"
            lower_effort = true
            force = true
            [rule.match]
            programs = ["rsync", "rclone"]
            users = ["root", 1000]
            units = ["backup.service"]
            control_groups = ["/system.slice"]
            remote_ports = [873, "6000-6063"]
            direction = "out"
            bytes = "10MB"
            age = "5s"
            "#,
        )
        .unwrap();
        let [inside, backups] = policy.rules.as_slice() else {
            panic!("{policy:?}")
        };
        assert_eq!(inside.action, Action::default());
        assert_eq!(inside.conditions.remote, ["10.0.0.0/8".parse().unwrap()]);
        let action = &backups.action;
        let Some(Choice::Own(parameters)) = &action.control else {
            panic!("{action:?}")
        };
        assert_eq!(parameters.get("delay"), Ok(1000));
        assert_eq!(action.max_rate, Some(2_500_000));
        assert!(action.is_lower_effort && action.is_forced);
        let conditions = &backups.conditions;
        assert_eq!(conditions.users, [0, 1000]);
        assert_eq!(conditions.remote_ports, [873..=873, 6000..=6063]);
        assert_eq!(conditions.direction, Some(Direction::Out));
        assert_eq!(conditions.least_bytes, 10_000_000);
        assert_eq!(conditions.least_age, Duration::from_secs(5));
    }

    #[test]
    fn the_background_is_a_control_and_held_downloads() {
        let text = "[[rule]]\nname = \"a\"\nbackground = true\n";
        let policy = read("agent.toml", text).unwrap();
        let expected = Action {
            control: Some(Choice::Named("fairwind".to_owned())),
            is_held: true,
            ..Action::default()
        };
        assert_eq!(policy.rules[0].action, expected);
        let tuned = format!(
            "{text}congestion_control = \"fairwind\"\nparameters = {{ delay = \"1ms\" }}\n"
        );
        let policy = read("agent.toml", &tuned).unwrap();
        assert!(matches!(
            policy.rules[0].action.control,
            Some(Choice::Own(_))
        ));
        assert!(policy.rules[0].action.is_held);
    }

    #[test]
    fn a_policy_may_be_empty() {
        let policy = read("agent.toml", "").unwrap();
        assert!(policy.rules.is_empty());
        assert_eq!(policy.advisor.url, DEFAULT_URL);
    }

    #[test]
    fn a_control_without_parameters_is_the_kernels_if_it_has_it() {
        let text = "[[rule]]\nname = \"a\"\ncongestion_control = \"cubic\"";
        let policy = read("agent.toml", text).unwrap();
        let expected = Some(Choice::Named("cubic".to_owned()));
        assert_eq!(policy.rules[0].action.control, expected);
    }

    #[test]
    fn a_mistake_is_named_with_its_line_and_key() {
        for (line, expected) in [
            ("limt = \"1Mbit/s\"", ["limt", "limit"]),
            ("congestion_control = \"cubik\"", ["cubik", "cubic"]),
            (
                "parameters = { delay = \"1ms\" }",
                ["parameters", "congestion_control"],
            ),
            (
                "congestion_control = \"fairwind\"\nparameters = { dely = \"1ms\" }",
                ["dely", "delay"],
            ),
            (
                "leave_alone = true\nlimit = \"1Mbit/s\"",
                ["leaves alone", "leave one"],
            ),
            (
                "leave_alone = true\nforce = true",
                ["leaves alone", "leave one"],
            ),
            ("force = false", ["gives nothing", "leave_alone"]),
            ("force = true", ["gives nothing", "leave_alone"]),
            ("limit = \"100Gbit/s\"", ["out of range", "34Gbit/s"]),
            ("send_buffer = \"1kB\"", ["1000", "4KiB"]),
            (
                "match = { users = [\"no-such-user\"] }\nlimit = \"1Mbit/s\"",
                ["no-such-user", "number"],
            ),
            (
                "match = { units = [\"a/b\"] }\nlimit = \"1Mbit/s\"",
                ["a/b", "control_groups"],
            ),
            (
                "match = { control_groups = [\"a\"] }\nlimit = \"1Mbit/s\"",
                ["\"a\"", "/proc/PID/cgroup"],
            ),
            (
                "match = { remote = [\"10.0.0\"] }\nlimit = \"1Mbit/s\"",
                ["10.0.0", "10.0.0.0/8"],
            ),
            (
                "match = { local_ports = [\"9-1\"] }\nlimit = \"1Mbit/s\"",
                ["9-1", "6000-6063"],
            ),
            (
                "match = { direction = \"up\" }\nlimit = \"1Mbit/s\"",
                ["up", "out"],
            ),
            (
                "match = { port = 3 }\nlimit = \"1Mbit/s\"",
                ["port", "ports"],
            ),
        ] {
            let error = wrong(&format!("[[rule]]\nname = \"a\"\n{line}"));
            assert!(error.contains("agent.toml:"), "{line}: {error}");
            for expected in expected {
                assert!(error.contains(expected), "{line}: {error}");
            }
        }
        let twice = "[[rule]]\nname = \"a\"\nleave_alone = true\n".repeat(2);
        assert!(wrong(&twice).contains("twice"));
        let many: String = (0..=RULES_MAX)
            .map(|n| format!("[[rule]]\nname = \"{n}\"\nleave_alone = true\n"))
            .collect();
        assert!(wrong(&many).contains("64 at most"));
        assert!(wrong("advisor = \"ftp://x\"").contains("agent.toml:1:"));
        assert!(wrong("[rule]\nname = \"a\"").contains("two brackets"));
    }

    #[test]
    fn what_follows_from_a_mistake_is_no_other_mistake() {
        for line in [
            "limit = \"1\"",
            "limt = \"1Mbit/s\"",
            "background = \"yes\"",
            "congestion_control = \"cubik\"",
            "send_buffer = \"1kB\"",
            "leave_alone = 1",
            "congestion_control = \"nocc\"\nmatch = { remote = [\"10.0.0\"] }",
        ] {
            let error = wrong(&format!("[[rule]]\nname = \"a\"\n{line}"));
            assert_eq!(error.matches("agent.toml:").count(), 1, "{line}: {error}");
        }
        let nocc = "[[rule]]\nname = \"a\"\ncongestion_control = \"nocc\"\nmatch = { remote = [\"10.1.0.0/16\"] }";
        let error = wrong(&format!("allow_nocc = [\"10.0.0\"]\n{nocc}"));
        assert_eq!(error.matches("agent.toml:").count(), 1, "{error}");
    }

    #[test]
    fn nocc_is_for_networks_that_the_operator_has_declared_his_own() {
        let named = "[[rule]]\nname = \"a\"\ncongestion_control = \"nocc\"\n";
        let tuned = format!("{named}parameters = {{ window = \"50000pkt\" }}\n");
        for rule in [named, tuned.as_str()] {
            assert!(wrong(rule).contains("allow_nocc"), "{rule}");
            let inside = format!("{rule}match = {{ remote = [\"10.1.0.0/16\"] }}\n");
            assert!(wrong(&inside).contains("allow_nocc"), "{rule}");
            let allowed = |rule: &str| format!("allow_nocc = [\"10.0.0.0/8\"]\n{rule}");
            assert!(read("agent.toml", &allowed(&inside)).is_ok(), "{rule}");
            assert!(wrong(&allowed(rule)).contains("allow_nocc"), "{rule}");
        }
    }

    fn schema() -> serde_json::Value {
        let schema = include_str!("../../../../docs/reference/agent.schema.json");
        serde_json::from_str(schema).unwrap()
    }

    #[test]
    fn generated_sections_have_the_keys_of_the_schema() {
        let schema = schema();
        let rule = &schema["properties"]["rule"]["items"];
        let known = check_sections("agent.md", |section| {
            let table = match section.what {
                "keys of the policy" => &schema,
                "keys of a rule" => rule,
                "keys of match" => &rule["properties"]["match"],
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
        let table = parse_document("[[rule]]\n[rule.match]").unwrap();
        policy(&table, &mut findings);
        let rule = &schema["properties"]["rule"]["items"];
        for (what, described) in [
            ("the policy", &schema),
            ("rule", rule),
            ("match", &rule["properties"]["match"]),
        ] {
            let mut fields = findings.asked[what].clone();
            fields.sort_unstable();
            fields.dedup();
            let described = described["properties"].as_object().unwrap();
            let mut described: Vec<&String> = described.keys().collect();
            described.sort_unstable();
            assert_eq!(described, fields, "{what}");
        }
    }

    #[test]
    fn the_example_of_the_document_is_a_policy() {
        let document = include_str!("../../../../docs/reference/agent.md");
        let example = document.split("```toml\n").nth(1).unwrap();
        let example = example.split("```").next().unwrap();
        let policy = read("agent.toml", example).unwrap();
        let names: Vec<&str> = policy.rules.iter().map(|rule| &rule.name[..]).collect();
        assert_eq!(names, ["inside", "backups", "large uploads"]);
    }
}
