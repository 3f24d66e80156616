//! Text that is made to hurt its reader costs an error, little time and little memory.

use std::time::{Duration, Instant};

use netlab_core::diagnostic::code;
use netlab_core::input::{Budget, Document, Loaded, load};

use crate::input_files::{example, line, load_text};

/// Generous for a debug build on a busy machine; without the budget each of these takes minutes or all memory.
const PATIENCE: Duration = Duration::from_secs(20);

/// One text out of `count` pieces.
fn numbered(count: usize, piece: impl Fn(usize) -> String) -> String {
    (0..count).map(piece).collect::<Vec<_>>().concat()
}

#[test]
fn bombs_are_refused_within_the_budget() {
    let lol = (1..12).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, n| {
        let alias = format!("*a{}", n - 1);
        format!("{text}a{n}: &a{n} [{}]\n", vec![alias; 9].join(", "))
    });
    let long = "x".repeat(1 << 20);
    let merges = (1..30).fold("m0: &m0 {k0: v}\n".to_owned(), |text, n| {
        let before = n - 1;
        format!("{text}m{n}: &m{n} {{<<: [*m{before}, *m{before}, *m{before}], k{n}: v}}\n")
    });
    let nested_anchors = numbered(90, |n| format!("&a{n} [")) + &"x,".repeat(20_000);
    // A tenth of the default, since an unoptimised build takes ten times as long.
    let budget = Budget { values: 400_000, ..Budget::default() };
    for (name, text, expected) in [
        ("aliases of aliases", lol, code::TOO_MANY_ALIASES),
        (
            "aliases of a long text",
            format!("a: &a \"{long}\"\nb: [{}]\n", vec!["*a"; 1000].join(",")),
            code::TOO_MANY_ALIASES,
        ),
        ("anchors around anchors", nested_anchors + &"]".repeat(90), code::TOO_MANY_ALIASES),
        ("a cycle", "a: &a\n  b: *a\n".to_owned(), code::ANCHOR_CYCLE),
        ("a cycle by merge", "a: &a\n  <<: *a\n".to_owned(), code::ANCHOR_CYCLE),
        ("deep lists", "[".repeat(100_000), code::TOO_DEEP),
        ("deep objects", "{a: ".repeat(100_000), code::TOO_DEEP),
        ("deep dashes", "- ".repeat(100_000), code::TOO_DEEP),
        ("deep questions", "? ".repeat(100_000), code::KEY_NOT_STRING),
        ("deep blocks", numbered(5_000, |n| format!("{}a:\n", " ".repeat(n))), code::TOO_DEEP),
        ("deep JSON", "{\"a\":".repeat(100_000), code::TOO_DEEP),
        ("a large document", "# x\n".repeat(20 << 20), code::TEXT_TOO_LARGE),
        ("many values", format!("a: [{}]\n", "x,".repeat(500_000)), code::TOO_MANY_VALUES),
        ("an open quote", format!("a: \"{}", "x\n".repeat(1 << 20)), code::SYNTAX),
    ] {
        let start = Instant::now();
        let loaded = load([Document { name: "a.yaml".into(), text: text.into() }], &budget);
        let took = start.elapsed();
        let lines: Vec<String> = loaded.diagnostics.iter().map(line).collect();
        assert!(loaded.diagnostics.iter().any(|found| found.code == expected), "{name}: {lines:?}");
        assert!(took < PATIENCE, "{name}: {took:?}");
        assert!(loaded.cluster.pods.is_empty());
    }
    // Merges are copies too, but of unlike keys only: three times the same mapping is one mapping.
    let merged = load_text(&merges);
    assert!(!merged.diagnostics.iter().any(|found| found.code == code::SYNTAX));
}

