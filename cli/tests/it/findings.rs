//! What the tests of `policy lint` and `dns lint` share: the answer as data, and lists of what is expected.

use serde_json::Value;

use crate::run::{Run, root};

/// The answer.
pub(crate) fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", run.stdout, run.stderr))
}

/// One line for each finding, as editors read them.
pub(crate) fn lines(answer: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = answer["findings"].as_array().expect("a list");
    let lines = findings.iter().map(|one| {
        let place = format!("{}:{}:{}", text(&one["file"]), one["line"], one["column"]);
        let code = format!("{}[{}]", text(&one["severity"]), text(&one["code"]));
        format!("{place}: {code}: {}", text(&one["message"]))
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// Holds what was found to a file, or with `NETLAB_BLESS=1` writes it; `shown` is the code that the example is there to show.
pub(crate) fn hold(found: &str, file: &str, test: &str, shown: &str) {
    let path = root().join(file);
    if std::env::var("NETLAB_BLESS").is_ok_and(|value| value == "1") {
        std::fs::write(&path, found).expect("written");
    }
    let expected = std::fs::read_to_string(&path).expect("a list of findings");
    assert_eq!(
        found, expected,
        "if the change is wanted: `NETLAB_BLESS=1 cargo test -p netlab --test it {test}`, and read what changed"
    );
    assert!(expected.contains(shown), "the mistake that the example is there to show is gone:\n{expected}");
}
