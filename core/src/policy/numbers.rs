//! Numbers for what the kernel must refer to: classes, rulesets, entries, pods.
//!
//! Invariant: a number belongs to a content and is never given to another one, for as long as the value lives
//! (it can be saved and read back). Compiling the same content again gives the same number; compiling from a
//! fresh value gives the same numbers for the same input on every machine.

use std::collections::BTreeMap;

use netlab_ebpf::reason::FIRST_COMPILED_ENTRY;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// 128 bits of a content's SHA-256, in hex so that it can be a JSON key.
pub(super) type Digest = String;

/// What was numbered so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Numbers {
    classes: BTreeMap<Digest, u32>,
    rulesets: BTreeMap<Digest, u32>,
    tables: BTreeMap<Digest, u32>,
    pods: BTreeMap<String, u32>,
    next_entry: u32,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            classes: BTreeMap::new(),
            rulesets: BTreeMap::new(),
            tables: BTreeMap::new(),
            pods: BTreeMap::new(),
            next_entry: FIRST_COMPILED_ENTRY,
        }
    }
}

impl Numbers {
    pub(super) fn class(&mut self, digest: Digest) -> u32 {
        intern(&mut self.classes, digest)
    }

    pub(super) fn ruleset(&mut self, digest: Digest) -> u32 {
        intern(&mut self.rulesets, digest)
    }

    /// The first of `count` consecutive entry ids that belong to a table.
    pub(super) fn entries(&mut self, digest: Digest, count: u32) -> u32 {
        let next = &mut self.next_entry;
        *self.tables.entry(digest).or_insert_with(|| {
            let first = *next;
            *next = next.saturating_add(count);
            first
        })
    }

    pub(super) fn pod(&mut self, identity: String) -> u32 {
        intern(&mut self.pods, identity)
    }

    /// One more than the largest entry id given so far.
    pub fn entry_limit(&self) -> u32 {
        self.next_entry
    }
}

/// Nothing is ever removed, so the size is the last number given.
fn intern<K: Ord>(map: &mut BTreeMap<K, u32>, key: K) -> u32 {
    let next = u32::try_from(map.len()).unwrap_or(u32::MAX).saturating_add(1);
    *map.entry(key).or_insert(next)
}

/// Builds a digest of fields, each ended so that no two lists of fields run together alike.
#[derive(Default)]
pub(super) struct DigestBuilder(Sha256);

impl DigestBuilder {
    pub(super) fn field(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.0.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
        self.0.update(bytes);
    }

    pub(super) fn number(&mut self, number: u32) {
        self.0.update(number.to_le_bytes());
    }

    /// A list, with its length.
    pub(super) fn numbers(&mut self, numbers: &[u32]) {
        self.number(u32::try_from(numbers.len()).unwrap_or(u32::MAX));
        for number in numbers {
            self.number(*number);
        }
    }

    pub(super) fn finish(self) -> Digest {
        const HEX: [u8; 16] = *b"0123456789abcdef";
        let bytes = self.0.finalize();
        let digits = bytes.iter().take(16).flat_map(|byte| [byte >> 4, byte & 15]);
        digits.map(|digit| char::from(HEX[usize::from(digit)])).collect()
    }
}
