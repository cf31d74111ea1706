//! Tables: as text for the terminal, as Markdown and as CSV.

use crate::page::Section;

/// A table that grows row by row.
#[derive(Clone, Debug)]
pub struct Table {
    heads: Vec<String>,
    /// Whether a column has numbers.
    are_numbers: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns: `flow | >goodput Mbit/s`. Those with a `>` have numbers, which stand
    /// right, and their heads name the unit.
    pub fn new(columns: &str) -> Table {
        let heads = || columns.split('|').map(str::trim);
        let without_mark = |head: &str| head.trim_start_matches('>').to_owned();
        Table {
            heads: heads().map(without_mark).collect(),
            are_numbers: heads().map(|head| head.starts_with('>')).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item: Into<String>>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        debug_assert_eq!(cells.len(), self.heads.len(), "{cells:?}");
        self.rows.push(cells);
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Its heads and its rows.
    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.heads).chain(&self.rows)
    }

    /// The table as text: columns as wide as their widest cell, one line per row, without trailing spaces, and without what
    /// would change the terminal: anybody may have chosen a name in it.
    pub fn render(&self) -> String {
        let width = |at: usize| self.lines().map(|line| line[at].chars().count()).max();
        let widths: Vec<usize> = (0..self.heads.len()).filter_map(width).collect();
        let line = |line: &Vec<String>| {
            let cells = line.iter().zip(&self.are_numbers).zip(&widths);
            let padded = cells.map(|((cell, is_number), &width)| {
                let cell = cell.replace(char::is_control, "?");
                match is_number {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                }
            });
            let padded: Vec<String> = padded.collect();
            padded.join("  ").trim_end().to_owned() + "\n"
        };
        self.lines().map(line).collect()
    }

    /// The table in Markdown.
    pub fn markdown(&self) -> String {
        let heads = self.heads.iter().map(|head| match head.as_str() {
            "" => " |".to_owned(),
            head => format!(" {head} |"),
        });
        let rule = self.are_numbers.iter().map(|is_number| match is_number {
            true => "---:|",
            false => "---|",
        });
        let (heads, rule) = (heads.collect::<String>(), rule.collect::<String>());
        let rows = self
            .rows
            .iter()
            .map(|row| format!("| {} |\n", row.join(" | ")));
        format!("|{heads}\n|{rule}\n{}", rows.collect::<String>())
    }

    /// The table as comma-separated values.
    pub fn csv(&self) -> String {
        let lines = self.lines().map(|cells| {
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
        let mut table = Table::new("figure | | mean, Mbit/s");
        assert!(table.is_empty());
        table.row(["4.1", "", "13.44 ± 0.03"]);
        assert_eq!(
            table.markdown(),
            "| figure | | mean, Mbit/s |\n|---|---|---|\n| 4.1 |  | 13.44 ± 0.03 |\n"
        );
        assert_eq!(table.csv(), "figure,,\"mean, Mbit/s\"\n4.1,,13.44 ± 0.03\n");
    }

    #[test]
    fn a_name_does_not_change_the_terminal() {
        let mut table = Table::new("program | >s");
        table.row(["\u{1b}[2Jx\n", "1"]);
        assert_eq!(table.render(), "program  s\n?[2Jx?   1\n");
    }

    #[test]
    fn words_stand_left_and_numbers_right() {
        let mut table = Table::new("flow | >goodput Mbit/s");
        table.row(["one", "7.5"]);
        table.row(["sf-sack", "10.25"]);
        assert_eq!(
            table.render(),
            "flow     goodput Mbit/s\n\
             one                 7.5\n\
             sf-sack           10.25\n"
        );
        assert_eq!(
            table.markdown(),
            "| flow | goodput Mbit/s |\n|---|---:|\n| one | 7.5 |\n| sf-sack | 10.25 |\n"
        );
    }
}
