//! Decodes the tree into typed fields. Each reader returns the value, or reports how to write it and returns
//! none, so that one pass finds every problem. serde would stop at the first one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;

use fairwind_path::units::{Bandwidth, Bytes, Duration};

use super::value::{Node, Table, Value, parse_document};
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

    /// Reports a problem, because of which there is no value.
    pub fn refuse<T>(
        &mut self,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        self.add(span, message, help);
        None
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
    fn wrong_type<T>(&mut self, node: &Node, help: impl Into<String>) -> Option<T> {
        let message = match &node.value {
            Value::String(text) => format!("\"{text}\" is not expected here"),
            _ => format!("{} is not expected here", node.noun()),
        };
        self.refuse(node.span, message, help)
    }

    /// The quantity, or why the text of `node` is none.
    fn quantity<T>(&mut self, node: &Node, read: Result<T, UnitError>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error) => self.refuse(node.span, error.message, error.help),
        }
    }
}

/// Reads a TOML text that messages call `name`.
///
/// # Errors
/// Fails with all findings if there are any, or if `read` returns none.
pub fn document<T>(
    text: &str,
    name: &str,
    read: impl FnOnce(Table, &mut Findings) -> Option<T>,
) -> Result<T, Diagnostic> {
    let mut findings = Findings::new(Sources::new(name, text));
    let value = match parse_document(text) {
        Ok(table) => read(table, &mut findings),
        Err(finding) => {
            findings.list.push(finding);
            None
        }
    };
    findings.result(value)
}

/// The fields of one table, read by name; those that are never read are unknown. A required field that is
/// missing or wrong is reported and read as its default, so that the others are read as well.
pub struct Fields<'a, 'f> {
    /// What the table is called in messages: `link`, `flow`, `aqm of kind red`.
    what: Cow<'static, str>,
    table: &'a Table,
    span: Span,
    known: Vec<&'static str>,
    /// Whether every required field so far has its value.
    complete: bool,
    /// Where problems are reported.
    pub findings: &'f mut Findings,
}

impl<'a, 'f> Fields<'a, 'f> {
    /// The fields of `table`, which messages call `what`.
    pub fn new(
        what: &'static str,
        table: &'a Table,
        span: Span,
        findings: &'f mut Findings,
    ) -> Self {
        Fields {
            what: what.into(),
            table,
            span,
            known: Vec::new(),
            complete: true,
            findings,
        }
    }

    /// The fields of the table that `node` must be; `example` shows how it is written.
    pub fn of(
        what: &'static str,
        node: &'a Node,
        findings: &'f mut Findings,
        example: &str,
    ) -> Option<Self> {
        let table = table(node, findings, example)?;
        Some(Fields::new(what, table, node.span, findings))
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
        name: &'static str,
        read: impl FnOnce(&Node, &mut Findings) -> Option<T>,
    ) -> Option<T> {
        read(self.node(name)?, self.findings)
    }

    /// A field with a default.
    pub fn get_or<T>(
        &mut self,
        name: &'static str,
        default: T,
        read: impl FnOnce(&Node, &mut Findings) -> Option<T>,
    ) -> T {
        self.optional(name, read).unwrap_or(default)
    }

