//! `--set link.bottleneck.bandwidth=20Mbit/s`: values from the command line that override the file's.
//!
//! A path consists of field names joined by dots. `link` and `flow` are followed by a name, or a position
//! from 1. A name that contains dots is quoted. The value is TOML, or a string without its quotes.

use super::decode::Findings;
use super::value::{Node, Table, Value, parse_typed};
use crate::diagnostic::{Located, Span, suggestion};

/// Applies one argument, text number `source`, to the document.
pub fn apply(document: &mut Table, argument: &str, source: usize, findings: &mut Findings) {
    let example = Example {
        value: "link.bottleneck.bandwidth=20Mbit/s",
        path: "flow.one.congestion_control",
    };
    let Some((keys, node)) = assignment(argument, source, &example, findings) else {
        return;
    };
    let mut keys = keys.into_iter();
    let Some(first) = keys.next() else { return };
    let rest: Vec<Located<String>> = keys.collect();
    if first.value != "link" && first.value != "flow" {
        put(document, first, &rest, node, findings);
        return;
    }
    let Some((which, fields)) = rest.split_first() else {
        findings.add(
            first.span,
            format!("`{}` alone does not say which one", first.value),
            format!("write {}.NAME.FIELD=VALUE", first.value),
        );
        return;
    };
    let Some((field, deeper)) = fields.split_first() else {
        findings.add(
            which.span,
            format!("no field of {} `{}`", first.value, which.value),
            format!("write {}.{}.FIELD=VALUE", first.value, which.value),
        );
        return;
    };
    if let Some(table) = element(document, &first, which, findings) {
        put(table, field.clone(), deeper, node, findings);
    }
}

/// Applies one argument to a single link, so its path begins with the link's field.
pub fn apply_to_link(link: &mut Table, argument: &str, source: usize, findings: &mut Findings) {
    let example = Example {
        value: "bandwidth=20Mbit/s",
        path: "reverse.bandwidth",
    };
    let Some((keys, node)) = assignment(argument, source, &example, findings) else {
        return;
    };
    let mut keys = keys.into_iter();
    let Some(first) = keys.next() else { return };
    let deeper: Vec<Located<String>> = keys.collect();
    put(link, first, &deeper, node, findings);
}

/// Examples that messages show.
struct Example {
    value: &'static str,
    path: &'static str,
}

/// Splits an argument into field names and value.
fn assignment(
    argument: &str,
    source: usize,
    example: &Example,
    findings: &mut Findings,
) -> Option<(Vec<Located<String>>, Node)> {
    let at = |start: usize, end: usize| Span { source, start, end };
    let Some((path, typed)) = argument.split_once('=') else {
        findings.add(
            at(0, argument.len()),
            "no value",
            format!("write path=value, such as {}", example.value),
        );
        return None;
    };
    let keys = split_path(path, source);
    if keys.iter().any(|key| key.value.is_empty()) {
        findings.add(
            at(0, path.len()),
            "not a path of field names",
            format!("write names joined by dots, such as {}", example.path),
        );
        return None;
    }
    let value_start = path.len() + 1;
    let leading = typed.len() - typed.trim_start().len();
    let node = parse_typed(typed.trim(), source, value_start + leading);
    Some((keys, node))
}

/// Finds a link or flow by name or position.
fn element<'a>(
    document: &'a mut Table,
    list: &Located<String>,
    which: &Located<String>,
    findings: &mut Findings,
) -> Option<&'a mut Table> {
    let items: &mut [Node] = match document.get_mut(&list.value) {
        Some(Node {
            value: Value::Array(items),
            ..
        }) => items,
        _ => &mut [],
    };
    let names: Vec<String> = items.iter().enumerate().map(label).collect();
    let position = names
        .iter()
        .position(|name| *name == which.value)
        .or_else(|| {
            which
                .value
                .parse()
                .ok()
                .and_then(|n: usize| n.checked_sub(1))
        })
        .filter(|position| *position < names.len());
    let Some(position) = position else {
        findings.add(
            which.span,
            format!("the file has no {} `{}`", list.value, which.value),
            suggestion(&which.value, names.iter().map(String::as_str)),
        );
        return None;
    };
    match &mut items[position].value {
        Value::Table(table) => Some(table),
        // The decoder reports what the file has in place of a table.
        _ => None,
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
    key: Located<String>,
    deeper: &[Located<String>],
    node: Node,
    findings: &mut Findings,
) {
    let Some((next, deeper)) = deeper.split_first() else {
        table.set(key, node);
        return;
    };
    if table.get(&key.value).is_none() {
        let empty = Node {
            span: key.span,
            value: Value::Table(Table::default()),
            typed: None,
        };
        table.set(key.clone(), empty);
    }
    match table.get_mut(&key.value).map(|node| &mut node.value) {
        Some(Value::Table(inner)) => put(inner, next.clone(), deeper, node, findings),
        _ => findings.add(
            key.span,
            format!("`{}` is not a table in the file", key.value),
            format!("set it whole: {}={{ {} = ... }}", key.value, next.value),
        ),
    }
}

/// Splits at dots outside quotes.
fn split_path(path: &str, source: usize) -> Vec<Located<String>> {
    let mut keys = Vec::new();
    let mut start = 0;
    let mut quoted = false;
    let mut close = |start: usize, end: usize| {
        let part = &path[start..end];
        let key = part
            .trim()
            .strip_prefix('"')
            .and_then(|inner| inner.strip_suffix('"'))
            .unwrap_or(part.trim());
        keys.push(Located {
            value: key.to_owned(),
            span: Span { source, start, end },
        });
    };
    for (at, c) in path.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => {
                close(start, at);
                start = at + 1;
            }
            _ => {}
        }
    }
    close(start, path.len());
    keys
}
