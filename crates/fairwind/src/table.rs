//! Text tables: columns as wide as their widest cell, words aligned left, numbers right.

/// A table under construction.
pub(crate) struct Table {
    heads: Vec<String>,
    /// Whether a column has numbers.
    are_numbers: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns: `flow | >goodput Mbit/s`. Those with a `>` have numbers, and their
    /// heads name the unit.
    pub(crate) fn new(columns: &str) -> Self {
        let heads = || columns.split('|').map(str::trim);
        let without_mark = |head: &str| head.trim_start_matches('>').to_owned();
        Self {
            heads: heads().map(without_mark).collect(),
            are_numbers: heads().map(|head| head.starts_with('>')).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<_> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.heads.len());
        self.rows.push(cells);
    }

    /// The table as text, one line per row, without trailing spaces.
    pub(crate) fn render(&self) -> String {
        let lines = || std::iter::once(&self.heads).chain(&self.rows);
        let width = |at: usize| lines().map(|line| line[at].chars().count()).max();
        let widths: Vec<usize> = (0..self.heads.len()).filter_map(width).collect();
        let mut text = String::new();
        for line in lines() {
            let cells = line.iter().zip(&self.are_numbers).zip(&widths);
            let padded = cells.map(|((cell, is_number), &width)| {
                if *is_number {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            });
            let padded: Vec<String> = padded.collect();
            text.push_str(padded.join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let mut table = Table::new("flow | >goodput Mbit/s");
        table.row(["one".to_owned(), "7.5".to_owned()]);
        table.row(["sf-sack".to_owned(), "10.25".to_owned()]);
        assert_eq!(
            table.render(),
            "flow     goodput Mbit/s\n\
             one                 7.5\n\
             sf-sack           10.25\n"
        );
    }
}
