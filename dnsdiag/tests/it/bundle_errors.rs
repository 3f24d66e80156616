//! Bundles that cannot be read say where and why, whatever is wrong with them; nothing of a bundle makes the reader or a
//! diagnosis panic.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use netlab_dnsdiag::bundle::{self, Limits, layout};
use netlab_dnsdiag::check::Registry;
use netlab_dnsdiag::diagnose;
use netlab_dnsdiag::rules::Class;

const MANIFEST: &str =
    r#"{"apiVersion": "netlab.dev/v1", "kind": "DnsBundle", "subject": {"namespace": "shop", "pod": "web"}}"#;

fn parse(files: &[(&str, &str)]) -> Result<bundle::Bundle, String> {
    let mut all = BTreeMap::from([(layout::MANIFEST.to_owned(), MANIFEST.to_owned())]);
    all.extend(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())));
    bundle::parse(&all).map_err(|error| error.to_string())
}

fn write(directory: &Path, path: &str, text: impl AsRef<[u8]>) {
    let place = directory.join(path);
    fs::create_dir_all(place.parent().expect("a folder")).expect("make a folder");
    fs::write(place, text).expect("write a file");
}

fn shipped() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/bundles")
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (path, text, said) in [
        (
            "probes.json",
            "{\"probes\": [\n  {\"from\": \"moon\"}\n]}",
            "probes.json:2:18: `moon` is no position",
        ),
        ("probes.json", "{\"probes\": [\n", "probes.json:2:1: EOF"),
        ("probes.json", "{\"probs\": []}", "probes.json:1:8: unknown field `probs`"),
        ("symptom.json", "{\"seconds\": -1}", "symptom.json: `seconds` is -1, not 0 to 3600000"),
        ("symptom.json", "{\"share\": 80}", "symptom.json: `share` is 80, not 0 to 1"),
        ("symptom.json", "{\"seconds\": \"long\"}", "symptom.json:1:18: invalid type"),
        ("counters.json", "[1]", "counters.json:1:1: invalid type"),
        ("bundle.json", "{}", "bundle.json:1:2: missing field `apiVersion`"),
        (
            "bundle.json",
            &MANIFEST.replace("netlab.dev/v1", "netlab.dev/v9"),
            "bundle.json: it is netlab.dev/v9 DnsBundle, not netlab.dev/v1 DnsBundle",
        ),
        ("bundle.json", &MANIFEST.replace("shop", ""), "bundle.json: subject.namespace is empty"),
        (
            "bundle.json",
            &MANIFEST.replace("\"kind\"", "\"absent\": [\"pod/resolv.config\"], \"kind\""),
            "bundle.json: `absent` names `pod/resolv.config`, which is no file of a bundle",
        ),
        (
            "bundle.json",
            &MANIFEST.replace("\"kind\"", "\"base\": \"../../etc\", \"kind\""),
            "bundle.json: `base` is `../../etc`",
        ),
    ] {
        let error = parse(&[(path, text)]).expect_err(path);
        assert!(error.starts_with(said), "{path}: `{error}` does not begin with `{said}`");
    }
    let empty = bundle::parse(&BTreeMap::new()).expect_err("no manifest");
    assert_eq!(empty.to_string(), "bundle.json: not there: this is no bundle");
}

