//! Lists of nftables as other versions of `nft` print them: the same rules, so the same answer.

use netlab_core::model::service::AddressType;
use netlab_core::service::expected::expected;
use netlab_core::service::nftables::dump;
use netlab_core::service::trace::{Rules, Status, trace};
use serde_json::{Value, json};

use crate::service_world::cluster;

const WORLD: &str = include_str!("../kube-proxy/world.yaml");
const LISTS: [(AddressType, &str); 4] = [
    (AddressType::Ipv4, include_str!("../kube-proxy/nft-ip-1.34.4.json")),
    (AddressType::Ipv4, include_str!("../kube-proxy/nft-ip-1.36.3.json")),
    (AddressType::Ipv6, include_str!("../kube-proxy/nft-ip6-1.34.4.json")),
    (AddressType::Ipv6, include_str!("../kube-proxy/nft-ip6-1.36.3.json")),
];

/// Rewrites every value for which there is another form; the answer is how many there were.
fn rewrite(value: &mut Value, other: &impl Fn(&Value) -> Option<Value>) -> usize {
    if let Some(new) = other(value) {
        *value = new;
        return 1;
    }
    match value {
        Value::Array(items) => items.iter_mut().map(|item| rewrite(item, other)).sum(),
        Value::Object(fields) => fields.values_mut().map(|field| rewrite(field, other)).sum(),
        _ => 0,
    }
}

fn all_is_well(family: AddressType, list: &Value) {
    let dump = dump::read(list).expect("a list");
    let trace = trace(&Rules::Nftables(dump), &expected(&cluster(WORLD), "worker", family), "worker");
    assert!(trace.shared.is_empty(), "{:#?}", trace.shared);
    for port in &trace.ports {
        let faults: Vec<_> = port.faults().collect();
        assert!(faults.is_empty() && port.status == Status::Ok, "{}: {faults:#?}", port.service);
    }
}

#[test]
fn one_flag_may_be_a_word_or_a_list() {
    for (family, list) in LISTS {
        let mut list: Value = serde_json::from_str(list).expect("JSON");
        let count = rewrite(&mut list, &|value| {
            let flags = value.get("flags")?;
            let other = match flags.as_array().map(Vec::as_slice) {
                None => json!([flags]),
                Some([one]) => one.clone(),
                Some(_) => return None,
            };
            let mut value = value.clone();
            value["flags"] = other;
            Some(value)
        });
        assert!(count > 3, "{count}");
        all_is_well(family, &list);
    }
}

#[test]
fn one_state_of_a_connection_may_be_a_word_or_a_list() {
    for (family, list) in LISTS {
        let mut list: Value = serde_json::from_str(list).expect("JSON");
        let count = rewrite(&mut list, &|value| {
            let one =
                value.get("right").filter(|right| right.is_string() && value["left"]["ct"].is_object())?;
            let mut other = value.clone();
            other["right"] = json!([one]);
            Some(other)
        });
        assert!(count > 3, "{count}");
        all_is_well(family, &list);
    }
}

/// `masqueradeBit: 31`.
#[test]
fn the_highest_bit_of_a_mark_may_be_printed_as_a_prefix() {
    const BIT: u64 = 1 << 31;
    for (family, list) in LISTS {
        let mut list: Value = serde_json::from_str(list).expect("JSON");
        let count = rewrite(&mut list, &|value| {
            let is_mark = |value: &Value| value["meta"]["key"] == "mark";
            if let Some(masked) = value["left"]["&"].as_array()
                && is_mark(&masked[0])
                && value["right"] == 0
            {
                let right = json!({"prefix": {"addr": 0, "len": 1}});
                return Some(json!({"op": value["op"], "left": masked[0], "right": right}));
            }
            ["|", "^"].into_iter().find_map(|operator| {
                let operands = value.get(operator)?.as_array()?;
                is_mark(&operands[0]).then(|| json!({operator: [operands[0], BIT]}))
            })
        });
        assert!(count > 2, "{count}");
        all_is_well(family, &list);
    }
}
