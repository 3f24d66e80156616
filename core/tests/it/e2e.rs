//! The upstream end-to-end suite: 48 cases, 68 tables, 4,896 pairs.

use std::path::{Path, PathBuf};

use netlab_core::policy::oracle::{Oracle, Verdict};
use netlab_core::testing::upstream::{Table, tables};

/// The tables, or `None` (said on stderr) where the transcription is not beside the project. `NETLAB_CASES` names
/// another folder of cases, which must then be there.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
pub(crate) fn upstream_tables() -> Option<Vec<Table>> {
    let named = std::env::var_os("NETLAB_CASES").map(PathBuf::from);
    let must_exist = named.is_some();
    let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases"));
    let path = folder.join("policy/e2e/cases.yaml");
    let Ok(text) = std::fs::read_to_string(&path) else {
        assert!(!must_exist, "NETLAB_CASES is set, but {} is not there", path.display());
        eprintln!("skipped: {} is not there", path.display());
        return None;
    };
    Some(tables(&text).expect("the transcription can be read"))
}

#[test]
fn the_oracle_is_right_about_every_pair() {
    let Some(tables) = upstream_tables() else { return };
    let mut wrong = Vec::new();
    let mut pairs = 0;
    for table in &tables {
        let oracle = Oracle::new(&table.objects);
        for pair in &table.pairs {
            pairs += 1;
            let answer = oracle.judge(&table.question(pair));
            if (answer.verdict == Verdict::Allow) != pair.allowed {
                wrong.push(format!("{}: {pair:?}: {answer:?}", table.name));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!((tables.len(), pairs), (68, 4896));
}