#[test]
fn counts_that_contradict_each_other_are_refused_with_their_row() {
    let row = |counts: &str| {
        let start =
            r#"{"from": "pod", "server": "10.96.0.10", "transport": "udp", "name": "a.", "type": "A", "#;
        parse(&[(
            "probes.json",
            &format!("{{\"probes\": [{start}\"result\": \"noerror\"}}, {start}{counts}}}]}}"),
        )])
    };
    for (counts, said) in [
        (r#""result": "noerror", "sent": 4294967295"#, "`sent` is 4294967295, not 1 to 1000000"),
        (r#""result": "noerror", "sent": 0"#, "`sent` is 0, not 1 to 1000000"),
        (r#""result": "noerror", "ms": -5"#, "`ms` is -5, not 0 to 3600000"),
        (
            r#""result": "noerror", "sent": 1, "answered": 5"#,
            "the counts contradict each other: 5 answers to 1 questions",
        ),
        (
            r#""result": "servfail", "answered": 0"#,
            "the counts contradict the result: no answer came, and it is SERVFAIL",
        ),
        (
            r#""result": "silent", "sent": 1, "answered": 1"#,
            "the counts contradict the result: every question was answered, and it is silent",
        ),
    ] {
        assert_eq!(row(counts).expect_err(counts), format!("probes.json#2: {said}"));
    }
    for counts in [
        r#""result": "silent", "sent": 9, "answered": 5"#,
        r#""result": "silent", "sent": 1000000, "answered": 0"#,
    ] {
        row(counts).unwrap_or_else(|error| panic!("{counts}: {error}"));
    }
}

#[test]
fn counts_of_any_size_are_added_up() {
    let mut bundle = bundle::read(&shipped().join("F52")).expect("a bundle");
    for fact in bundle.evidence.facts.values_mut() {
        if let netlab_plugin::evidence::Fact::Probe(probe) = fact {
            probe.sent = u32::MAX;
        }
    }
    let found = diagnose(&bundle.target, &bundle.evidence, &Registry::default());
    assert_ne!(found.verdict.class, Class::Healthy);
}

#[test]
fn all_problems_are_told_at_once() {
    let error = parse(&[("probes.json", "{"), ("symptom.json", "[]")]).expect_err("two problems");
    assert_eq!(error.lines().count(), 2, "{error}");
}

#[test]
fn a_directory_is_read_within_itself() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path();
    assert!(bundle::read(&place.join("none")).is_err());
    write(place, "bundle.json", MANIFEST);
    write(place, "pod/resolv.conf", "nameserver 10.96.0.10\n");
    write(place, "pod/notes.txt", "x");
    write(place, "README.md", "x");
    let read = bundle::read(place).expect("a bundle");
    assert_eq!(read.ignored, ["README.md", "pod/notes.txt"]);
    assert_eq!(read.evidence.text("pod/resolv.conf"), Some("nameserver 10.96.0.10\n"));

    write(place, "pod/hosts", b"127.0.0.1 a\n\xff");
    let error = bundle::read(place).expect_err("not UTF-8").to_string();
    assert_eq!(error, "pod/hosts:2:1: not UTF-8 from here on");
    fs::remove_file(place.join("pod/hosts")).expect("remove");

    std::os::unix::fs::symlink("/etc/passwd", place.join("pod/hosts")).expect("a link");
    let error = bundle::read(place).expect_err("a link").to_string();
    assert!(error.starts_with("pod/hosts: a link"), "{error}");
    fs::remove_file(place.join("pod/hosts")).expect("remove");

    fs::create_dir(place.join("pod/hosts")).expect("a folder");
    let error = bundle::read(place).expect_err("a folder").to_string();
    assert_eq!(error, "pod/hosts: not a regular file");
    fs::remove_dir(place.join("pod/hosts")).expect("remove");

    let limits = Limits { file_bytes: 10, ..Limits::default() };
    let error = bundle::read_within(place, limits).expect_err("too large").to_string();
    assert!(error.contains("more than 10 bytes"), "{error}");
}

#[test]
fn bases_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let with_base = |base: &str| MANIFEST.replace("\"kind\"", &format!("\"base\": \"{base}\", \"kind\""));
    write(directory.path(), "a/bundle.json", with_base("../b"));
    write(directory.path(), "b/bundle.json", with_base("../a"));
    let error = bundle::read(&directory.path().join("a")).expect_err("a circle").to_string();
    assert!(error.contains("stand on each other"), "{error}");
}

/// Each file of a bundle, damaged in many ways: it is refused or read, and judged without a panic.
#[test]
#[expect(clippy::print_stdout, reason = "the seed and the count are what a reader of the run wants")]
fn damaged_bundles_are_refused_or_judged() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("NETLAB_SEED").unwrap_or(6);
    println!("NETLAB_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let rounds = number("NETLAB_WORLDS").unwrap_or(12);
    for name in ["base", "F01", "F10", "F28", "F30", "F32"] {
        let whole = bundle::files(&bundle::read(&shipped().join(name)).expect("a bundle"));
        for _ in 0..rounds {
            let mut files = whole.clone();
            let paths: Vec<String> = files.keys().cloned().collect();
            let path = &paths[random.usize(..paths.len())];
            let mut bytes = files[path].clone().into_bytes();
            for _ in 0..random.usize(1..8) {
                let at = random.usize(..=bytes.len());
                match random.u8(..4) {
                    0 if at < bytes.len() => bytes[at] = random.u8(..128),
                    1 => bytes.insert(at, random.u8(..128)),
                    2 => bytes.truncate(at),
                    _ => {
                        let copy = bytes[at..].to_vec();
                        bytes.splice(at..at, copy.into_iter().take(300));
                    }
                }
            }
            files.insert(path.clone(), String::from_utf8_lossy(&bytes).into_owned());
            if let Ok(bundle) = bundle::parse(&files) {
                let found = diagnose(&bundle.target, &bundle.evidence, &Registry::default());
                assert!(!found.verdict.summary.is_empty());
            }
        }
    }
    println!("questions {}", rounds * 6);
}

/// Whatever one file says, the others missing: nothing is called healthy.
#[test]
fn a_file_alone_is_never_healthy() {
    for name in ["base", "F01", "F30"] {
        let whole = bundle::files(&bundle::read(&shipped().join(name)).expect("a bundle"));
        for path in whole.keys() {
            let files = BTreeMap::from([
                (layout::MANIFEST.to_owned(), whole[layout::MANIFEST].clone()),
                (path.clone(), whole[path].clone()),
            ]);
            let bundle = bundle::parse(&files).unwrap_or_else(|error| panic!("{path}: {error}"));
            let found = diagnose(&bundle.target, &bundle.evidence, &Registry::default());
            assert_eq!(
                found.verdict.class,
                Class::Undetermined,
                "{name}: {path} alone: {}",
                found.verdict.summary
            );
        }
    }
}
