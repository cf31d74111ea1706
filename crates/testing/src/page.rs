//! Sections of the pages in `docs/reference/` that are generated from code.
//!
//! A section stands between the lines `<!-- generated: WHAT -->` and `<!-- /generated -->`. The test of the
//! crate that has the facts compares it with them, or writes it anew if [`UPDATE_PAGES`] is set.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// The environment variable with which tests write generated sections anew instead of comparing them.
pub const UPDATE_PAGES: &str = "FAIRWIND_UPDATE_PAGES";

const BEGIN: &str = "<!-- generated: ";
const BEGIN_ENDS: &str = " -->";
const END: &str = "<!-- /generated -->";

/// A generated section, as it is on its page.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// What its first line says that it holds.
    pub what: &'a str,
    /// What is between its first and its last line.
    pub text: &'a str,
    /// The whole page.
    pub page: &'a str,
}

impl Section<'_> {
    /// Whether the page says where `[label]` leads.
    pub fn has_link(&self, label: &str) -> bool {
        self.page.contains(&format!("\n[{label}]: "))
    }

    /// A link with the text `shown`, if the page says where `[label]` leads; otherwise only the text.
    pub fn linked(&self, shown: &str, label: &str) -> String {
        match self.has_link(label) {
            true => format!("[{shown}][{label}]"),
            false => shown.to_owned(),
        }
    }

    /// Where the section has the row of this name. Those that it lacks come last.
    fn place(&self, name: &str) -> usize {
        let rows = [format!("\n| `{name}` |"), format!("\n| [`{name}`]")];
        let places = rows.iter().filter_map(|row| self.text.find(row.as_str()));
        places.min().unwrap_or(usize::MAX)
    }
}

/// All pages in `docs/reference/`, by their names.
pub fn reference_pages() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("docs/reference is there");
    let names = entries.map(|entry| entry.expect("it can be listed").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".md"))
        .collect();
    names.sort();
    names
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference")
}

