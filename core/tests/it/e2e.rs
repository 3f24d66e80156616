//! The upstream end-to-end suite: 48 cases, 68 tables, 4,896 pairs.

use netlab_core::policy::oracle::{Oracle, Verdict};
use netlab_core::testing::upstream::{Table, tables};

/// The tables; `None` where the shared cases are not beside the project.
pub(crate) fn upstream_tables() -> Option<Vec<Table>> {
    let path = crate::input_files::cases()?.join("policy/e2e/cases.yaml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
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
