//! Rules about Rust files.

use crate::tree::{is_comment, lines, none, rust, shipped};

/// Files that may contain `unsafe`, and why.
const UNSAFE: &[(&str, &str)] = &[
    ("ebpf/src/bin/tc/", "the only raw packet and map access in the kernel"),
    ("core/node/src/", "system calls that no safe wrapper offers"),
    ("core/lab/src/", "system calls that no safe wrapper offers"),
    ("enforcer/src/bpf.rs", "the bpf system call"),
    ("enforcer/src/drop_reason.rs", "the rings of perf_event_open"),
    ("enforcer/src/maps/", "map values as bytes"),
];

/// Packages whose library the compiler keeps free of `unsafe`.
const FORBIDS_UNSAFE: &[&str] = &["ebpf/src/lib.rs", "core/src/lib.rs", "core/plugin/src/lib.rs"];

/// Files that may use hash tables, and why nobody sees their order.
const HASHED: &[(&str, &str)] = &[
    ("core/src/policy/classes.rs", "looked up by key; lists are sorted before"),
    ("core/src/policy/compile.rs", "looked up by key; lists are sorted before"),
    ("core/src/policy/groups.rs", "looked up by key; lists are sorted before"),
    ("core/src/policy/connections/allowed.rs", "looked up by key; lists are sorted before"),
    ("core/src/policy/connections/matrix.rs", "looked up by key; lists are sorted before"),
    ("core/src/policy/connections/workloads.rs", "looked up by key; lists are sorted before"),
    ("ebpf/src/bin/tc/maps.rs", "kernel maps, not Rust's tables"),
    ("enforcer/src/object.rs", "as aya-obj takes and gives them; handed out sorted"),
];

const MOST_LINES: usize = 800;
const MEDIAN_LINES: usize = 250;

#[test]
fn every_file_says_what_it_is() {
    let offenders: Vec<String> = rust()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//! ") || text.starts_with("//! placeholder"))
        .map(|(path, _)| path)
        .collect();
    none("the first line of a file is `//!` and says what the file is", &offenders);
}

#[test]
fn no_file_is_too_long() {
    let files = rust();
    let offenders: Vec<String> = files
        .iter()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, count)| *count > MOST_LINES)
        .map(|(path, count)| format!("{path}: {count} lines"))
        .collect();
    none(&format!("no file has more than {MOST_LINES} lines"), &offenders);
    let mut counts: Vec<usize> = files.iter().map(|(_, text)| text.lines().count()).collect();
    counts.sort_unstable();
    let median = counts[counts.len() / 2];
    assert!(median < MEDIAN_LINES, "half of the files have {median} lines or more: one job per file");
}

#[test]
fn libraries_do_not_print() {
    let mut offenders = Vec::new();
    for (path, text) in rust() {
        if path.starts_with("cli/") || path.starts_with("xtask/") || path.contains("examples/") {
            continue;
        }
        offenders.extend(lines(&path, shipped(&path, &text), |line| {
            !is_comment(line)
                && ["println!(", "print!(", "eprintln!(", "eprint!(", "dbg!("]
                    .iter()
                    .any(|m| line.contains(m))
        }));
    }
    none("only the command prints", &offenders);
}

#[test]
fn unsafe_is_rare_and_explained() {
    let mut offenders = Vec::new();
    for (path, text) in rust() {
        if path.starts_with("xtask/tests/") {
            continue;
        }
        let allowed = UNSAFE.iter().any(|(place, _)| path.starts_with(place)) || path.contains("/tests/");
        let all: Vec<&str> = text.lines().collect();
        for (index, line) in all.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let is_unsafe = ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern"]
                .iter()
                .any(|form| code.contains(form) && !code.contains('"'));
            if !is_unsafe {
                continue;
            }
            if !allowed {
                offenders.push(format!("{path}:{}: not one of the files that may", index + 1));
            }
            let above = &all[index.saturating_sub(8)..=index];
            if !above.iter().any(|line| line.contains("SAFETY:") || line.contains("# Safety")) {
                offenders.push(format!("{path}:{}: no `// SAFETY:` above", index + 1));
            }
        }
    }
    none("`unsafe` stands in few files and says why it is sound", &offenders);
    let files = rust();
    for library in FORBIDS_UNSAFE {
        let text = files.iter().find(|(path, _)| path == library).map(|(_, text)| text.as_str());
        assert!(
            text.is_some_and(|text| text.contains("#![forbid(unsafe_code)]")),
            "{library} does not forbid unsafe code"
        );
    }
}

#[test]
fn nothing_is_left_for_later() {
    let words =
        [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("FIX", "ME"), concat!("X", "XX")];
    let mut offenders = Vec::new();
    for (path, text) in rust() {
        offenders.extend(lines(&path, &text, |line| {
            words.iter().any(|word| line.contains(word))
                || line.trim() == concat!("#[ign", "ore]")
                || line.trim_start().starts_with(concat!("#[al", "low("))
                || line.trim_start().starts_with(concat!("#![al", "low("))
        }));
    }
    none("no stubs, no ignored test without a reason, `#[expect(…, reason)]` for lints", &offenders);
}

#[test]
fn order_that_can_be_seen_is_sorted() {
    let types = [concat!("Hash", "Map"), concat!("Hash", "Set")];
    let mut offenders = Vec::new();
    for (path, text) in rust() {
        let text = shipped(&path, &text);
        if HASHED.iter().any(|(place, _)| path == *place) {
            continue;
        }
        offenders.extend(lines(&path, text, |line| {
            !is_comment(line) && types.iter().any(|name| line.contains(&format!("{name}<")))
        }));
    }
    none("BTreeMap and BTreeSet, or a line in HASHED that says why nobody sees the order", &offenders);
}

#[test]
fn the_core_is_pure() {
    let reaches = [
        "std::fs",
        "std::env",
        "std::process",
        "std::thread",
        "std::time",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "SystemTime",
        "Instant::now",
    ];
    let mut offenders = Vec::new();
    for (path, text) in rust() {
        if !path.starts_with("core/src/") && !path.starts_with("ebpf/src/") {
            continue;
        }
        offenders.extend(lines(&path, shipped(&path, &text), |line| {
            !is_comment(line) && reaches.iter().any(|name| line.contains(name))
        }));
    }
    none("core and ebpf do no input or output and know no clock", &offenders);
}

#[test]
fn the_yaml_reader_stays_behind_one_door() {
    let mut offenders = Vec::new();
    for (path, text) in rust() {
        let exempt = ["core/src/input/yaml", "core/src/testing/", "core/tests/", "xtask/"];
        if exempt.iter().any(|place| path.starts_with(place)) {
            continue;
        }
        offenders.extend(lines(&path, &text, |line| {
            line.contains("serde_saphyr") || line.contains("granit_parser")
        }));
    }
    none("only core/src/input/yaml knows which YAML library is used", &offenders);
}

#[test]
fn the_oracle_shares_nothing_with_the_compiler() {
    let mut offenders = Vec::new();
    for (path, text) in rust() {
        if !path.starts_with("core/src/policy/oracle/") {
            continue;
        }
        offenders.extend(lines(&path, &text, |line| {
            let code = line.split("//").next().unwrap_or_default();
            ["crate::model", "super::super::", "netlab_ebpf", "ipnet"].iter().any(|name| code.contains(name))
                || (code.contains("crate::policy::") && !code.contains("crate::policy::oracle"))
                || (code.contains("crate::input")
                    && !code.contains("crate::input::wire")
                    && !code.contains("crate::input::WireObjects"))
        }));
    }
    none("the oracle reads wire structs and nothing else of ours", &offenders);
}
