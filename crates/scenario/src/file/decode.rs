//! Decodes the tree into typed fields. Each reader returns the value, or reports how to write it and returns
//! none, so that one pass finds every problem. serde would stop at the first one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use fairwind_path::units::{Bandwidth, Bytes, Duration};

use super::value::{Node, Table, Value};
use crate::diagnostic::{Diagnostic, Finding, Located, Sources, Span, suggestion};
use crate::units_text::{self, Amount, UnitError};

/// The problems found so far, and what is needed to print them.
#[derive(Debug)]
pub struct Findings {
    /// In the order in which they were found.
    pub list: Vec<Finding>,
    /// The texts that spans refer to; a trace file with an error is added.
    pub sources: Sources,
    /// The fields read from each kind of table; a test compares them with the schema.
    pub asked: BTreeMap<String, Vec<&'static str>>,
}

impl Findings {
    /// No findings yet.
    pub fn new(sources: Sources) -> Findings {
        Findings {
            list: Vec::new(),
            sources,
            asked: BTreeMap::new(),
        }
    }

    /// Reports a problem at `span` and its correction.
    pub fn add(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.list.push(Finding {
            span,
            message: message.into(),
            help: help.into(),
        });
    }

    /// What was read, if nothing is wrong with it.
    ///
    /// # Errors
    /// Fails with all findings if there are any, or if `value` is none.
    pub fn result<T>(self, value: Option<T>) -> Result<T, Diagnostic> {
        match value {
            Some(value) if self.list.is_empty() => Ok(value),
            _ => Err(Diagnostic::new(&self.sources, &self.list)),
        }
    }

    /// Reports that `node` has the wrong type.
    fn wrong_type(&mut self, node: &Node, help: &str) {
        let message = match &node.value {
            Value::String(text) => format!("\"{text}\" is not expected here"),
            _ => format!("{} is not expected here", node.noun()),
        };
        self.add(node.span, message, help);
    }

    fn unit(&mut self, node: &Node, error: UnitError) {
        self.add(node.span, error.message, error.help);
    }
}

/// The fields of one table, read by name; those that are never read are unknown.
pub struct Fields<'a> {
    /// What the table is called in messages: `link`, `flow`, `aqm of kind red`.
    what: Cow<'static, str>,
    table: &'a Table,
    span: Span,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// The fields of `table`, which messages call `what`.
    pub fn new(what: &'static str, table: &'a Table, span: Span) -> Self {
        Fields {
            what: what.into(),
            table,
            span,
            known: Vec::new(),
        }
    }

    /// The fields of the table that `node` must be; `example` shows how it is written.
    pub fn of(
        what: &'static str,
        node: &'a Node,
        findings: &mut Findings,
        example: &str,
    ) -> Option<Self> {
        let table = table(node, findings, example)?;
        Some(Fields::new(what, table, node.span))
    }

    /// The place of the table itself, for reports of missing fields.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The node of a field, if the table has it.
    pub fn node(&mut self, name: &'static str) -> Option<&'a Node> {
        self.known.push(name);
        self.table.get(name)
    }

    /// The node of a field that is read elsewhere, too.
    pub fn peek(&self, name: &str) -> Option<&'a Node> {
        self.table.get(name)
    }

    /// An optional field.
    pub fn optional<T>(
        &mut self,
        findings: &mut Findings,
        name: &'static str,
        read: impl FnOnce(&Node, &mut Findings) -> Option<T>,
    ) -> Option<T> {
        read(self.node(name)?, findings)
    }

    /// A required field; `example` shows how it is written.
    pub fn required<T>(
        &mut self,
        findings: &mut Findings,
        name: &'static str,
        example: &str,
        read: impl FnOnce(&Node, &mut Findings) -> Option<T>,
    ) -> Option<T> {
        match self.node(name) {
            Some(node) => read(node, findings),
            None => {
                findings.add(
                    self.span,
                    format!("{} without `{name}`", self.what),
                    format!("add {name} = {example}"),
                );
                None
            }
        }
    }

    /// Reports the fields that were never read.
    pub fn finish(self, findings: &mut Findings) {
        for (key, _) in &self.table.entries {
            if !self.known.contains(&key.value.as_str()) {
                findings.add(
                    key.span,
                    format!("unknown field `{}` in {}", key.value, self.what),
                    suggestion(&key.value, self.known.iter().copied()),
                );
            }
        }
        findings.asked.insert(self.what.into_owned(), self.known);
    }
}

