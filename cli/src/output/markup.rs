//! Values in the formats of others: Markdown tables and comma-separated values.
//!
//! Source: GitHub Flavored Markdown (tables, code spans), RFC 4180. Invariant: whatever is in a value, it stays one cell and
//! gives no sign that the format knows.

/// Text as code in a cell of a table, whatever is in it.
pub(super) fn code(text: &str) -> String {
    // A fence is longer than any run of backticks within, and stands off from one at an end.
    let runs = text.split(|c| c != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0) + 1);
    let gap = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{gap}{}{gap}{fence}", text.replace('|', "\\|").replace(['\n', '\r'], " "))
}

/// Text in which nothing is a sign of Markdown or HTML.
pub(super) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '~' => {
                shown.push('\\');
                shown.push(c);
            }
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '&' => shown.push_str("&amp;"),
            '\n' | '\r' => shown.push(' '),
            c => shown.push(c),
        }
    }
    shown
}

/// Our own words, whose backticks are meant, in a cell of a table.
pub(super) fn sentence(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (index, part) in text.split('`').enumerate() {
        if index > 0 {
            shown.push('`');
        }
        let (is_code, cell) = (index % 2 == 1, part.replace(['\n', '\r'], " "));
        // In code nothing but the cell's own border is a sign.
        shown += &if is_code { cell.replace('|', "\\|") } else { plain(&cell) };
    }
    if text.matches('`').count() % 2 == 1 { plain(text) } else { shown }
}

/// A cell of comma-separated values.
pub(super) fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_one_cell() {
        assert_eq!(code("shop/web"), "`shop/web`");
        assert_eq!(code("a|b\nc"), "`a\\|b c`");
        assert_eq!(code("a`b``c"), "```a`b``c```");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(plain("a|b *c* <d> [e] f_g\r\n"), "a\\|b \\*c\\* &lt;d&gt; \\[e\\] f\\_g  ");
        assert_eq!(sentence("write `a|*b` or x|*y*"), "write `a\\|*b` or x\\|\\*y\\*");
        assert_eq!(sentence("one ` alone"), "one \\` alone");
        assert_eq!(quoted("TCP 80,443"), "\"TCP 80,443\"");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(quoted("a\nb"), "\"a\nb\"");
        assert_eq!(quoted("all"), "all");
    }
}
