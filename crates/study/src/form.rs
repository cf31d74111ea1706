//! Reads the files that people write. A field that is missing or wrong is reported and read as empty: of a file with a
//! report nothing is taken, so all its mistakes are found at once.

use fairwind_scenario::file::decode::{self, Findings};
use fairwind_scenario::file::value::Node;

use crate::Filter;

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
