//! Tables of the files that people write, field by field. A field that is missing or wrong is reported and read as
//! empty: of a file with a report nothing is taken, so all its mistakes are found at once.

use fairwind_scenario::diagnostic::{Diagnostic, Sources, Span};
use fairwind_scenario::file::decode::{self, Fields, Findings};
use fairwind_scenario::file::value::{Node, Table, parse_document};

use crate::Filter;

/// Reads a TOML text that messages call `name`.
pub(crate) fn decoded<T>(
    text: &str,
    name: &str,
    read: impl FnOnce(&Table, &mut Findings) -> Option<T>,
) -> Result<T, Diagnostic> {
    let mut findings = Findings::new(Sources::new(name, text));
    let value = match parse_document(text) {
        Ok(table) => read(&table, &mut findings),
        Err(finding) => {
            findings.list.push(finding);
            None
        }
    };
    findings.result(value)
}

/// A table, and where its mistakes are reported.
pub(crate) struct Form<'a, 'f> {
    pub fields: Fields<'a>,
    pub findings: &'f mut Findings,
}

impl<'a, 'f> Form<'a, 'f> {
    /// The whole text, which messages call `what`.
    pub(crate) fn whole(what: &'static str, table: &'a Table, findings: &'f mut Findings) -> Self {
        let fields = Fields::new(what, table, Span::default());
        Form { fields, findings }
    }

    /// The table that a node must be; `example` shows how it is written.
    pub(crate) fn of(
        what: &'static str,
        node: &'a Node,
        findings: &'f mut Findings,
        example: &str,
    ) -> Option<Self> {
        let fields = Fields::of(what, node, findings, example)?;
        Some(Form { fields, findings })
    }

    /// A required field; `example` shows how it is written.
    pub(crate) fn required<T: Default>(
        &mut self,
        name: &'static str,
        example: &str,
        read: impl FnOnce(&Node, &mut Findings) -> Option<T>,
    ) -> T {
        let read = self.fields.required(self.findings, name, example, read);
        read.unwrap_or_default()
    }

    /// An optional field.
    pub(crate) fn optional<T: Default>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&Node, &mut Findings) -> Option<T>,
    ) -> T {
        let read = self.fields.optional(self.findings, name, read);
        read.unwrap_or_default()
    }

    /// A required text.
    pub(crate) fn text(&mut self, name: &'static str, example: &str) -> String {
        self.required(name, example, decode::text)
    }

    /// Reports the fields that have not been read.
    pub(crate) fn end(self) -> &'f mut Findings {
        self.fields.finish(self.findings);
        self.findings
    }
}

/// Reads a list, each item as `item` says; `example` shows how it is written.
pub(crate) fn list<T>(
    example: &str,
    item: impl Fn(&Node, &mut Findings) -> Option<T>,
) -> impl Fn(&Node, &mut Findings) -> Option<Vec<T>> {
    move |node, findings| {
        let items = decode::list(node, findings, example)?.iter();
        items.map(|node| item(node, findings)).collect()
    }
}

/// Reads a list of texts.
pub(crate) fn texts(node: &Node, findings: &mut Findings) -> Option<Vec<String>> {
    list("[\"…\"]", decode::text)(node, findings)
}

/// Reads a list of filters.
pub(crate) fn filters(node: &Node, findings: &mut Findings) -> Option<Vec<Filter>> {
    let filter = |node: &Node, findings: &mut Findings| {
        decode::text(node, findings).map(|text| Filter::from(text.as_str()))
    };
    list("[\"…\"]", filter)(node, findings)
}
