//! Text tables: columns as wide as their widest cell, words aligned left, numbers right.

/// A table under construction.
#[derive(Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

struct Column {
    head: String,
    right: bool,
}

impl Table {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column of words.
    pub fn words(mut self, head: &str) -> Self {
        self.columns.push(Column {
            head: head.to_owned(),
            right: false,
        });
        self
    }

    /// Adds a column of numbers; the head names the unit.
    pub fn numbers(mut self, head: &str) -> Self {
        self.columns.push(Column {
            head: head.to_owned(),
            right: true,
        });
        self
    }

    /// Adds a row with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<_> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// The table as text, one line per row, without trailing spaces.
    pub fn render(&self) -> String {
        let heads: Vec<String> = self.columns.iter().map(|c| c.head.clone()).collect();
        let lines: Vec<&Vec<String>> = std::iter::once(&heads).chain(&self.rows).collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|i| {
                lines
                    .iter()
                    .map(|l| l[i].chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for line in lines {
            let cells = line.iter().zip(&self.columns).zip(&widths);
            let padded: Vec<String> = cells
                .map(|((cell, column), &width)| match column.right {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                })
                .collect();
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
        let mut table = Table::new().words("flow").numbers("goodput Mbit/s");
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
