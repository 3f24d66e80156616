//! What each reader takes from the same file, line by line, and where the crate `resolv-conf` reads otherwise.

use std::collections::BTreeSet;

use netlab_dnsdiag::resolv_conf::{Dialect, NoteKind, ResolvConf, read};
use netlab_dnsdiag::resolver::{Family, Libc, Lookup, plan};
use netlab_dnsdiag::script::Script;
use netlab_dnsdiag::version::Version;

const GLIBC: Dialect = Dialect::Glibc(Version::new(2, 36, 0));
const GLIBC_OLD: Dialect = Dialect::Glibc(Version::new(2, 25, 0));
const GLIBC_NEW: Dialect = Dialect::Glibc(Version::new(2, 41, 0));
const MUSL: Dialect = Dialect::Musl(Version::new(1, 2, 5));
const GO: Dialect = Dialect::Go(Version::new(1, 26, 0));
const ALL: [Dialect; 4] = [GLIBC, MUSL, GO, Dialect::Kubelet];

fn servers(conf: &ResolvConf) -> Vec<String> {
    conf.nameservers.iter().map(ToString::to_string).collect()
}

fn has(conf: &ResolvConf, line: u32, kind: NoteKind) -> bool {
    conf.notes.iter().any(|note| note.line == line && note.kind == kind && !note.text.is_empty())
}

