//! What an answer supposes about the input, in one paragraph below it.

use netlab_core::input::what_if::{Placed, Supposed};

use super::evaluation::place;
use super::layout::{WIDTH, wrap};

/// `what if  NetworkPolicy shop/db left out (policies/db.yaml:3), …`.
pub(super) fn render(supposed: &Supposed) -> String {
    let words = |list: &[Placed], word: &str| -> Vec<String> {
        list.iter()
            .map(|placed| match place(placed.file.as_deref(), placed.line) {
                Some(place) => format!("{placed} {word} ({place})"),
                None => format!("{placed} {word}"),
            })
            .collect()
    };
    let parts = [
        words(&supposed.removed, "left out"),
        words(&supposed.replaced, "replaced"),
        words(&supposed.added, "added"),
    ]
    .concat();
    let text = if parts.is_empty() { "no object is different".to_owned() } else { parts.join(", ") };
    let mut lines = String::new();
    for (index, line) in wrap(&text, WIDTH - 9).into_iter().enumerate() {
        lines += if index == 0 { "what if  " } else { "         " };
        lines += &line;
        lines.push('\n');
    }
    lines
}
