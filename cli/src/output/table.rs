//! Tables as `kubectl` draws them: upper-case headings, two blanks between columns, no lines.
//!
//! Invariant: the last column is never padded, and a missing value reads `<none>`.

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.map(str::to_owned).to_vec()] }
    }

    /// A table with any number of headings.
    pub(crate) fn with_headings<'a>(headings: impl IntoIterator<Item = &'a str>) -> Self {
        Self { rows: vec![headings.into_iter().map(str::to_owned).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(
            cells.into_iter().map(|cell| if cell.is_empty() { "<none>".to_owned() } else { cell }).collect(),
        );
    }

    /// The table as text.
    pub(crate) fn finish(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
            })
            .map(Option::unwrap_or_default)
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let line: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            text.push_str(line.join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let mut table = Table::new(["POD", "RULESET"]);
        table.row(["shop/web".to_owned(), "7".to_owned()]);
        table.row(["a".to_owned(), String::new()]);
        assert_eq!(table.finish(), "POD       RULESET\nshop/web  7\na         <none>\n");
    }
}
