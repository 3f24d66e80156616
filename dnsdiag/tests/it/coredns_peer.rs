//! What a real CoreDNS answered (`tests/data/coredns`), against what the record model says of the same objects.

use std::collections::BTreeSet;

use netlab_core::input::{Budget, Document, load};
use netlab_dnsdiag::records::{Answer, RecordType, World, truth};

/// Forms of names that other tests' worlds lack; fewer comparisons than this mean that the file is not read.
const FEWEST: usize = 140;

fn record_type(text: &str) -> Option<RecordType> {
    Some(match text {
        "A" => RecordType::A,
        "AAAA" => RecordType::Aaaa,
        "CNAME" => RecordType::Cname,
        "PTR" => RecordType::Ptr,
        "SRV" => RecordType::Srv,
        "TXT" => RecordType::Txt,
        _ => return None,
    })
}

/// Values of the records of one type in the answer section.
fn values(answer: &str, wanted: &str) -> BTreeSet<String> {
    let lines = answer.lines().filter_map(|line| line.strip_prefix("answer "));
    let fields = lines.map(|line| line.splitn(5, ' ').collect::<Vec<_>>());
    fields
        .filter_map(|fields| match *fields.as_slice() {
            [_, _, _, kind, data] if kind == wanted => Some(match kind {
                // Priority and weight are the server's own choice; texts come with their length.
                "SRV" => data.splitn(3, ' ').nth(2).unwrap_or_default().to_owned(),
                "TXT" => data.trim_matches('"').trim_start_matches("\\u{5}").to_owned(),
                _ => data.to_owned(),
            }),
            _ => None,
        })
        .collect()
}

#[test]
fn the_record_model_says_what_a_real_coredns_said() {
    let document =
        Document { name: "world.yaml".into(), text: include_str!("../data/coredns/world.yaml").into() };
    let loaded = load([document], &Budget::default());
    assert!(loaded.is_complete(), "{:?}", loaded.diagnostics);
    let world = World::new(&loaded.cluster, "cluster.local");
    let (mut compared, mut wrong) = (0, Vec::new());
    for block in include_str!("../data/coredns/answers.txt").split("> ").skip(1) {
        let (question, answer) = block.split_once('\n').expect("a question has an answer");
        let words: Vec<&str> = question.split(' ').collect();
        let ["udp" | "tcp", name, kind] = *words.as_slice() else { continue };
        let Some(record) = record_type(kind).filter(|_| !name.contains(['*', '\\'])) else { continue };
        let said = truth(world, name);
        let expected = match said.answer(record) {
            Answer::Unknown => continue,
            Answer::NxDomain => ("NXDOMAIN", BTreeSet::new()),
            Answer::NoData => ("NOERROR", BTreeSet::new()),
            Answer::Records(records) | Answer::Alias(records) => ("NOERROR", records.clone()),
        };
        compared += 1;
        let kind = if matches!(said.answer(record), Answer::Alias(_)) { "CNAME" } else { kind };
        let is_cut = answer.lines().next().is_some_and(|head| head.contains(" tc "));
        let found = (answer.split([' ', ',']).next().unwrap_or_default(), values(answer, kind));
        // Behind an alias the server goes on, as far as there are aliases.
        let is_same = if kind == words[2] { found.1 == expected.1 } else { found.1.is_superset(&expected.1) };
        if found.0 != expected.0 || !is_cut && !is_same {
            wrong.push(format!("{question}: the model says {expected:?}, CoreDNS said {found:?}"));
        }
        if expected.1.is_empty() && answer.contains("\nanswer ") {
            wrong.push(format!("{question}: the model has nothing, CoreDNS said {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared >= FEWEST, "{compared}");
}
