//! What the kernel holds, read from `nft -j list table`.
//!
//! Invariant: nothing that was asked for comes in here; two listings are compared after what always differs
//! (handles, counts, the order of hashed elements) is taken out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value;

use super::intervals::{Family, Interval};
use super::program::NftError;
use super::render::{FROM_POD, GENERATION, Script, Side, TO_POD, counted_entry};

/// Most differences that are told.
const SHOWN_DIFFERENCES: usize = 20;

/// One table, read back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// Packets by entry.
    pub(super) counters: BTreeMap<u32, u64>,
    /// The generation in force, 0 when the table does not say one.
    pub(super) generation: u32,
    /// Rules per chain.
    chains: BTreeMap<String, usize>,
    /// Chains with a hook.
    hooked: BTreeSet<String>,
    /// Elements of each map.
    maps: BTreeMap<String, Vec<(Value, String)>>,
    counter_names: BTreeSet<String>,
    /// The last rule of each chain with a hook.
    hook_rules: BTreeMap<String, String>,
    /// Every object, without handles and counts, sorted.
    objects: BTreeSet<String>,
    /// A readable name of each of `objects`, in the same order.
    names: BTreeMap<String, String>,
}

impl Listing {
    /// Reads a listing.
    pub(super) fn parse(text: &str) -> Result<Self, NftError> {
        let bad = |why: &str| NftError::Listing { why: why.to_owned() };
        let document: Value =
            serde_json::from_str(text).map_err(|error| NftError::Listing { why: error.to_string() })?;
        let objects =
            document.get("nftables").and_then(Value::as_array).ok_or_else(|| bad("no `nftables`"))?;
        let mut listing = Self::default();
        for object in objects {
            let Some((kind, body)) = object.as_object().and_then(|object| object.iter().next()) else {
                continue;
            };
            listing.object(kind, body).ok_or_else(|| bad(&format!("a {kind} without a name or a value")))?;
        }
        Ok(listing)
    }

    fn object(&mut self, kind: &str, body: &Value) -> Option<()> {
        let name = || Some(body.get("name")?.as_str()?.to_owned());
        let mut rule = 0;
        match kind {
            "metainfo" => return Some(()),
            "counter" => {
                let name = name()?;
                if let Some(entry) = counted_entry(&name) {
                    self.counters.insert(entry, body.get("packets")?.as_u64()?);
                }
                self.counter_names.insert(name);
            }
            "chain" => {
                let name = name()?;
                if let Some(generation) = name.strip_prefix(GENERATION) {
                    self.generation = self.generation.max(generation.parse().ok()?);
                }
                if body.get("hook").is_some() {
                    self.hooked.insert(name.clone());
                }
                self.chains.insert(name, 0);
            }
            "rule" => {
                let count = self.chains.entry(body.get("chain")?.as_str()?.to_owned()).or_default();
                *count += 1;
                rule = *count;
            }
            "map" => {
                let elements = body.get("elem").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let elements =
                    elements.iter().map(|element| Some((element.get(0)?.clone(), goto(element.get(1)?)?)));
                self.maps.insert(name()?, elements.collect::<Option<_>>()?);
            }
            _ => {}
        }
        let mut stripped = body.clone();
        strip(&mut stripped);
        let said = body.get("chain").or_else(|| body.get("name")).and_then(Value::as_str).unwrap_or_default();
        let said = if rule == 0 { format!("{kind} {said}") } else { format!("rule {rule} of chain {said}") };
        if let Some(chain) = body.get("chain").and_then(Value::as_str)
            && self.hooked.contains(chain)
        {
            self.hook_rules.insert(chain.to_owned(), stripped.to_string());
        }
        // The place of a rule in its chain is part of what it means.
        let key = format!("{kind} {rule} {stripped}");
        self.names.insert(key.clone(), said);
        self.objects.insert(key);
        Some(())
    }

    /// Which side is in force: the one that interfaces lead to.
    pub(super) fn side(&self) -> Option<Side> {
        let targets = [FROM_POD, TO_POD].into_iter().filter_map(|map| self.maps.get(map)).flatten();
        let leads_to = |side: &Side| targets.clone().any(|(_, target)| side.owns(target));
        // Without a pod, the one that is there at all.
        let is_there = |side: &Side| self.chains.keys().any(|name| side.owns(name));
        [Side::A, Side::B]
            .into_iter()
            .find(leads_to)
            .or_else(|| [Side::A, Side::B].into_iter().find(is_there))
    }

    /// True when everything is there that all changes share, so that only what differs has to be made.
    pub(super) fn has_frame(&self) -> bool {
        [("prerouting", FROM_POD), ("postrouting", TO_POD)].into_iter().all(|(chain, map)| {
            // What the rule asks is compared by the drift; here it matters that it asks this map.
            let asks = |rule: &String| rule.contains("\"vmap\"") && rule.contains(&format!("\"@{map}\""));
            self.hooked.contains(chain)
                && self.chains.get(chain) == Some(&1)
                && self.hook_rules.get(chain).is_some_and(asks)
                && self.maps.contains_key(map)
        })
    }

    pub(super) fn map_names(&self) -> impl Iterator<Item = &String> {
        self.maps.keys()
    }

