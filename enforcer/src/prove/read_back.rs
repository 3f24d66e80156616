//! The rows behind a prediction, read back from the kernel and compared with what was compiled.
//!
//! Invariant: keys are computed from the compiled record of the pod, never from what the kernel holds, so a pod that
//! was moved to other rows shows. Only the rows of one decision are read; the audit reads them all. The number of a
//! pod's namespace is the node's to give and is not compared here: only the mid-flow rule uses it.

use netlab_core::policy::image::Image;
use netlab_core::policy::trial::HopVerdict;
use netlab_ebpf::abi::{Device, PolicyValue, Word};

use super::cite::{RowKey, device_row, policy_row, row_key, value_bytes};
use super::error::ProveError;
use super::place::HookSite;
use super::proof::EntryRef;
use crate::maps::PolicyMaps;

/// What a node's maps should hold, as far as one pod is concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compiled<'a> {
    pub(super) image: &'a Image,
    pub(super) device: &'a Device,
}

impl Compiled<'_> {
    /// The number of a namespace that is not known.
    pub(super) const NO_NAMESPACE: i32 = -1;

    /// The row that decides at a hop, as the kernel holds it. What differs is told, one line each.
    pub(super) fn read_back(
        self,
        maps: &PolicyMaps,
        site: &HookSite,
        hop: &HopVerdict,
        differences: &mut Vec<String>,
    ) -> Result<EntryRef, ProveError> {
        let Self { image, device } = self;
        let table = maps.devices.table();
        let cannot_read = ProveError::kernel("cannot read DEVICES");
        let held = table.get(&site.ifindex).map_err(cannot_read)?.unwrap_or_default();
        differences.extend(device_differences(device, &held).map(|what| {
            format!("DEVICES id {} interface {} ({}): {what}", table.id(), site.ifindex, site.pod)
        }));
        match row_key(hop, device.word) {
            RowKey::Policy(key) => {
                let found = maps.policy.get_bytes(&key).map_err(ProveError::kernel("cannot read POLICY"))?;
                let found = found.unwrap_or_default();
                let compiled = image.policy.get(&key).map(value_bytes).unwrap_or_default();
                let cited = policy_row(hop.entry, &key, Some(maps.policy.id()), &found);
                if found != compiled {
                    differences.push(format!(
                        "POLICY id {} key {}: compiled {}, the kernel holds {}",
                        maps.policy.id(),
                        cited.key_hex,
                        row_words(compiled),
                        row_words(&found),
                    ));
                }
                Ok(cited)
            }
            RowKey::Device => {
                let bytes =
                    table.get_bytes(&site.ifindex).map_err(ProveError::kernel("cannot read DEVICES"))?;
                let bytes = bytes.unwrap_or_default();
                Ok(device_row(hop.entry, Some(site.ifindex), Some(table.id()), &bytes))
            }
        }
    }
}

/// In what a pod's record differs.
fn device_differences(compiled: &Device, held: &Device) -> impl Iterator<Item = String> + use<> {
    let [word, held_word] = [compiled.word, held.word].map(word_words);
    let addresses = |device: &Device| format!("{:?} {:?}", device.ipv4, device.ipv6);
    [
        ("", word, held_word),
        ("pod ", compiled.pod.to_string(), held.pod.to_string()),
        ("flags ", compiled.flags.to_string(), held.flags.to_string()),
        ("addresses ", addresses(compiled), addresses(held)),
    ]
    .into_iter()
    .filter(|(_, compiled, held)| compiled != held)
    .map(|(what, compiled, held)| format!("compiled {what}{compiled}, the kernel holds {held}"))
}

fn word_words(word: Word) -> String {
    use netlab_ebpf::abi::Direction::{Egress, Ingress};
    let isolated = match (word.isolated(Ingress), word.isolated(Egress)) {
        (true, true) => "isolated both ways",
        (true, false) => "isolated for ingress",
        (false, true) => "isolated for egress",
        (false, false) => "not isolated",
    };
    format!("ruleset {} generation {}, {isolated}", word.ruleset(), word.generation())
}

/// The verdict of a value read from `POLICY`, with its entry.
fn row_words(value: &[u8]) -> String {
    let entry = value.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes);
    let verdict = match value.first() {
        Some(&PolicyValue::ALLOW) => "allow".to_owned(),
        Some(&PolicyValue::DENY) => "deny".to_owned(),
        Some(other) => format!("verdict {other}"),
        None => return "no row".to_owned(),
    };
    let bytes = super::cite::hex(value);
    format!("{verdict} (entry {entry}, {bytes})")
}