    /// A field whose default is that of its type.
    pub fn or_default<T: Default>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&Node, &mut Findings) -> Option<T>,
    ) -> T {
        self.optional(name, read).unwrap_or_default()
    }

    /// A required field; `example` shows how it is written.
    pub fn required<T: Default>(
        &mut self,
        name: &'static str,
        example: &str,
        read: impl FnOnce(&Node, &mut Findings) -> Option<T>,
    ) -> T {
        let value = match self.node(name) {
            Some(node) => read(node, self.findings),
            None => {
                let message = format!("{} without `{name}`", self.what);
                let help = format!("add {name} = {example}");
                self.findings.refuse(self.span, message, help)
            }
        };
        self.needed(value).unwrap_or_default()
    }

    /// The tables of `[[name]]`, if there are any; none of something else, which is reported.
    pub fn items(&mut self, name: &'static str) -> Option<&'a [Node]> {
        let Some(node) = self.node(name) else {
            return Some(&[]);
        };
        if let Value::Array(items) = &node.value {
            return Some(items);
        }
        let message = format!("`{name}` is {}, not a list of tables", node.noun());
        let help = format!("write [[{name}]] with two brackets");
        self.findings.refuse(node.span, message, help)
    }

    /// The tables of `[[name]]`, at least one, each read with its position from 1.
    pub fn tables<T>(
        &mut self,
        name: &'static str,
        mut read: impl FnMut(&Node, usize, &mut Findings) -> Option<T>,
    ) -> Vec<T> {
        let Some(items) = self.items(name) else {
            return Vec::new();
        };
        if items.is_empty() {
            let (message, help) = (format!("no {name}"), format!("add a [[{name}]] table"));
            let span = self.peek(name).map_or(self.span, |node| node.span);
            self.findings.add(span, message, help);
        }
        let read = |(index, node)| {
            let value = read(node, index + 1, self.findings);
            self.complete &= value.is_some();
            value
        };
        items.iter().enumerate().filter_map(read).collect()
    }

    /// A value without which the table has none.
    pub fn needed<T>(&mut self, value: Option<T>) -> Option<T> {
        self.complete &= value.is_some();
        value
    }

    /// Whether every required field so far has its value, so that they can be compared.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Reports a problem, because of which the table has no value.
    pub fn refuse(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.complete = false;
        self.findings.add(span, message, help);
    }

    /// Reports the fields that were never read. The table's value, if no required field lacks its own.
    pub fn finish<T>(self, value: T) -> Option<T> {
        for (key, _) in &self.table.entries {
            if !self.known.contains(&key.value.as_str()) {
                self.findings.add(
                    key.span,
                    format!("unknown field `{}` in {}", key.value, self.what),
                    suggestion(&key.value, self.known.iter().copied()),
                );
            }
        }
        let what = self.what.into_owned();
        self.findings.asked.insert(what, self.known);
        self.complete.then_some(value)
    }
}

/// Reads the fields of a table.
pub(super) type FieldsReader<T> = fn(&mut Fields<'_, '_>) -> T;

/// Reads a table whose field `kind` says which other fields it has. Messages call it `what`, and `what of kind
/// red` once its kind is known; `examples` are a kind in quotes and a whole table.
pub(super) fn by_kind<T>(
    node: &Node,
    findings: &mut Findings,
    what: &'static str,
    examples: [&str; 2],
    kinds: &'static [(&'static str, FieldsReader<T>)],
) -> Option<T> {
    let [kind, whole] = examples;
    let mut fields = Fields::of(what, node, findings, whole)?;
    let (kind, read) = fields.required("kind", kind, |node, findings| {
        word(node, findings, kinds).map(Some)
    })?;
    fields.what = format!("{what} of kind {kind}").into();
    let value = read(&mut fields);
    fields.finish(value)
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
        _ => return findings.wrong_type(node, "write a text in quotes"),
    };
    Some(Located::new(value, node.span))
}

/// A name: not empty, printable, at most 64 characters, no slash.
pub fn name(node: &Node, findings: &mut Findings) -> Option<Located<String>> {
    let name = located_text(node, findings)?;
    let text = &name.value;
    let printable = |c: char| !c.is_control() && c != '/';
    if text.trim().is_empty() || text.chars().count() > 64 || !text.chars().all(printable) {
        let message = format!("{text:?} is not a name");
        let help = "write 1 to 64 printable characters without a slash";
        return findings.refuse(node.span, message, help);
    }
    Some(name)
}

/// A list; it may be empty.
pub fn list<'a>(node: &'a Node, findings: &mut Findings, example: &str) -> Option<&'a [Node]> {
    match &node.value {
        Value::Array(items) => Some(items),
        _ => findings.wrong_type(node, format!("write a list: {example}")),
    }
}

/// A list without the items that are wrong, which are reported.
pub fn each<T>(
    example: &str,
    read: impl Fn(&Node, &mut Findings) -> Option<T>,
) -> impl Fn(&Node, &mut Findings) -> Option<Vec<T>> {
    move |node, findings| {
        let items = list(node, findings, example)?.iter();
        Some(items.filter_map(|item| read(item, findings)).collect())
    }
}

/// A table.
pub fn table<'a>(node: &'a Node, findings: &mut Findings, example: &str) -> Option<&'a Table> {
    match &node.value {
        Value::Table(table) => Some(table),
        _ => findings.wrong_type(node, format!("write a table: {example}")),
    }
}

/// `true` or `false`.
pub fn boolean(node: &Node, findings: &mut Findings) -> Option<bool> {
    match node.value {
        Value::Boolean(value) => Some(value),
        _ => findings.wrong_type(node, "write true or false"),
    }
}

