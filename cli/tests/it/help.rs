//! The help of every command, and the examples in it.

use crate::run::{is_root, netlab, required, shell};

/// A command's words and its help.
pub(crate) struct Page {
    pub(crate) words: Vec<String>,
    pub(crate) help: String,
    children: usize,
}

/// Every command, found by asking for help.
pub(crate) fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    let mut waiting = vec![Vec::new()];
    while let Some(words) = waiting.pop() {
        let mut arguments: Vec<String> = words.clone();
        arguments.push("--help".to_owned());
        let run = netlab(&arguments);
        assert_eq!(run.code, Some(0), "{arguments:?}: {}", run.stderr);
        let children: Vec<String> = run
            .stdout
            .lines()
            .skip_while(|line| *line != "Commands:")
            .skip(1)
            .take_while(|line| !line.is_empty())
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
            .map(str::to_owned)
            .collect();
        for child in &children {
            let mut words = words.clone();
            words.push(child.clone());
            waiting.push(words);
        }
        pages.push(Page { words, help: run.stdout, children: children.len() });
    }
    pages.sort_by(|a, b| a.words.cmp(&b.words));
    pages
}

/// The lines below `Examples:`.
pub(crate) fn examples(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Examples:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .map(|line| line.trim().to_owned())
        .collect()
}

#[test]
fn every_command_shows_two_examples() {
    let pages = pages();
    assert!(pages.len() > 5, "only {} pages of help were found", pages.len());
    let poor: Vec<String> = pages
        .iter()
        .filter(|page| page.children == 0 && examples(&page.help).len() < 2)
        .map(|page| page.words.join(" "))
        .collect();
    assert!(poor.is_empty(), "fewer than two examples: {poor:?}");
}

#[test]
fn help_fits_the_screen() {
    let wide: Vec<String> = pages()
        .iter()
        .flat_map(|page| page.help.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.chars().count() > 100)
        .collect();
    assert!(wide.is_empty(), "wider than 100 columns: {wide:#?}");
}

/// Examples that work on a running lab are run in the order of its life by `a_lab_lives_as_its_help_says`; all
/// others here.
#[test]
fn every_help_example_runs() {
    let mut ran = 0;
    for page in pages() {
        for example in examples(&page.help) {
            if example.contains("--lab") || example.starts_with("netlab lab ") {
                continue;
            }
            let run = shell(&example);
            let code = run.code.unwrap_or(-1);
            // 1 and 3 are answers; 4 is one where the machine lacks something and need not have it.
            let answered = [0, 1, 3].contains(&code)
                || (code == 4 && !(is_root() && required("bpf") && required("netns")));
            assert!(answered, "`{example}` exits {code}\n{}{}", run.stdout, run.stderr);
            assert!(!run.stdout.is_empty(), "`{example}` prints nothing");
            ran += 1;
        }
    }
    assert!(ran >= 6, "only {ran} examples were found");
}

#[test]
fn a_typo_is_answered_with_the_nearest_command() {
    let run = netlab(["vershun"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("version"), "{}", run.stderr);
}