/// Compares the sections of a page that `generate` knows with what it returns for them, or writes them anew.
/// Returns what these sections hold.
///
/// # Panics
///
/// If a section differs; the message names the first line and the command that writes it.
pub fn check_sections(
    page: &str,
    generate: impl Fn(&Section<'_>) -> Option<String>,
) -> Vec<String> {
    // Several tests of a program may write sections of the same page.
    static PAGES: Mutex<()> = Mutex::new(());
    let _alone = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let file = folder().join(page);
    let old = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{page}: {error}"));
    let (new, known) = regenerated(&old, generate);
    if new == old {
        return known;
    }
    if env::var_os(UPDATE_PAGES).is_some() {
        fs::write(&file, new).unwrap_or_else(|error| panic!("{page}: {error}"));
        return known;
    }
    let mut lines = new.lines().zip(old.lines());
    let (new, old) = lines.find(|(new, old)| new != old).unwrap_or_default();
    panic!(
        "docs/reference/{page} says\n{old}\nand the code says\n{new}\n\
         To write it anew: {UPDATE_PAGES}=1 scripts/test --workspace generated_sections"
    );
}

fn regenerated(
    page: &str,
    generate: impl Fn(&Section<'_>) -> Option<String>,
) -> (String, Vec<String>) {
    let (mut new, mut known) = (String::new(), Vec::new());
    let mut rest = page;
    while let Some(at) = rest.find(BEGIN) {
        let (before, section) = rest.split_at(at);
        let (head, behind) = section.split_once('\n').expect("a line ends");
        let what = head.strip_prefix(BEGIN);
        let what = what.and_then(|what| what.strip_suffix(BEGIN_ENDS));
        let what = what.unwrap_or_else(|| panic!("{head}: without{BEGIN_ENDS}"));
        let (text, behind) = behind
            .split_once(END)
            .unwrap_or_else(|| panic!("{head}: without {END}"));
        new.push_str(before);
        new.push_str(head);
        new.push('\n');
        match generate(&Section { what, text, page }) {
            Some(generated) => {
                known.push(what.to_owned());
                new.push_str(&format!("\n{}\n\n", generated.trim()));
            }
            None => new.push_str(text),
        }
        new.push_str(END);
        rest = behind;
    }
    new.push_str(rest);
    (new, known)
}

/// A table. A column in which no row has anything is left out.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let filled = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
    let columns: Vec<usize> = (0..header.len()).filter(filled).collect();
    let heads: Vec<&str> = columns.iter().map(|column| header[*column]).collect();
    let mut text = format!(
        "| {} |\n|{}\n",
        heads.join(" | "),
        "---|".repeat(heads.len())
    );
    for row in rows {
        let cells: Vec<&str> = columns.iter().map(|column| row[*column].as_str()).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// The text as a table's cell has it: in one line, and without markup other than code in backticks.
pub fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut cell = String::new();
    let mut is_code = false;
    for c in words.join(" ").chars() {
        match c {
            '`' => is_code = !is_code,
            // It would end the cell even within code.
            '|' => cell.push('\\'),
            '*' | '<' | '[' | ']' if !is_code => cell.push('\\'),
            _ => {}
        }
        cell.push(c);
    }
    cell
}

/// What a JSON Schema says of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Its name.
    pub name: String,
    /// Its description without the sentence `Default: …`, as a cell.
    pub meaning: String,
    /// The value without the property, as a cell: that of the description, or that of the schema.
    pub default: String,
}

/// The properties of a schema, in the order of the section's rows.
pub fn properties(schema: &Value, section: &Section<'_>) -> Vec<Property> {
    let described = schema["properties"].as_object();
    let described = described.unwrap_or_else(|| panic!("{}: no properties", section.what));
    let is_required = |name: &str| {
        let required = schema["required"].as_array();
        required.is_some_and(|names| names.iter().any(|required| required == name))
    };
    let properties = described.iter().map(|(name, property)| {
        // OpenAPI has it there if the property can be null.
        let alternative = &property["oneOf"][0]["description"];
        let description = property["description"].as_str().or(alternative.as_str());
        let description = description.unwrap_or_default();
        let (meaning, told) = without_default(description);
        let default = match (told, &property["default"]) {
            (Some(told), _) => cell(told),
            _ if is_required(name) => "required".to_owned(),
            (None, Value::Null) => String::new(),
            (None, value) => format!("`{}`", literal(value)),
        };
        Property {
            name: name.clone(),
            meaning: cell(meaning.trim().trim_end_matches('.')),
            default,
        }
    });
    let mut properties: Vec<Property> = properties.collect();
    properties.sort_by_key(|property| section.place(&property.name));
    properties
}

/// The value as TOML has it.
fn literal(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let pairs = object.iter().filter(|(_, value)| !value.is_null());
            let pairs = pairs.map(|(key, value)| format!("{key} = {}", literal(value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::Array(array) => {
            let values = array.iter().map(literal);
            format!("[{}]", values.collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}

/// Takes the sentence `Default: …` out of a description.
fn without_default(description: &str) -> (String, Option<&str>) {
    let lines = ["Default: ", "Default:\n"];
    let at = lines
        .iter()
        .filter_map(|begin| description.find(*begin))
        .min();
    let Some(at) = at else {
        return (description.to_owned(), None);
    };
    let (before, sentence) = description.split_at(at);
    let sentence = &sentence["Default:".len()..];
    let ends = [". ", ".\n"];
    let end = ends.iter().filter_map(|end| sentence.find(*end)).min();
    let (default, behind) = match end {
        Some(end) => (&sentence[..end], &sentence[end + 1..]),
        None => (sentence.trim_end_matches('.'), ""),
    };
    (format!("{before}{behind}"), Some(default))
}

/// The table of a schema's properties: keys, defaults and meanings.
pub fn keys(schema: &Value, section: &Section<'_>) -> String {
    let rows = properties(schema, section).into_iter().map(|property| {
        let name = section.linked(&format!("`{}`", property.name), &property.name);
        vec![name, property.default, property.meaning]
    });
    table(&["key", "default", "meaning"], &rows.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PAGE: &str = "# Title\n\n<!-- generated: keys of a -->\n\n| key |\n|---|\n| `b` |\n\n\
                        <!-- /generated -->\n\nText.\n<!-- generated: b -->\n<!-- /generated -->\n";

    #[test]
    fn only_the_sections_that_are_known_are_written() {
        let generate =
            |section: &Section<'_>| (section.what == "keys of a").then(|| "new\n".to_owned());
        let (new, known) = regenerated(PAGE, generate);
        assert_eq!(known, ["keys of a"]);
        assert_eq!(
            new,
            "# Title\n\n<!-- generated: keys of a -->\n\nnew\n\n<!-- /generated -->\n\nText.\n\
             <!-- generated: b -->\n<!-- /generated -->\n"
        );
        let (again, _) = regenerated(&new, generate);
        assert_eq!(again, new);
    }

    #[test]
    #[should_panic(expected = "without <!-- /generated -->")]
    fn a_section_without_an_end_is_refused() {
        regenerated("<!-- generated: a -->\ntext\n", |_| None);
    }

    #[test]
    fn a_schema_is_a_table_in_the_order_of_the_page() {
        let schema = json!({
            "properties": {
                "a": { "description": "One of a|b. Default:\n`a`, as\nusual. More *text*." },
                "b": { "description": "The size." },
                "c": { "description": "The rate.", "default": { "a": [1, 2], "b": null } },
                "d": { "oneOf": [{ "description": "What may be null." }, { "type": "null" }] },
            },
            "required": ["b"],
        });
        let section = Section {
            what: "keys of a",
            text: "\n| key |\n|---|\n| [`c`][c] | 2 |\n| `a` | |\n",
            page: "# Title\n\n[c]: #title\n",
        };
        assert_eq!(
            keys(&schema, &section),
            "| key | default | meaning |\n|---|---|---|\n\
             | [`c`][c] | `{ a = [1, 2] }` | The rate |\n\
             | `a` | `a`, as usual | One of a\\|b. More \\*text\\* |\n\
             | `b` | required | The size |\n\
             | `d` |  | What may be null |\n"
        );
    }

    #[test]
    fn an_empty_column_is_left_out() {
        let rows = [["`a`", "", "x"], ["`b`", "", "y"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(
            table(&["key", "default", "meaning"], &rows),
            "| key | meaning |\n|---|---|\n| `a` | x |\n| `b` | y |\n"
        );
    }

    #[test]
    fn a_name_leads_where_the_page_says() {
        let section = Section {
            what: "",
            text: "",
            page: "text\n\n[--sync]: #uploads\n",
        };
        assert_eq!(section.linked("`--sync`", "--sync"), "[`--sync`][--sync]");
        assert_eq!(section.linked("`--user`", "--user"), "`--user`");
    }
}