/// A whole number from `least` to `greatest`, inclusive.
pub fn whole<T: Display + PartialOrd + TryFrom<i64>>(
    least: T,
    greatest: T,
) -> impl Fn(&Node, &mut Findings) -> Option<T> {
    move |node, findings| {
        let help = format!("write a whole number from {least} to {greatest}");
        let Value::Integer(value) = node.value else {
            return findings.wrong_type(node, help);
        };
        match T::try_from(value) {
            Ok(value) if (&least..=&greatest).contains(&&value) => Some(value),
            _ => findings.refuse(node.span, format!("{value} is out of range"), help),
        }
    }
}

/// A number from `least` to `greatest`, inclusive.
pub fn number(least: f64, greatest: f64) -> impl Fn(&Node, &mut Findings) -> Option<f64> {
    move |node, findings| {
        let help = format!("write a number from {least} to {greatest}");
        let value = match node.value {
            Value::Integer(value) => value as f64,
            Value::Float(value) => value,
            _ => return findings.wrong_type(node, help),
        };
        if (least..=greatest).contains(&value) {
            return Some(value);
        }
        let negative = value < 0.0 && least >= 0.0;
        let wrong = if negative { "negative" } else { "out of range" };
        findings.refuse(node.span, format!("{value} is {wrong}"), help)
    }
}

/// A probability: a number from 0 to 1, or a percentage.
pub(super) fn probability(node: &Node, findings: &mut Findings) -> Option<f64> {
    match &node.value {
        Value::String(text) => findings.quantity(node, units_text::percentage(text)),
        _ => number(0.0, 1.0)(node, findings),
    }
}

/// A quantity written as a string; `example` is shown if the unit is missing.
fn quantity<T>(
    node: &Node,
    findings: &mut Findings,
    example: &str,
    read: fn(&str) -> Result<T, UnitError>,
) -> Option<T> {
    let help = format!("write a number and a unit in quotes, such as \"{example}\"");
    let number = match &node.value {
        Value::String(text) => return findings.quantity(node, read(text)),
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        _ => return findings.wrong_type(node, help),
    };
    findings.refuse(node.span, format!("{number} has no unit"), help)
}

/// The same if it is not 0.
fn above_zero<T: Default + PartialEq>(
    value: T,
    node: &Node,
    findings: &mut Findings,
    message: &str,
    help: &str,
) -> Option<T> {
    if value == T::default() {
        return findings.refuse(node.span, message, help);
    }
    Some(value)
}

/// A duration of 0 or more.
pub fn duration(node: &Node, findings: &mut Findings) -> Option<Duration> {
    quantity(node, findings, "10ms", units_text::duration)
}

/// A duration above 0.
pub(super) fn positive_duration(node: &Node, findings: &mut Findings) -> Option<Duration> {
    let value = duration(node, findings)?;
    let help = "write a time above 0, such as \"1s\"";
    above_zero(value, node, findings, "0 is too short", help)
}

/// A bandwidth above 0.
pub fn bandwidth(node: &Node, findings: &mut Findings) -> Option<Bandwidth> {
    let value = quantity(node, findings, "50Mbit/s", units_text::bandwidth)?;
    let message = "nothing passes at a bandwidth of 0";
    let help = "write a bandwidth above 0, such as \"50Mbit/s\"";
    above_zero(value, node, findings, message, help)
}

/// A number of bytes above 0.
pub fn bytes(node: &Node, findings: &mut Findings) -> Option<Bytes> {
    let value = quantity(node, findings, "500kB", units_text::bytes)?;
    let help = "write a size above 0, such as \"500kB\"";
    above_zero(value, node, findings, "0 bytes are too few", help)
}

/// Packets or bytes, above 0.
pub(super) fn amount(node: &Node, findings: &mut Findings) -> Option<Amount> {
    let value = quantity(node, findings, "50pkt", units_text::amount)?;
    if matches!(value, Amount::Packets(0) | Amount::Bytes(0)) {
        let help = "write a length above 0, such as \"50pkt\" or \"75kB\"";
        return findings.refuse(node.span, "nothing fits into a queue of 0", help);
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
    let text = located_text(node, findings)?.value;
    let found = words.iter().find(|(word, _)| *word == text);
    found.or_else(|| {
        let help = suggestion(&text, words.iter().map(|(word, _)| *word));
        findings.refuse(node.span, format!("\"{text}\" is not known here"), help)
    })
}
