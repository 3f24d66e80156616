//! Tests of the YAML reader: spans, budgets, and every way of being no YAML.

use super::*;

fn only(text: &str) -> Parsed<'_> {
    let mut documents = read(text, &Budget::default());
    assert_eq!(documents.len(), 1, "{documents:?}");
    documents.remove(0).expect("a document")
}

fn place(text: &str, path: &str) -> String {
    let spans = only(text).root.spans(&|_| true);
    spans.get(path).map_or_else(
        || format!("nothing at {path:?} of {:?}", spans.keys()),
        |at| format!("{}:{}", at.line, at.column),
    )
}

#[test]
fn fields_have_the_place_of_their_key_and_elements_that_of_their_first_character() {
    let text =
        "# words\nkind: X\nspec:\n  a:\n  - b: 1\n    c: [x, {d: e}]\n  -\n    b: 2\n  - \"q\"\n  - \n";
    for (path, expected) in [
        ("", "2:1"),
        ("kind", "2:1"),
        ("spec", "3:1"),
        ("spec.a", "4:3"),
        ("spec.a[0]", "5:5"),
        ("spec.a[0].b", "5:5"),
        ("spec.a[0].c", "6:5"),
        ("spec.a[0].c[0]", "6:9"),
        ("spec.a[0].c[1]", "6:12"),
        ("spec.a[0].c[1].d", "6:13"),
        ("spec.a[1]", "8:5"),
        ("spec.a[1].b", "8:5"),
        ("spec.a[2]", "9:5"),
        ("spec.a[3]", "10:5"),
    ] {
        assert_eq!(place(text, path), expected, "{path}");
    }
}

#[test]
fn columns_count_characters_and_lines_count_across_documents() {
    let text = "\u{feff}a: 1\r\n---\r\n# ü\r\n\"ü\": {b: 1}\r\n";
    let documents = read(text, &Budget::default());
    let second = documents[1].as_ref().expect("the second document");
    let spans = second.root.spans(&|_| true);
    assert_eq!(spans["ü.b"], Position { line: 4, column: 7 });
}

#[test]
fn json_is_read_with_its_escapes_and_tabs() {
    let parsed = only("{\n\t\"a\": \"\\ud83d\\ude00 \\/ \\u00fc\",\n\t\"b\": [1,2.5,true,null,\"010\"]\n}");
    assert_eq!(parsed.root.get("a").and_then(Node::as_str), Some("😀 / ü"));
    assert_eq!(place("{\n\t\"a\": {\"b\":1}}", "a.b"), "2:8");
}
