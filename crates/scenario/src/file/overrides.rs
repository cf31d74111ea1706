//! `--set link.bottleneck.bandwidth=20Mbit/s`: values from the command line that override the file's.
//!
//! A path consists of field names joined by dots. `link` and `flow` are followed by a name, or a position
//! from 1. A name that contains dots is quoted. The value is TOML, or a string without its quotes.

use super::decode::Findings;
use super::value::{Node, Table, Value, parse_typed};
use crate::diagnostic::{Located, Span, suggestion};

/// Applies one argument, text number `source`, to the document.
pub(super) fn apply(
    document: &mut Table,
    argument: &str,
    source: usize,
    findings: &mut Findings,
) -> Option<()> {
    let examples = [
        "link.bottleneck.bandwidth=20Mbit/s",
        "flow.one.congestion_control",
    ];
    let (keys, node) = assignment(argument, source, examples, findings)?;
    let (first, rest) = keys.split_first()?;
    let list = first.value.as_str();
    if list != "link" && list != "flow" {
        put(document, first, rest, node, findings);
        return Some(());
    }
    let Some((which, fields)) = rest.split_first() else {
        let message = format!("`{list}` alone does not say which one");
        return findings.refuse(
            first.span,
            message,
            format!("write {list}.NAME.FIELD=VALUE"),
        );
    };
    let Some((field, deeper)) = fields.split_first() else {
        let which_one = &which.value;
        let message = format!("no field of {list} `{which_one}`");
        let help = format!("write {list}.{which_one}.FIELD=VALUE");
        return findings.refuse(which.span, message, help);
    };
    let table = element(document, list, which, findings)?;
    put(table, field, deeper, node, findings);
    Some(())
}

/// Applies one argument to a single link, so its path begins with the link's field.
pub(super) fn apply_to_link(
    link: &mut Table,
    argument: &str,
    source: usize,
    findings: &mut Findings,
) -> Option<()> {
    let examples = ["bandwidth=20Mbit/s", "reverse.bandwidth"];
    let (keys, node) = assignment(argument, source, examples, findings)?;
    let (first, deeper) = keys.split_first()?;
    put(link, first, deeper, node, findings);
    Some(())
}

/// Splits an argument into field names and value. The examples are of an argument and of a path.
fn assignment(
    argument: &str,
    source: usize,
    [example, example_path]: [&str; 2],
    findings: &mut Findings,
) -> Option<(Vec<Located<String>>, Node)> {
    let to = |end: usize| Span::new(source, 0..end);
    let Some((path, typed)) = argument.split_once('=') else {
        let help = format!("write path=value, such as {example}");
        return findings.refuse(to(argument.len()), "no value", help);
    };
    let keys = split_path(path, source);
    if keys.iter().any(|key| key.value.is_empty()) {
        let help = format!("write names joined by dots, such as {example_path}");
        return findings.refuse(to(path.len()), "not a path of field names", help);
    }
    let leading = typed.len() - typed.trim_start().len();
    let node = parse_typed(typed.trim(), source, path.len() + 1 + leading);
    Some((keys, node))
}

/// Finds a link or flow by name or position.
fn element<'a>(
    document: &'a mut Table,
    list: &str,
    which: &Located<String>,
    findings: &mut Findings,
) -> Option<&'a mut Table> {
    let items: &mut [Node] = match document.get_mut(list).map(|node| &mut node.value) {
        Some(Value::Array(items)) => items,
        _ => &mut [],
    };
    let names: Vec<String> = items.iter().enumerate().map(label).collect();
    let of_name = names.iter().position(|name| *name == which.value);
    let number = || {
        which
            .value
            .parse()
            .ok()
            .and_then(|n: usize| n.checked_sub(1))
    };
    match of_name.or_else(number).and_then(|at| items.get_mut(at)) {
        Some(Node {
            value: Value::Table(table),
            ..
        }) => Some(table),
        // The decoder reports what the file has in place of a table.
        Some(_) => None,
        None => {
            let message = format!("the file has no {list} `{}`", which.value);
            let help = suggestion(&which.value, names.iter().map(String::as_str));
            findings.refuse(which.span, message, help)
        }
    }
}

/// The name of a link or flow, or the one that the decoder gives it by default.
fn label((index, node): (usize, &Node)) -> String {
    let Value::Table(table) = &node.value else {
        return String::new();
    };
    let text = |node: &Node| match &node.value {
        Value::String(text) => text.clone(),
        _ => String::new(),
    };
    if let Some(name) = table.get("name") {
        return text(name);
    }
    match table.get("between").map(|node| &node.value) {
        Some(Value::Array(ends)) => {
            let ends: Vec<String> = ends.iter().map(text).collect();
            ends.join("-")
        }
        _ => format!("flow-{}", index + 1),
    }
}

/// Sets a value below `table`, creating the tables that are missing on the way.
fn put(
    table: &mut Table,
    key: &Located<String>,
    deeper: &[Located<String>],
    node: Node,
    findings: &mut Findings,
) {
    let Some((next, deeper)) = deeper.split_first() else {
        return table.set(key.clone(), node);
    };
    let name = &key.value;
    if table.get(name).is_none() {
        let empty = Value::Table(Table::default());
        table.set(key.clone(), Node::new(key.span, empty));
    }
    match table.get_mut(name).map(|node| &mut node.value) {
        Some(Value::Table(inner)) => put(inner, next, deeper, node, findings),
        _ => {
            let help = format!("set it whole: {name}={{ {} = ... }}", next.value);
            findings.add(
                key.span,
                format!("`{name}` is not a table in the file"),
                help,
            );
        }
    }
}

/// Splits at dots outside quotes.
fn split_path(path: &str, source: usize) -> Vec<Located<String>> {
    let mut quoted = false;
    let parts = path.split(|c| {
        quoted ^= c == '"';
        c == '.' && !quoted
    });
    let mut end = 0;
    let keys = parts.map(|part| {
        let start = end;
        end = start + part.len() + 1;
        let inner = part
            .trim()
            .strip_prefix('"')
            .and_then(|part| part.strip_suffix('"'));
        let span = Span::new(source, start..start + part.len());
        Located::new(inner.unwrap_or(part.trim()), span)
    });
    keys.collect()
}