/// One row: the text, and what the four readers have as search list.
type Row = (&'static str, [&'static [&'static str]; 4]);

#[test]
fn suffixes() {
    let rows: &[Row] = &[
        ("search a b\n", [&["a", "b"], &["a", "b"], &["a.", "b."], &["a", "b"]]),
        ("search a\nsearch b\n", [&["b"], &["b"], &["b."], &["b"]]),
        ("search a\ndomain b\n", [&["b"], &["b"], &["b."], &["a"]]),
        ("domain a x\n", [&["a"], &["a", "x"], &["a."], &[]]),
        ("search a # b\n", [&["a", "#", "b"], &["a", "#", "b"], &["a.", "#.", "b."], &["a", "#", "b"]]),
        (" search a\n", [&[], &[], &["a."], &["a"]]),
        ("search . a.\n", [&[".", "a."], &[".", "a."], &["a."], &["a"]]),
        ("search a\nsearch\n", [&["a"], &[], &[], &[]]),
        ("search a\nsearch \n", [&["a"], &[], &[], &[]]),
        ("search a\r\n", [&["a\r"], &["a"], &["a."], &["a"]]),
        ("#search a\n;search b\n", [&[], &[], &[], &[]]),
        ("search\ta\tb", [&["a", "b"], &["a", "b"], &["a.", "b."], &["a", "b"]]),
        ("Search a\n", [&[], &[], &[], &[]]),
        ("search a\0b c\nsearch d\n", [&["d"], &[], &["d."], &["d"]]),
        ("search", [&[], &[], &[], &[]]),
    ];
    for (text, expected) in rows {
        for (dialect, expected) in ALL.iter().zip(expected) {
            assert_eq!(read(text.as_bytes(), *dialect).search, *expected, "{dialect}: {text:?}");
        }
    }
}

#[test]
fn servers_by_reader() {
    let rows: &[Row] = &[
        ("", [&["127.0.0.1"], &["127.0.0.1"], &["127.0.0.1", "::1"], &[]]),
        ("nameserver 10.1\n", [&["10.0.0.1"], &["10.0.0.1"], &["127.0.0.1", "::1"], &["10.1"]]),
        ("nameserver 010.0.0.1\n", [&["8.0.0.1"], &["8.0.0.1"], &["127.0.0.1", "::1"], &["010.0.0.1"]]),
        (
            "nameserver dns.example\n",
            [&["127.0.0.1"], &["127.0.0.1"], &["127.0.0.1", "::1"], &["dns.example"]],
        ),
        ("nameserver 10.0.0.1\r\n", [&["127.0.0.1"], &["10.0.0.1"], &["10.0.0.1"], &["10.0.0.1"]]),
        ("nameserver 10.0.0.1 #x\n", [&["10.0.0.1"], &["10.0.0.1"], &["10.0.0.1"], &["10.0.0.1"]]),
        (
            "nameserver fe80::1%eth0\n",
            [&["fe80::1%eth0"], &["fe80::1%eth0"], &["fe80::1%eth0"], &["fe80::1%eth0"]],
        ),
        (
            "nameserver fd00::1%eth0\n",
            [&["fd00::1%eth0"], &["127.0.0.1"], &["fd00::1%eth0"], &["fd00::1%eth0"]],
        ),
        ("  nameserver 10.0.0.1\n", [&["127.0.0.1"], &["127.0.0.1"], &["10.0.0.1"], &["10.0.0.1"]]),
        (
            "nameserver 10.0.0.1:53\n",
            [&["127.0.0.1"], &["127.0.0.1"], &["127.0.0.1", "::1"], &["10.0.0.1:53"]],
        ),
        (
            "nameserver 1.1.1.1\nnameserver 1.1.1.2\nnameserver 1.1.1.3\nnameserver 1.1.1.4\n",
            [
                &["1.1.1.1", "1.1.1.2", "1.1.1.3"],
                &["1.1.1.1", "1.1.1.2", "1.1.1.3"],
                &["1.1.1.1", "1.1.1.2", "1.1.1.3"],
                &["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"],
            ],
        ),
    ];
    for (text, expected) in rows {
        for (dialect, expected) in ALL.iter().zip(expected) {
            assert_eq!(servers(&read(text.as_bytes(), *dialect)), *expected, "{dialect}: {text:?}");
        }
    }
    let old = read(b"nameserver 10.0.0.1\r\n", Dialect::Glibc(Version::new(2, 28, 0)));
    assert_eq!(servers(&old), ["10.0.0.1"], "inet_aton ended at any white space until 2.28");
}

#[test]
fn options() {
    // (ndots, timeout, attempts) by reader.
    type Numbers = (u32, i64, i64);
    let rows: &[(&str, [Numbers; 3])] = &[
        ("options ndots:5 timeout:2 attempts:3\n", [(5, 2, 3), (5, 2, 3), (5, 2, 3)]),
        ("options ndots:99 timeout:99 attempts:99\n", [(15, 30, 5), (15, 60, 10), (15, 99, 99)]),
        ("options ndots:0 timeout:0 attempts:0\n", [(0, 0, 0), (0, 0, 0), (0, 1, 1)]),
        ("options ndots:x\n", [(0, 5, 2), (1, 5, 2), (0, 5, 2)]),
        ("options ndots:-1 timeout:-1\n", [(15, -1, 2), (1, 5, 2), (0, 1, 2)]),
        ("options xndots:3\n", [(1, 5, 2), (3, 5, 2), (1, 5, 2)]),
        ("options ndots:2 ndots:3\n", [(3, 5, 2), (2, 5, 2), (3, 5, 2)]),
        ("options ndots:2\noptions timeout:1\n", [(2, 1, 2), (2, 1, 2), (2, 1, 2)]),
        (" options ndots:2\n", [(1, 5, 2), (1, 5, 2), (2, 5, 2)]),
        ("options ndots:2,timeout:1\n", [(2, 5, 2), (2, 1, 2), (2, 5, 2)]),
    ];
    for (text, expected) in rows {
        for (dialect, expected) in [GLIBC, MUSL, GO].iter().zip(expected) {
            let options = read(text.as_bytes(), *dialect).options;
            let numbers = (options.ndots, options.timeout, options.attempts);
            assert_eq!(numbers, *expected, "{dialect}: {text:?}");
        }
    }
}

#[test]
fn options_came_with_releases() {
    let text = b"options rotate single-request-reopen use-vc edns0 trust-ad no-aaaa strict-error -rotate\n";
    let (old, now, new) = (read(text, GLIBC_OLD), read(text, GLIBC), read(text, GLIBC_NEW));
    assert!(old.options.rotate && !old.options.trust_ad && !old.options.no_aaaa);
    assert!(now.options.rotate && now.options.trust_ad && now.options.no_aaaa && !now.options.strict_error);
    assert!(
        now.options.single_request_reopen && !now.options.single_request,
        "the longer name is tried first"
    );
    assert!(!new.options.rotate && new.options.strict_error, "2.41 takes an option back");
    assert!(has(&now, 1, NoteKind::IgnoredOption));
    let musl = read(text, MUSL);
    assert_eq!(musl.options, netlab_dnsdiag::resolv_conf::Options::default());
    assert_eq!(musl.notes.iter().filter(|note| note.kind == NoteKind::IgnoredOption).count(), 8);
    let go = read(text, GO).options;
    assert!(go.rotate && go.single_request && go.use_vc && go.trust_ad && !go.no_aaaa);
}

#[test]
fn what_is_not_used_is_said_with_its_line() {
    let long = format!("search {}\n", "a".repeat(248));
    assert_eq!(long.len(), 256);
    let rows: &[(&str, Dialect, u32, NoteKind)] = &[
        ("\n nameserver 10.0.0.1\n", GLIBC, 2, NoteKind::Indented),
        ("\n nameserver 10.0.0.1\n", MUSL, 2, NoteKind::Indented),
        (&long, MUSL, 1, NoteKind::LineTooLong),
        ("search a\nsearch b\n", GLIBC, 1, NoteKind::Overruled),
        ("search a\nsearch b\n", MUSL, 1, NoteKind::Overruled),
        ("search a # b\n", GLIBC, 1, NoteKind::CommentBecameSuffix),
        ("search a # b\n", MUSL, 1, NoteKind::CommentBecameSuffix),
        ("search .\n", MUSL, 1, NoteKind::RootSuffix),
        ("options ndots:16\n", GLIBC, 1, NoteKind::Capped),
        ("options foo\n", GLIBC, 1, NoteKind::UnknownOption),
        ("options edns0x\n", GLIBC, 1, NoteKind::OptionInsideText),
        ("options xndots:3\n", MUSL, 1, NoteKind::OptionInsideText),
        ("options rotate\n", MUSL, 1, NoteKind::IgnoredOption),
        ("nameserver\n", GLIBC, 1, NoteKind::MissingValue),
        ("nameserver\n", Dialect::Kubelet, 1, NoteKind::MissingValue),
        ("nameserver x\n", MUSL, 1, NoteKind::NotAnAddress),
        ("nameserver 10.0.0.1\r\n", GLIBC, 1, NoteKind::CarriageReturn),
        ("search a b c d e f g\n", GLIBC_OLD, 1, NoteKind::SearchTruncated),
        ("family inet6 inet4\n", GLIBC, 1, NoteKind::UnknownKeyword),
        ("", GLIBC, 0, NoteKind::DefaultNameserver),
    ];
    for (text, dialect, line, kind) in rows {
        let conf = read(text.as_bytes(), *dialect);
        assert!(
            has(&conf, *line, *kind),
            "{dialect}: {text:?} has no {kind:?} in line {line}: {:?}",
            conf.notes
        );
    }
    let fits = read(format!("search {}\n", "a".repeat(247)).as_bytes(), MUSL);
    assert_eq!(fits.search.len(), 1, "255 bytes fit");
}

#[test]
fn the_host_names_domain_is_the_last_resort() {
    assert_eq!(read(b"", GLIBC).or_domain_of("web-0.shop.example").search, ["shop.example"]);
    assert_eq!(read(b"", GO).or_domain_of("web-0.shop.example").search, ["shop.example."]);
    assert!(read(b"", MUSL).or_domain_of("web-0.shop.example").search.is_empty(), "musl does not ask");
    assert!(read(b"", GLIBC).or_domain_of("web-0").search.is_empty());
    assert_eq!(read(b"search a\n", GLIBC).or_domain_of("web-0.shop.example").search, ["a"]);
}

/// Why the crate `resolv-conf` reads a line otherwise than glibc; the test below holds that there is no other reason.
const DIFFERENCES: [(&str, &str); 10] = [
    ("indent", "it accepts blanks before the keyword; glibc ignores the line"),
    ("comment", "it cuts `#` and `;` anywhere; glibc only takes them as comments in the first column"),
    ("inet_aton", "it wants four decimal parts; glibc takes what `inet_aton` takes"),
    ("cr", "it takes a carriage return for white space; glibc for part of the value"),
    ("cap", "it does not cap ndots, timeout and attempts; glibc does at 15, 30 and 5"),
    ("number", "it refuses a value that is no number in its range; `atoi` gives some number"),
    ("prefix", "it compares whole option words; glibc only their beginning"),
    ("many", "it keeps every name server; glibc three"),
    ("default", "it has no default server; glibc asks 127.0.0.1"),
    ("bare", "a bare `search` empties its list; glibc ignores the line"),
];

/// What both have: servers, suffixes, (ndots, timeout, attempts), (rotate, use-vc).
type Common = (Vec<String>, Vec<String>, (i64, i64, i64), (bool, bool));

fn theirs(text: &str) -> Common {
    let (conf, _) = resolv_conf::Config::parse_with_errors(text.as_bytes());
    let search = conf.get_last_search_or_domain().map(ToOwned::to_owned).collect();
    (
        conf.nameservers.iter().map(ToString::to_string).collect(),
        search,
        (i64::from(conf.ndots), i64::from(conf.timeout), i64::from(conf.attempts)),
        (conf.rotate, conf.use_vc),
    )
}

fn ours(text: &str) -> Common {
    let conf = read(text.as_bytes(), GLIBC);
    let options = conf.options;
    (
        servers(&conf),
        conf.search,
        (i64::from(options.ndots), options.timeout, options.attempts),
        (options.rotate, options.use_vc),
    )
}

/// Pieces of files with the reason why they are read differently, or `""`.
const PIECES: [(&str, &str); 35] = [
    ("search a.example b.example\n", ""),
    ("search corp.example\n", ""),
    ("domain d.example\n", ""),
    ("nameserver 10.0.0.1\n", ""),
    ("nameserver fd00::53\n", ""),
    ("nameserver fe80::1%eth0\n", ""),
    ("options ndots:5\n", ""),
    ("options timeout:2 attempts:1\n", ""),
    ("options rotate\n", ""),
    ("options use-vc ndots:3\n", ""),
    ("options edns0 single-request\n", ""),
    ("# nameserver 10.9.9.9\n", ""),
    ("; search x\n", ""),
    ("\n", ""),
    ("sortlist 10.0.0.0/8\n", ""),
    ("options trust-ad\n", ""),
    ("options no-such-thing\n", ""),
    ("nameserver dns.example\n", ""),
    ("  nameserver 10.0.0.7\n", "indent"),
    ("\tsearch indented.example\n", "indent"),
    ("search a.example # tail\n", "comment"),
    ("search a.example;b.example\n", "comment"),
    ("nameserver 10.0.0.1#53\n", "comment"),
    ("nameserver 10.7\n", "inet_aton"),
    ("nameserver 010.0.0.9\n", "inet_aton"),
    ("nameserver 10.0.0.8\r\n", "cr"),
    ("search a.example\r\n", "cr"),
    ("options ndots:99\n", "cap"),
    ("options timeout:99 attempts:99\n", "cap"),
    ("options ndots:x\n", "number"),
    ("options timeout:-1\n", "number"),
    ("options rotated\n", "prefix"),
    ("domain d.example e.example\n", ""),
    ("nameserver 10.1.0.1\nnameserver 10.1.0.2\nnameserver 10.1.0.3\n", "many"),
    ("search a.example\nsearch\n", "bare"),
];

#[test]
fn differences_from_the_resolv_conf_crate_have_reasons() {
    let mut seen = BTreeSet::from(["default"]);
    assert_ne!(theirs(""), ours(""), "one has a default server, the other none");
    let mut wrong = Vec::new();
    for (piece, reason) in PIECES {
        let text = format!("nameserver 10.0.0.1\n{piece}");
        let (theirs, ours) = (theirs(&text), ours(&text));
        if (theirs != ours) == reason.is_empty() {
            wrong.push(format!("{text:?} ({reason}): theirs {theirs:?}, ours {ours:?}"));
        }
        seen.extend((!reason.is_empty()).then_some(reason));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let explained: BTreeSet<&str> = DIFFERENCES.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(seen, explained);
}

#[test]
fn files_of_pieces_without_a_reason_are_read_alike() {
    let plain: Vec<&str> =
        PIECES.iter().filter(|(_, reason)| reason.is_empty()).map(|(piece, _)| *piece).collect();
    let mut random = fastrand::Rng::with_seed(6);
    for _ in 0..2000 {
        let mut text = String::from("nameserver 10.0.0.1\n");
        let mut servers = 1;
        for _ in 0..random.usize(0..8) {
            let piece = plain[random.usize(0..plain.len())];
            servers += usize::from(piece.starts_with("nameserver"));
            if servers <= 3 || !piece.starts_with("nameserver") {
                text.push_str(piece);
            }
        }
        assert_eq!(theirs(&text), ours(&text), "{text:?}");
    }
}

/// Any bytes at all: no reader panics, and each line that is not used is told or is blank or a comment.
#[test]
fn any_bytes_can_be_read() {
    let seed = std::env::var("NETLAB_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    let mut random = fastrand::Rng::with_seed(seed);
    let alphabet = b"\0\t\n\r .:;#-%09afnsx\xff";
    for round in 0..20_000 {
        let mut bytes = Vec::new();
        for _ in 0..random.usize(0..6) {
            if random.bool() {
                bytes.extend_from_slice(PIECES[random.usize(0..PIECES.len())].0.as_bytes());
            }
            for _ in 0..random.usize(0..12) {
                bytes.push(if random.u8(0..4) == 0 {
                    random.u8(..)
                } else {
                    alphabet[random.usize(0..alphabet.len())]
                });
            }
        }
        for dialect in [GLIBC_OLD, GLIBC, GLIBC_NEW, MUSL, GO, Dialect::Kubelet] {
            let conf = read(&bytes, dialect);
            assert_eq!(conf, read(&bytes, dialect), "round {round}");
            if dialect != Dialect::Kubelet {
                assert!((1..=3).contains(&conf.nameservers.len()), "round {round}: {dialect}");
                assert!(conf.nameservers.iter().all(|server| server.address.is_some()));
                assert!(conf.options.ndots <= 15);
            }
            let lines = bytes.split(|byte| *byte == b'\n').count();
            assert!(conf.notes.iter().all(|note| note.line as usize <= lines), "round {round}: {dialect}");
        }
    }
}

/// Files that were hard to read once: each reader reads them, and a plan can be made with what it read.
#[test]
fn hard_files_are_read_again() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/resolv-conf");
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .expect("the corpus")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    assert!(files.len() >= 16, "only {} files", files.len());
    let script: Script = r#"{"127.0.0.1": [["*", "*", "nodata"]], "10.0.0.1": [["*", "*", "servfail"]]}"#
        .parse()
        .expect("a script");
    for file in files {
        let bytes = std::fs::read(&file).expect("read");
        for dialect in [GLIBC_OLD, GLIBC, GLIBC_NEW, MUSL, GO, Dialect::Kubelet] {
            let conf = read(&bytes, dialect);
            let lines = bytes.split(|byte| *byte == b'\n').count();
            assert!(
                conf.notes.iter().all(|note| note.line as usize <= lines),
                "{}: {dialect}",
                file.display()
            );
        }
        for libc in Libc::all() {
            let lookup = Lookup { name: "foo.other".to_owned(), family: Family::Unspec };
            let plan = plan(&lookup, &read(&bytes, libc.dialect()), libc, &script);
            assert!(!plan.predicted.outcomes.is_empty(), "{}: {libc}", file.display());
        }
    }
}
