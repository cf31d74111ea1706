//! TOML as a tree that records the place of every key and value and keeps the order of the text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Finding, Located, Span};

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its place in the texts.
    pub span: Span,
    /// The value itself.
    pub value: Value,
    /// The text as typed, for values from the command line, where strings are not quoted.
    pub typed: Option<String>,
}

/// A TOML value.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string.
    String(String),
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A date or a time of day, as written.
    Datetime(String),
    /// A list.
    Array(Vec<Node>),
    /// Keys and values.
    Table(Table),
}

/// Keys and values in the order of the text.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The keys, each with its value.
    pub entries: Vec<(Located<String>, Node)>,
}

impl Table {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let mut entries = self.entries.iter();
        entries
            .find(|(name, _)| name.value == key)
            .map(|(_, node)| node)
    }

    /// The value of a key, mutable.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        let mut entries = self.entries.iter_mut();
        entries
            .find(|(name, _)| name.value == key)
            .map(|(_, node)| node)
    }

    /// Replaces the value of a key, or appends the key if the table does not have it.
    pub fn set(&mut self, key: Located<String>, node: Node) {
        let mut entries = self.entries.iter_mut();
        match entries.find(|(name, _)| name.value == key.value) {
            Some(entry) => *entry = (key, node),
            None => self.entries.push((key, node)),
        }
    }
}

impl Node {
    /// A value of the file.
    pub(crate) fn new(span: Span, value: Value) -> Node {
        let typed = None;
        Node { span, value, typed }
    }

    /// Whether it is this string.
    pub(crate) fn is_text(&self, word: &str) -> bool {
        matches!(&self.value, Value::String(text) if text == word)
    }

    /// What messages call the value.
    pub fn noun(&self) -> &'static str {
        match self.value {
            Value::String(_) => "a text",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Boolean(_) => "true or false",
            Value::Datetime(_) => "a date",
            Value::Array(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

/// Parses the file's text (text number 0).
pub fn parse_document(text: &str) -> Result<Table, Finding> {
    match DeTable::parse(text) {
        Ok(table) => Ok(convert_table(table.into_inner(), 0, 0)),
        Err(error) => {
            let range = error.span().unwrap_or(0..0);
            Err(Finding {
                message: format!("not TOML: {}", error.message().replace('\n', ", ")),
                help: syntax_help(text, range.start),
                span: place(range, 0, 0),
            })
        }
    }
}

/// The usual mistake is a quantity without quotes.
fn syntax_help(text: &str, at: usize) -> String {
    let line_start = text[..at.min(text.len())].rfind('\n').map_or(0, |n| n + 1);
    let line = text[line_start..].lines().next().unwrap_or_default();
    let Some((key, value)) = line.split_once('=') else {
        return String::new();
    };
    if !value
        .trim_start()
        .starts_with(|c: char| c.is_ascii_alphanumeric())
    {
        return String::new();
    }
    let value = value.split(['#', ',']).next().unwrap_or_default().trim();
    let key = key.trim();
    format!("texts and quantities must be quoted: {key} = \"{value}\"")
}

/// Parses a value from the command line: as TOML if it is TOML, otherwise as a plain string.
///
/// `offset` is where `typed` begins in text number `source`.
pub(crate) fn parse_typed(typed: &str, source: usize, offset: usize) -> Node {
    let mut node = match DeValue::parse(typed) {
        Ok(value) => convert(value, source, offset),
        Err(_) => Node::new(Span::default(), Value::String(typed.to_owned())),
    };
    node.span = Span::new(source, offset..offset + typed.len());
    node.typed = Some(typed.to_owned());
    node
}

fn convert(value: Spanned<DeValue<'_>>, source: usize, offset: usize) -> Node {
    let span = place(value.span(), source, offset);
    let value = match value.into_inner() {
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Integer(number) => {
            match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Value::Integer(number),
                // Beyond 64 bits it is still a number, which a range check will refuse.
                Err(_) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            }
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Value::Boolean(value),
        DeValue::Datetime(value) => Value::Datetime(value.to_string()),
        DeValue::Array(items) => {
            let items = items.into_iter();
            Value::Array(items.map(|item| convert(item, source, offset)).collect())
        }
        DeValue::Table(table) => Value::Table(convert_table(table, source, offset)),
    };
    Node::new(span, value)
}

fn convert_table(table: DeTable<'_>, source: usize, offset: usize) -> Table {
    let entries = table.into_iter().map(|(key, value)| {
        let span = place(key.span(), source, offset);
        let name = Located::new(key.into_inner(), span);
        (name, convert(value, source, offset))
    });
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(|(key, _)| key.span);
    Table { entries }
}

fn place(range: Range<usize>, source: usize, offset: usize) -> Span {
    Span::new(source, range.start + offset..range.end + offset)
}
