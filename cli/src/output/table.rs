//! Tables as `kubectl` draws them: upper-case headings, two blanks between columns, no lines.
//!
//! Invariant: the last column is never padded, and a missing value reads `<none>`.

use super::layout::{fit, pieces};

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

    /// The table as text, as wide as who looks at it can see; see [`fit`].
    pub(crate) fn finish(&self) -> String {
        self.fitted(fit())
    }

    /// The lines of each row, headings first, where something of so many columns stands before them.
    pub(crate) fn lines_beside(&self, margin: usize) -> Vec<Vec<String>> {
        self.lines(fit().map(|width| width.saturating_sub(margin)))
    }

    fn fitted(&self, most: Option<usize>) -> String {
        self.lines(most).concat().into_iter().map(|line| line + "\n").collect()
    }

    fn lines(&self, most: Option<usize>) -> Vec<Vec<String>> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
            })
            .map(Option::unwrap_or_default)
            .collect();
        if let Some(most) = most {
            fit_to(&mut widths, most);
        }
        self.rows.iter().map(|row| row_lines(row.iter().map(String::as_str), &widths)).collect()
    }
}

/// One row in columns of these widths: as many lines as its highest cell has.
pub(crate) fn row_lines<'a>(row: impl Iterator<Item = &'a str>, widths: &[usize]) -> Vec<String> {
    let cells: Vec<Vec<String>> = row.zip(widths).map(|(cell, width)| pieces(cell, *width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let line = |number: usize| {
        let parts = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{:<width$}", cell.get(number).map_or("", String::as_str)));
        parts.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

/// Takes of the widest columns until all fit a screen of so many columns.
pub(crate) fn fit_to(widths: &mut [usize], most: usize) {
    narrow(widths, most.saturating_sub(GAP * widths.len().saturating_sub(1)));
}

/// Between two columns.
const GAP: usize = 2;

/// Takes of the widest columns until all fit.
fn narrow(widths: &mut [usize], most: usize) {
    while widths.iter().sum::<usize>() > most {
        let Some(widest) = widths.iter_mut().max().filter(|width| **width > 8) else { return };
        *widest -= 1;
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
        assert_eq!(table.fitted(None), "POD       RULESET\nshop/web  7\na         <none>\n");
    }

    #[test]
    fn a_wide_table_is_fitted_and_says_everything() {
        let mut table = Table::new(["FROM", "TO", "ALLOWED"]);
        table.row([
            "network-policy-conformance/harry-potter".to_owned(),
            "shop/web".to_owned(),
            "all".to_owned(),
        ]);
        let text = table.fitted(Some(50));
        assert_eq!(
            text,
            "FROM                             TO        ALLOWED\n\
             network-policy-conformance/      shop/web  all\n\
             harry-potter\n"
        );
    }
}