/// A table whose field `kind` says which other fields it has.
pub struct Kinds<T: 'static> {
    /// What messages call the table: `aqm`, and `aqm of kind red` once its kind is known.
    pub what: &'static str,
    /// A kind in quotes and a whole table, as messages show them.
    pub examples: [&'static str; 2],
    /// The kinds, and how the other fields of each are read.
    pub all: &'static [(&'static str, FieldsReader<T>)],
}

/// Reads the fields of a table.
pub type FieldsReader<T> = fn(&mut Fields<'_>, &mut Findings) -> Option<T>;

impl<T: 'static> Kinds<T> {
    /// Reads such a table.
    pub fn read(&self, node: &Node, findings: &mut Findings) -> Option<T> {
        let [kind, whole] = self.examples;
        let mut fields = Fields::of(self.what, node, findings, whole)?;
        let (kind, read) = fields.required(findings, "kind", kind, |node, findings| {
            word(node, findings, self.all)
        })?;
        fields.what = format!("{} of kind {kind}", self.what).into();
        let value = read(&mut fields, findings);
        fields.finish(findings);
        value
    }
}

/// A string.
pub fn text(node: &Node, findings: &mut Findings) -> Option<String> {
    located_text(node, findings).map(|text| text.value)
}

/// A string and its place.
pub fn located_text(node: &Node, findings: &mut Findings) -> Option<Located<String>> {
    let value = match (&node.value, &node.typed) {
        (Value::String(text), _) => text.clone(),
        // On the command line `stack=2005` needs no quotes.
        (Value::Integer(_) | Value::Float(_) | Value::Boolean(_), Some(typed)) => typed.clone(),
        _ => {
            findings.wrong_type(node, "write a text in quotes");
            return None;
        }
    };
    Some(Located {
        value,
        span: node.span,
    })
}

/// A name: not empty, printable, at most 64 characters, no slash.
pub fn name(node: &Node, findings: &mut Findings) -> Option<Located<String>> {
    let name = located_text(node, findings)?;
    let printable = |c: char| !c.is_control() && c != '/';
    if name.value.trim().is_empty()
        || name.value.chars().count() > 64
        || !name.value.chars().all(printable)
    {
        findings.add(
            node.span,
            format!("{:?} is not a name", name.value),
            "write 1 to 64 printable characters without a slash",
        );
        return None;
    }
    Some(name)
}

/// A list; it may be empty.
pub fn list<'a>(node: &'a Node, findings: &mut Findings, example: &str) -> Option<&'a [Node]> {
    match &node.value {
        Value::Array(items) => Some(items),
        _ => {
            findings.wrong_type(node, &format!("write a list: {example}"));
            None
        }
    }
}

/// A table.
pub fn table<'a>(node: &'a Node, findings: &mut Findings, example: &str) -> Option<&'a Table> {
    match &node.value {
        Value::Table(table) => Some(table),
        _ => {
            findings.wrong_type(node, &format!("write a table: {example}"));
            None
        }
    }
}

/// `true` or `false`.
pub fn boolean(node: &Node, findings: &mut Findings) -> Option<bool> {
    match node.value {
        Value::Boolean(value) => Some(value),
        _ => {
            findings.wrong_type(node, "write true or false");
            None
        }
    }
}

/// A whole number from `least` to `greatest`, inclusive.
pub fn whole(least: u64, greatest: u64) -> impl Fn(&Node, &mut Findings) -> Option<u64> {
    move |node, findings| match node.value {
        Value::Integer(value)
            if u64::try_from(value).is_ok_and(|v| (least..=greatest).contains(&v)) =>
        {
            Some(value as u64)
        }
        Value::Integer(value) => {
            let help = format!("write a whole number from {least} to {greatest}");
            findings.add(node.span, format!("{value} is out of range"), help);
            None
        }
        _ => {
            let help = format!("write a whole number from {least} to {greatest}");
            findings.wrong_type(node, &help);
            None
        }
    }
}

