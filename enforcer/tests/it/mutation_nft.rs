//! Faults in the rules of the nftables datapath, one a row: each is put in after the rules were loaded and before the
//! packet is sent, and the proof must say that something is wrong.
//!
//! As with the maps of tc, the audit must see every one of them, and what no packet of a new connection can meet is
//! the audit's alone.

use std::process::Command;

use netlab_enforcer::prove::{Datapath, Written};
use netlab_plugin::contract::Backend;

use crate::backend_site::has;
use crate::backend_traffic::nft_by_hand;
use crate::mutation_world::{
    ALLOWED, ALLOWED_UDP, Ask, DENIED, IN_BLOCK, IN_EXCEPTION, KEPT, LAST_OF_BLOCK, LEAVING, Seen, is_wanted,
    side_by_side, unseen,
};

/// One fault.
struct Fault {
    name: &'static str,
    asked: Ask,
    seen: Seen,
    /// The nft script that puts it in.
    script: fn(&Rules) -> String,
}

/// The table as nft lists it, and the entry that decides the question.
struct Rules {
    listing: String,
    entry: u32,
}

const fn by_proof(
    name: &'static str,
    asked: Ask,
    words: &'static str,
    script: fn(&Rules) -> String,
) -> Fault {
    Fault { name, asked, seen: Seen::ByProof(words), script }
}

const fn by_audit(
    name: &'static str,
    asked: Ask,
    words: &'static str,
    script: fn(&Rules) -> String,
) -> Fault {
    Fault { name, asked, seen: Seen::ByAudit(words), script }
}

const FAULTS: &[Fault] = &[
    by_proof("deny flipped to allow", DENIED, "wire says allow", |r| {
        r.rewrite(&format!("a_e{}_own", r.entry), |rule| rule.replace("drop", "accept"))
    }),
    by_proof("allow flipped to deny", ALLOWED, "but it did not arrive", |r| {
        r.rewrite(&format!("a_e{}_own", r.entry), |rule| rule.replace("accept", "drop"))
    }),
    by_proof("a denial that drops nothing", KEPT, "wire says allow", |r| {
        r.rewrite(&format!("a_e{}_own", r.entry), |rule| rule.replace(" drop", ""))
    }),
    by_proof("two denials share a counter", DENIED, "its counter did not move", |r| {
        let (own, other) = (format!("entry_{}", r.entry), format!("entry_{}", r.entry + 1));
        r.rewrite(&format!("a_e{}_own", r.entry), |rule| rule.replace(&own, &other))
    }),
    by_proof("port of its neighbour's entry", ALLOWED, "its counter did not move", |r| {
        let (own, other) = (format!("a_e{}_own", r.entry), format!("a_e{}_own", r.entry + 1));
        r.rewrite(&r.chain_with(&own), |rule| rule.replace(&own, &other))
    }),
    by_proof("port in the other byte order", ALLOWED, "its counter did not move", |r| {
        let own = format!("a_e{}_own", r.entry);
        r.rewrite(&r.chain_with(&own), |rule| {
            if rule.starts_with("tcp") {
                format!("tcp dport vmap {{ 14357 : goto {own} }}")
            } else {
                rule.to_owned()
            }
        })
    }),
    by_proof("ports of UDP taken for TCP", ALLOWED, "its counter did not move", exchange_transports),
    by_proof("ports of TCP taken for UDP", ALLOWED_UDP, "its counter did not move", exchange_transports),
    by_proof("peer missing", ALLOWED, "its counter did not move", |r| {
        let (map, _) = r.element("10.1.0.4 : ");
        format!("delete element inet netlab {map} {{ 10.1.0.4 }}\n")
    }),
    by_proof("peer in the wrong class", ALLOWED, "its counter did not move", |r| {
        let (map, _) = r.element("10.1.0.4 : ");
        let (_, other) = r.element("10.1.0.5-198.51.99.255 : ");
        format!(
            "delete element inet netlab {map} {{ 10.1.0.4 }}\nadd element inet netlab {map} {{ 10.1.0.4 : {other} }}\n"
        )
    }),
    by_proof("block one bit too long", LAST_OF_BLOCK, "its counter did not move", |r| {
        let (map, block) = r.element("198.51.100.0/25 : ");
        format!(
            "delete element inet netlab {map} {{ 198.51.100.0/25 }}\n\
             add element inet netlab {map} {{ 198.51.100.0/26 : {block} }}\n"
        )
    }),
    by_proof("block of the next network", IN_BLOCK, "its counter did not move", |r| {
        let (map, block) = r.element("198.51.100.0/25 : ");
        let (_, rest) = r.element("198.51.100.128-255.255.255.255 : ");
        format!(
            "delete element inet netlab {map} {{ 198.51.100.0/25, 198.51.100.128-255.255.255.255 }}\n\
             add element inet netlab {map} {{ 198.51.100.0/24 : {rest}, 198.51.101.0/24 : {block} }}\n"
        )
    }),
    by_proof("exception lost", IN_EXCEPTION, "wire says allow", |r| {
        let (map, block) = r.element("198.51.100.0/25 : ");
        format!(
            "delete element inet netlab {map} {{ 198.51.100.0/25, 198.51.100.128-255.255.255.255 }}\n\
             add element inet netlab {map} {{ 198.51.100.0/24 : {block} }}\n"
        )
    }),
    by_proof("rules of the other direction", LEAVING, "its counter did not move", |r| {
        let chain = r.chain_with("_out_own\n");
        r.rewrite(&chain, |rule| rule.replace("_out_own", "_in_own"))
    }),
    by_proof("isolation for ingress lost", DENIED, "wire says allow", |r| {
        r.rewrite(&r.chain_with("_to\n"), |rule| {
            if rule.starts_with("goto") { "counter name entry_1 accept".to_owned() } else { rule.to_owned() }
        })
    }),
    by_proof("interfaces that lead to no pod", DENIED, "wire says allow", |_| {
        "flush map inet netlab to_pod\n".to_owned()
    }),
    by_proof("hook without a rule", DENIED, "wire says allow", |_| {
        "flush chain inet netlab postrouting\n".to_owned()
    }),
    by_proof("a rule before ours that accepts", KEPT, "wire says allow", |_| {
        "insert rule inet netlab prerouting accept\n".to_owned()
    }),
    by_proof("table gone", DENIED, "wire says allow", |_| "delete table inet netlab\n".to_owned()),
    // A proof sends from the pod's own address.
    by_audit("pod without the check of its source", LEAVING, "_from", |r| {
        let chain = r.chain_with("entry_18\" drop");
        r.rewrite(&chain, |rule| if rule.contains("entry_18") { String::new() } else { rule.to_owned() })
    }),
    by_audit("stale generation", ALLOWED, "generation", |_| {
        "delete chain inet netlab generation_1\nadd chain inet netlab generation_7\n".to_owned()
    }),
    // The row is for packets of another question.
    by_audit("another question's port missing", ALLOWED, "a_", |r| {
        let own = format!("a_e{}_own", r.entry);
        r.rewrite(&r.chain_with(&own), |rule| {
            rule.replace("53 : goto", "54 : goto").replace("54-65535", "55-65535")
        })
    }),
];

