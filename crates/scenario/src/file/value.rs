//! TOML as a tree that records the place of every key and value and keeps the order of the text.

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
        self.entries
            .iter()
            .find(|(name, _)| name.value == key)
            .map(|(_, node)| node)
    }

    /// The value of a key, mutable.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.entries
            .iter_mut()
            .find(|(name, _)| name.value == key)
            .map(|(_, node)| node)
    }

    /// Replaces the value of a key, or appends the key if the table does not have it.
    pub fn set(&mut self, key: Located<String>, node: Node) {
        match self
            .entries
            .iter_mut()
            .find(|(name, _)| name.value == key.value)
        {
            Some(entry) => *entry = (key, node),
            None => self.entries.push((key, node)),
        }
    }
}

impl Node {
    /// Whether it is this string.
    pub fn is_text(&self, word: &str) -> bool {
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
                span: Span {
                    source: 0,
                    start: range.start,
                    end: range.end,
                },
                message: format!("not TOML: {}", error.message().replace('\n', ", ")),
                help: syntax_help(text, range.start),
            })
        }
    }
}

/// The usual mistake is a quantity without quotes.
fn syntax_help(text: &str, at: usize) -> String {
    let line_start = text[..at.min(text.len())].rfind('\n').map_or(0, |n| n + 1);
    let line = text[line_start..].lines().next().unwrap_or_default();
    match line.split_once('=') {
        Some((key, value))
            if value
                .trim_start()
                .starts_with(|c: char| c.is_ascii_alphanumeric()) =>
        {
            let value = value.split(['#', ',']).next().unwrap_or_default().trim();
            format!(
                "texts and quantities must be quoted: {} = \"{value}\"",
                key.trim()
            )
        }
        _ => String::new(),
    }
}

/// Parses a value from the command line: as TOML if it is TOML, otherwise as a plain string.
///
/// `offset` is where `typed` begins in text number `source`.
pub fn parse_typed(typed: &str, source: usize, offset: usize) -> Node {
    let mut node = match DeValue::parse(typed) {
        Ok(value) => {
            let range = value.span();
            convert(value.into_inner(), range, source, offset)
        }
        Err(_) => Node {
            span: Span::default(),
            value: Value::String(typed.to_owned()),
            typed: None,
        },
    };
    node.span = Span {
        source,
        start: offset,
        end: offset + typed.len(),
    };
    node.typed = Some(typed.to_owned());
    node
}

fn convert(
    value: DeValue<'_>,
    range: std::ops::Range<usize>,
    source: usize,
    offset: usize,
) -> Node {
    let value = match value {
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
        DeValue::Array(items) => Value::Array(
            items
                .into_iter()
                .map(|item| {
                    let range = item.span();
                    convert(item.into_inner(), range, source, offset)
                })
                .collect(),
        ),
        DeValue::Table(table) => Value::Table(convert_table(table, source, offset)),
    };
    Node {
        span: Span {
            source,
            start: range.start + offset,
            end: range.end + offset,
        },
        value,
        typed: None,
    }
}

fn convert_table(table: DeTable<'_>, source: usize, offset: usize) -> Table {
    let mut entries: Vec<(Located<String>, Node)> = table
        .into_iter()
        .map(|(key, value)| {
            let key_range = key.span();
            let value_range = value.span();
            let key = Located {
                value: key.into_inner().into_owned(),
                span: Span {
                    source,
                    start: key_range.start + offset,
                    end: key_range.end + offset,
                },
            };
            (
                key,
                convert(value.into_inner(), value_range, source, offset),
            )
        })
        .collect();
    entries.sort_by_key(|(key, _)| key.span);
    Table { entries }
}