/// A number from `least` to `greatest`, inclusive.
pub fn number(least: f64, greatest: f64) -> impl Fn(&Node, &mut Findings) -> Option<f64> {
    move |node, findings| {
        let value = match node.value {
            Value::Integer(value) => value as f64,
            Value::Float(value) => value,
            _ => {
                let help = format!("write a number from {least} to {greatest}");
                findings.wrong_type(node, &help);
                return None;
            }
        };
        if (least..=greatest).contains(&value) {
            return Some(value);
        }
        let message = if value < 0.0 && least >= 0.0 {
            format!("{value} is negative")
        } else {
            format!("{value} is out of range")
        };
        findings.add(
            node.span,
            message,
            format!("write a number from {least} to {greatest}"),
        );
        None
    }
}

/// A probability: a number from 0 to 1, or a percentage.
pub fn probability(node: &Node, findings: &mut Findings) -> Option<f64> {
    if let Value::String(text) = &node.value {
        return units_text::percentage(text)
            .map_err(|error| findings.unit(node, error))
            .ok();
    }
    number(0.0, 1.0)(node, findings)
}

/// A quantity written as a string; `example` is shown if the unit is missing.
fn quantity<T>(
    node: &Node,
    findings: &mut Findings,
    example: &str,
    read: fn(&str) -> Result<T, UnitError>,
) -> Option<T> {
    match &node.value {
        Value::String(text) => read(text).map_err(|error| findings.unit(node, error)).ok(),
        Value::Integer(value) => {
            findings.add(
                node.span,
                format!("{value} has no unit"),
                example_help(example),
            );
            None
        }
        Value::Float(value) => {
            findings.add(
                node.span,
                format!("{value} has no unit"),
                example_help(example),
            );
            None
        }
        _ => {
            findings.wrong_type(node, &example_help(example));
            None
        }
    }
}

fn example_help(example: &str) -> String {
    format!("write a number and a unit in quotes, such as \"{example}\"")
}

/// A duration of 0 or more.
pub fn duration(node: &Node, findings: &mut Findings) -> Option<Duration> {
    quantity(node, findings, "10ms", units_text::duration)
}

/// A duration above 0.
pub fn positive_duration(node: &Node, findings: &mut Findings) -> Option<Duration> {
    let value = duration(node, findings)?;
    if value == Duration::ZERO {
        findings.add(
            node.span,
            "0 is too short",
            "write a time above 0, such as \"1s\"",
        );
        return None;
    }
    Some(value)
}

/// A bandwidth above 0.
pub fn bandwidth(node: &Node, findings: &mut Findings) -> Option<Bandwidth> {
    let value = quantity(node, findings, "50Mbit/s", units_text::bandwidth)?;
    if value.as_bps() == 0 {
        findings.add(
            node.span,
            "nothing passes at a bandwidth of 0",
            "write a bandwidth above 0, such as \"50Mbit/s\"",
        );
        return None;
    }
    Some(value)
}

/// A number of bytes above 0.
pub fn bytes(node: &Node, findings: &mut Findings) -> Option<Bytes> {
    let value = quantity(node, findings, "500kB", units_text::bytes)?;
    if value.0 == 0 {
        findings.add(
            node.span,
            "0 bytes are too few",
            "write a size above 0, such as \"500kB\"",
        );
        return None;
    }
    Some(value)
}

/// Packets or bytes, above 0.
pub fn amount(node: &Node, findings: &mut Findings) -> Option<Amount> {
    let value = quantity(node, findings, "50pkt", units_text::amount)?;
    if matches!(value, Amount::Packets(0) | Amount::Bytes(0)) {
        findings.add(
            node.span,
            "nothing fits into a queue of 0",
            "write a length above 0, such as \"50pkt\" or \"75kB\"",
        );
        return None;
    }
    Some(value)
}

/// One of the given words.
pub fn choice<T: Copy>(
    words: &'static [(&'static str, T)],
) -> impl Fn(&Node, &mut Findings) -> Option<T> {
    move |node, findings| word(node, findings, words).map(|(_, value)| *value)
}

/// One of the given words, and what it stands for.
fn word<T>(
    node: &Node,
    findings: &mut Findings,
    words: &'static [(&'static str, T)],
) -> Option<&'static (&'static str, T)> {
    let text = located_text(node, findings)?;
    let found = words.iter().find(|(word, _)| *word == text.value);
    if found.is_none() {
        findings.add(
            node.span,
            format!("\"{}\" is not known here", text.value),
            suggestion(&text.value, words.iter().map(|(word, _)| *word)),
        );
    }
    found
}