fn exchange_transports(r: &Rules) -> String {
    r.rewrite(&r.chain_with(&format!("a_e{}_own", r.entry)), |rule| match rule.split_once(" dport") {
        Some(("tcp", rest)) => format!("udp dport{rest}"),
        Some(("udp", rest)) => format!("tcp dport{rest}"),
        _ => rule.to_owned(),
    })
}

impl Rules {
    /// Every chain with its rules.
    fn chains(&self) -> impl Iterator<Item = (&str, &str)> {
        self.listing.split("\tchain ").skip(1).filter_map(|chain| {
            let (name, rest) = chain.split_once(" {\n")?;
            Some((name, rest.split("\n\t}").next()?))
        })
    }

    /// The first chain of the program's own side whose rules say this; the end of a rule is `\n`.
    fn chain_with(&self, words: &str) -> String {
        let found = self.chains().find(|(name, rules)| {
            let of_entry =
                name.strip_prefix("a_e").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            !of_entry && format!("{rules}\n").contains(words)
        });
        found.unwrap_or_else(|| panic!("no chain says {words:?}")).0.to_owned()
    }

    /// The map for opening packets that has this element, and where it leads.
    fn element(&self, start: &str) -> (String, String) {
        let maps = self.listing.split("\tmap ").skip(1);
        let map = maps.filter(|map| map.split(' ').next().is_some_and(|name| name.contains("_own_")));
        let mut found = map.filter_map(|map| {
            let (_, rest) = map.split("\n\t}").next()?.split_once(start)?;
            let target = rest.split([',', '}']).next()?.trim();
            Some((map.split(' ').next()?.to_owned(), target.to_owned()))
        });
        found.next().unwrap_or_else(|| panic!("no map has {start:?}"))
    }

    /// The script that gives a chain other rules.
    fn rewrite(&self, chain: &str, change: impl Fn(&str) -> String) -> String {
        let (_, rules) = self.chains().find(|(name, _)| *name == chain).expect("the chain is there");
        let rules: Vec<&str> = rules.lines().map(str::trim).collect();
        let changed: Vec<String> = rules.iter().map(|rule| change(rule)).collect();
        assert_ne!(rules, changed, "the fault changes nothing");
        let mut script = format!("flush chain inet netlab {chain}\n");
        for rule in changed.iter().filter(|rule| !rule.is_empty()) {
            script.push_str(&format!("add rule inet netlab {chain} {rule}\n"));
        }
        script
    }
}

#[test]
fn every_fault_in_the_rules_is_seen() {
    if !has(&["netns", "nft"]) {
        return;
    }
    let faults: Vec<&Fault> = FAULTS.iter().filter(|fault| is_wanted(fault.name)).collect();
    assert!(!faults.is_empty(), "no fault has such a name");
    let offenders = side_by_side(
        Datapath::Nft,
        &faults,
        |fault| fault.asked,
        |loaded, honest, fault| {
            let Fault { name, asked, seen: how, script } = **fault;
            let entry = honest.entry.as_ref().expect("a deciding entry").id;
            let mut drift = Vec::new();
            let proof = asked.prove_with(loaded, Datapath::Nft, &mut |node| {
                let Written::Nft(backend, netns) = node else { panic!("nft was asked for") };
                let list = || Command::new("nft").args(["list", "table", "inet", "netlab"]).output();
                let listed = netns.run(list).expect("the node").expect("nft runs");
                let listing = String::from_utf8(listed.stdout).expect("text");
                nft_by_hand(netns, &script(&Rules { listing, entry }));
                drift.extend(backend.observe().expect("readable").drift);
            });
            unseen(how, &proof, &drift).map(|why| format!("{name}: {why}"))
        },
    );
    assert!(offenders.is_empty(), "{}", offenders.join("\n"));
}
