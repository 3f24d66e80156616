//! `cargo xtask docs`: the pages of `docs/` that are made from the code.
//!
//! Invariant: a page is a pure function of the code; `--check` fails when a page differs from what it would be.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, bail};
use netlab_core::diagnostic::catalog;

/// `cargo xtask docs`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write nothing; fail when a page is not current.
    #[arg(long)]
    check: bool,
}

/// Writes or checks.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent directory")?;
    let pages = BTreeMap::from([("docs/codes.md", codes())]);
    for (name, page) in pages {
        let path = root.join(name);
        if !arguments.check {
            std::fs::write(&path, page).with_context(|| format!("cannot write {name}"))?;
        } else if std::fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))? != page {
            bail!("{name} is not what the code says; run `cargo xtask docs`");
        }
    }
    Ok(())
}

/// The pages of all diagnostic codes.
fn codes() -> String {
    let mut page = String::from(
        "# Diagnostic codes\n\n\
         <!-- Made by `cargo xtask docs` from core/src/diagnostic/catalog; edit it there. -->\n\n\
         A code never changes its meaning. `netlab explain CODE` prints the same. Errors leave their object out, so \
         without\n`--skip-invalid` there is no answer; warnings and notes do not. Codes from NL0301 on are what \
         `netlab policy lint` finds: see\n[lints](lint.md).\n",
    );
    for code in catalog::all() {
        let _ = write!(page, "\n## {}: {}\n\n{}\n", code.code, code.title, fold(code.explanation));
        for (word, example) in [("Wrong", code.bad), ("Right", code.good)] {
            if !example.is_empty() {
                let _ = write!(page, "\n{word}:\n\n```yaml\n{}\n```\n", example.trim_end());
            }
        }
    }
    page
}

/// A paragraph in lines of at most 120 characters.
fn fold(text: &str) -> String {
    let (mut folded, mut width) = (String::new(), 0);
    for word in text.split_whitespace() {
        if width > 0 && width + 1 + word.chars().count() > 120 {
            folded.push('\n');
            width = 0;
        } else if width > 0 {
            folded.push(' ');
            width += 1;
        }
        folded.push_str(word);
        width += word.chars().count();
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_pages_are_current() {
        run(&Arguments { check: true }).expect("current");
    }
}