#[test]
fn odd_text_takes_no_more_time_than_plain_text() {
    let many = 30_000;
    for (name, text) in [
        ("documents", "---\na: b\n".repeat(many)),
        ("empty documents", "---\n".repeat(many)),
        ("JSON documents", "{\"kind\":\"A\",\"apiVersion\":\"v1\"}\n".repeat(many)),
        ("JSON on one line", "{\"a\":{}}".repeat(many)),
        (
            "keys",
            format!("apiVersion: v1\nkind: ConfigMap\ndata:\n{}", numbered(many, |n| format!("  k{n}: v\n"))),
        ),
        ("doubled keys", format!("apiVersion: v1\nkind: ConfigMap\ndata:\n{}", "  k: v\n".repeat(many))),
        ("comments", "# words\n".repeat(many) + "kind: A\napiVersion: v1\n"),
        ("a long block", format!("apiVersion: v1\nkind: A\nx: |\n{}", "  text text\n".repeat(many))),
        ("a long fold", format!("apiVersion: v1\nkind: A\nx: >-\n{}", "  text text\n".repeat(many))),
        ("a long plain scalar", format!("apiVersion: v1\nkind: A\nx: a\n{}", "  text text\n".repeat(many))),
        ("brackets", format!("kind: A\napiVersion: v1\nx: [{}]", "[],".repeat(many))),
        ("quotes", format!("kind: A\napiVersion: v1\nx: [{}]", "\"\\u00e9\",".repeat(many))),
    ] {
        let start = Instant::now();
        let loaded = load_text(&text);
        let took = start.elapsed();
        assert!(took < PATIENCE, "{name}: {took:?}");
        assert!(loaded.policies.list.is_empty());
    }
}

#[test]
fn the_budget_over_all_texts_names_the_text_that_crosses_it() {
    let budget = Budget { total_bytes: 100, ..Budget::default() };
    let pod = |name: &str| Document {
        name: format!("{name}.yaml").into(),
        text: format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n").into(),
    };
    let loaded = load(["a", "b", "c"].map(pod), &budget);
    let lines: Vec<String> = loaded.diagnostics.iter().map(line).collect();
    assert_eq!(loaded.cluster.pods.len(), 2);
    assert_eq!(lines, ["c.yaml:- NL0103 Error: more than 100 bytes of text in all ()"]);
}

/// A small generator with a fixed seed: the test is the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides.max(1)
    }
}

#[test]
fn no_mutation_of_good_text_makes_the_reader_fall() {
    const PIECES: [&str; 28] = [
        "- ",
        "  ",
        "\n",
        "\t",
        ": ",
        "{",
        "}",
        "[",
        "]",
        "&a ",
        "*a",
        "<<: ",
        "? ",
        "!!str ",
        "!x ",
        "\"",
        "'",
        "|\n",
        ">-\n",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "# ",
        "yes",
        "null",
        "\u{feff}",
        "\u{0}",
        "é",
    ];
    let texts: Vec<String> = example("shop").texts.values().map(ToString::to_string).collect();
    let json = "{\"apiVersion\":\"v1\",\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"name\":\"a\"},\
                \"status\":{\"podIPs\":[{\"ip\":\"10.0.0.1\"}]}}]}\n";
    let mut dice = Dice(7);
    let mut loads: usize = 0;
    let mut with_errors: usize = 0;
    for round in 0..600 {
        let mut text = if round % 10 == 0 { json.to_owned() } else { texts[dice.roll(texts.len())].clone() };
        for _ in 0..=dice.roll(4) {
            let at = |dice: &mut Dice, text: &str| {
                let mut at = dice.roll(text.len() + 1);
                while !text.is_char_boundary(at) {
                    at -= 1;
                }
                at
            };
            let (a, b) = (at(&mut dice, &text), at(&mut dice, &text));
            let (start, end) = (a.min(b), a.max(b).min(a.min(b) + 40));
            let end = (start..=end).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(start);
            match dice.roll(4) {
                0 => text.insert_str(start, PIECES[dice.roll(PIECES.len())]),
                1 => text.replace_range(start..end, ""),
                2 => text.replace_range(start..end, PIECES[dice.roll(PIECES.len())]),
                _ => {
                    let copy = text[start..end].to_owned();
                    text.insert_str(b.min(start), &copy);
                }
            }
        }
        let loaded: Loaded = load_text(&text);
        loads += 1;
        with_errors += usize::from(!loaded.is_complete());
        for diagnostic in &loaded.diagnostics {
            let lines = u32::try_from(text.lines().count() + 1).unwrap_or(u32::MAX);
            let inside =
                diagnostic.position.is_none_or(|at| at.line >= 1 && at.line <= lines && at.column >= 1);
            assert!(inside, "{}\n{text}", line(diagnostic));
        }
    }
    assert!(with_errors * 4 > loads, "most mutations should hurt: {with_errors} of {loads}");
}