    /// Chains without a hook.
    pub(super) fn plain_chains(&self) -> impl Iterator<Item = &String> {
        self.chains.keys().filter(|name| !self.hooked.contains(*name))
    }

    pub(super) fn hooked_chains(&self) -> impl Iterator<Item = &String> {
        self.hooked.iter()
    }

    pub(super) fn generation_chains(&self) -> impl Iterator<Item = &String> {
        self.chains.keys().filter(|name| name.starts_with(GENERATION))
    }

    pub(super) const fn counter_names(&self) -> &BTreeSet<String> {
        &self.counter_names
    }

    /// The chain of each interface in a dispatch map.
    pub(super) fn dispatched(&self, map: &str) -> BTreeMap<String, String> {
        let elements = self.maps.get(map).into_iter().flatten();
        elements.filter_map(|(key, target)| Some((key.as_str()?.to_owned(), target.clone()))).collect()
    }

    /// Differences to what was read before.
    pub(super) fn differences(&self, before: &Self) -> Vec<String> {
        let told = |listing: &Self, key: &String| listing.names.get(key).cloned().unwrap_or_default();
        let mut gone: BTreeSet<String> =
            before.objects.difference(&self.objects).map(|key| told(before, key)).collect();
        let mut come: BTreeSet<String> =
            self.objects.difference(&before.objects).map(|key| told(self, key)).collect();
        let changed: BTreeSet<String> = gone.intersection(&come).cloned().collect();
        gone.retain(|name| !changed.contains(name));
        come.retain(|name| !changed.contains(name));
        let lists = [(changed, "was changed"), (gone, "is missing"), (come, "is not netlab's")];
        shorten(
            lists
                .into_iter()
                .flat_map(|(names, what)| names.into_iter().map(move |name| format!("{name} {what}"))),
        )
    }

    /// Differences between the tables that a script asked for and those that are there: every map's intervals
    /// exactly, every chain's number of rules.
    pub(super) fn deviations(&self, script: &Script) -> Vec<String> {
        let mut found = Vec::new();
        for (name, (family, wanted)) in &script.maps {
            let present = self.maps.get(name).map(|elements| intervals(*family, elements, script));
            match present {
                None => found.push(format!("map {name} is missing")),
                Some(None) => found.push(format!("map {name} holds elements that cannot be read")),
                Some(Some(present)) if present != *wanted => {
                    found.push(format!("map {name} does not hold what was asked for"));
                }
                Some(Some(_)) => {}
            }
        }
        for (map, wanted) in &script.dispatch {
            if self.dispatched(map) != *wanted {
                found.push(format!("map {map} does not lead every pod's interface to its chain"));
            }
        }
        for (name, wanted) in &script.chains {
            match self.chains.get(name) {
                None => found.push(format!("chain {name} is missing")),
                Some(present) if present != wanted => {
                    found.push(format!("chain {name} has {present} rules instead of {wanted}"));
                }
                Some(_) => {}
            }
        }
        shorten(found.into_iter())
    }
}

fn shorten(differences: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = differences.collect();
    let more = all.len().saturating_sub(SHOWN_DIFFERENCES);
    all.truncate(SHOWN_DIFFERENCES);
    if more > 0 {
        all.push(format!("and {more} more differences"));
    }
    all
}

/// Takes out what differs between two listings of one state.
fn strip(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for key in ["handle", "packets", "bytes"] {
                object.remove(key);
            }
            for (key, inner) in object.iter_mut() {
                strip(inner);
                if let (true, Value::Array(items)) = (matches!(key.as_str(), "set" | "elem"), inner) {
                    items.sort_by_cached_key(ToString::to_string);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

fn goto(verdict: &Value) -> Option<String> {
    Some(verdict.get("goto")?.get("target")?.as_str()?.to_owned())
}

/// The elements of an interval map, neighbours that lead to one place merged; `None` when one is unreadable.
fn intervals(family: Family, elements: &[(Value, String)], script: &Script) -> Option<Vec<Interval<u32>>> {
    let mut found = Vec::with_capacity(elements.len());
    for (key, target) in elements {
        let (start, end) = bounds(family, key)?;
        // A target that was never asked for equals no wanted one.
        let position = script.targets.iter().position(|known| known == target).unwrap_or(usize::MAX);
        found.push(Interval { start, end, value: u32::try_from(position).unwrap_or(u32::MAX) });
    }
    found.sort_unstable();
    found.dedup_by(|next, before| {
        let joined = next.value == before.value && before.end.checked_add(1) == Some(next.start);
        if joined {
            before.end = next.end;
        }
        joined
    });
    Some(found)
}

/// An element's key: an address, `{"prefix": {addr, len}}` or `{"range": [first, last]}`.
fn bounds(family: Family, key: &Value) -> Option<(u128, u128)> {
    let number = |value: &Value| family.number(value.as_str()?.parse::<IpAddr>().ok()?);
    if let Some(prefix) = key.get("prefix") {
        let start = number(prefix.get("addr")?)?;
        let length = u32::try_from(prefix.get("len")?.as_u64()?).ok()?;
        return Some((start, start | family.hosts(length)));
    }
    if let Some(range) = key.get("range") {
        return Some((number(range.get(0)?)?, number(range.get(1)?)?));
    }
    let single = number(key)?;
    Some((single, single))
}
