//! Tables, as Markdown for pages and as CSV.

use crate::page::Section;

/// A table that grows row by row.
#[derive(Clone, Debug)]
pub struct Table {
    head: Vec<String>,
    rule: &'static str,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns, written as its first line: `| one | two |`.
    pub fn new(columns: &str) -> Table {
        Table::ruled(columns, "---|")
    }

    /// The same, with numbers in all columns but the first.
    pub fn of_numbers(columns: &str) -> Table {
        Table::ruled(columns, "---:|")
    }

    fn ruled(columns: &str, rule: &'static str) -> Table {
        let inside = columns.trim().trim_start_matches('|');
        let inside = inside.strip_suffix('|').unwrap_or(inside);
        Table {
            head: inside
                .split('|')
                .map(|head| head.trim().to_owned())
                .collect(),
            rule,
            rows: Vec::new(),
        }
    }

    /// Adds a row with a cell for each column.
    pub fn row(&mut self, cells: &[String]) {
        debug_assert_eq!(cells.len(), self.head.len(), "{cells:?}");
        self.rows.push(cells.to_vec());
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table in Markdown.
    pub fn markdown(&self) -> String {
        let heads = self.head.iter().map(|head| match head.as_str() {
            "" => " |".to_owned(),
            head => format!(" {head} |"),
        });
        let mut text = format!(
            "|{}\n|---|{}\n",
            heads.collect::<String>(),
            self.rule.repeat(self.head.len() - 1)
        );
        for row in &self.rows {
            text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
        text
    }

    /// The table as comma-separated values.
    pub fn csv(&self) -> String {
        let lines = std::iter::once(&self.head).chain(&self.rows);
        let lines = lines.map(|cells| {
            let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
            cells.join(",") + "\n"
        });
        lines.collect()
    }

    /// The part of a page that holds the table.
    pub fn section(&self, name: impl Into<String>) -> Section {
        Section {
            name: name.into(),
            markdown: self.markdown(),
            csv: Some(self.csv()),
        }
    }
}

/// A cell of comma-separated values (RFC 4180, section 2).
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown_and_csv() {
        let mut table = Table::new("| figure | | mean, Mbit/s |");
        assert!(table.is_empty());
        table.row(&["4.1", "", "13.44 ± 0.03"].map(str::to_owned));
        assert_eq!(
            table.markdown(),
            "| figure | | mean, Mbit/s |\n|---|---|---|\n| 4.1 |  | 13.44 ± 0.03 |\n"
        );
        assert_eq!(table.csv(), "figure,,\"mean, Mbit/s\"\n4.1,,13.44 ± 0.03\n");
    }

    #[test]
    fn numbers_stand_right() {
        let mut table = Table::of_numbers("| File | DRS | 16 MB |");
        table.row(&["1 MB", "9.0", "9.1"].map(str::to_owned));
        assert_eq!(
            table.markdown(),
            "| File | DRS | 16 MB |\n|---|---:|---:|\n| 1 MB | 9.0 | 9.1 |\n"
        );
    }
}
