//! Fields that the API does not have.
//!
//! The API server drops them, so `ingres:` is a policy that isolates and admits nobody. The message names the
//! nearest field, or the place where the field would belong, or what another version of the API calls it.

use super::Report;
use super::holder::{self, Family, Holder};
use crate::diagnostic::code;
use crate::input::node::push_key;
use crate::input::wire::meta::{ObjectMeta, Unknown};

/// Reports the unknown fields at the top of the object and in its metadata.
pub(super) fn object(report: &mut Report<'_>, unknown: &Unknown, metadata: &ObjectMeta) {
    self::unknown(report, "", &holder::OBJECT, unknown);
    self::unknown(report, "metadata", &holder::METADATA, &metadata.unknown);
}

/// Reports the unknown fields of one struct.
pub(super) fn unknown(report: &mut Report<'_>, path: &str, holder: &'static Holder, unknown: &Unknown) {
    for field in unknown.keys().filter(|field| !holder.fields.contains(&field.as_str())) {
        let hint = recognised(holder, field).unwrap_or_else(|| {
            if std::ptr::eq(holder, &raw const holder::SELECTOR) {
                format!("labels go below `matchLabels`: {{{field}: …}}")
            } else {
                format!("{} takes {}", holder.place, list(holder.fields))
            }
        });
        self::report(report, path, field, &hint);
    }
}

/// Reports one field.
pub(super) fn report(report: &mut Report<'_>, path: &str, field: &str, hint: &str) {
    let mut at = path.to_owned();
    push_key(&mut at, field);
    report.error(code::UNKNOWN_FIELD, &at, format!("unknown field `{field}`"), hint);
}

/// What somebody who wrote this field here probably meant; `None` for a field that is like no other.
pub(super) fn recognised(holder: &'static Holder, field: &str) -> Option<String> {
    if let Some(hint) = other_version(holder.family, field) {
        return Some(hint.to_owned());
    }
    let nearest = holder
        .fields
        .iter()
        .map(|known| (strsim::osa_distance(&field.to_lowercase(), &known.to_lowercase()), known))
        .min()
        .filter(|(distance, known)| *distance <= 1 + known.len() / 5);
    if let Some((_, known)) = nearest {
        return Some(format!("did you mean `{known}`?"));
    }
    let reachable = |other: &&&Holder| {
        other.fields.contains(&field)
            && (other.family == holder.family || [other.family, holder.family].contains(&Family::Any))
    };
    let elsewhere = holder::ALL.iter().find(reachable);
    elsewhere.map(|other| format!("`{field}` belongs into {}", other.place))
}

/// Fields that another version, or another kind, has for the same thing.
fn other_version(family: Family, field: &str) -> Option<&'static str> {
    Some(match (family, field) {
        (Family::V1Alpha2, "ports") => {
            "v1alpha2 calls it `protocols`, with elements such as `tcp: {destinationPort: {number: 80}}`"
        }
        (Family::V1Alpha2, "portNumber" | "portRange") => {
            "v1alpha2 writes `tcp: {destinationPort: {number: 80}}`, or `range: {start: …, end: …}`"
        }
        (Family::V1Alpha2, "namedPort") => "v1alpha2 calls it `destinationNamedPort`",
        (Family::V1Alpha1, "protocols") => {
            "v1alpha1 calls it `ports`, with elements such as `portNumber: {port: 80}`"
        }
        (Family::V1Alpha1, "destinationNamedPort") => "v1alpha1 calls it `namedPort`",
        (Family::Any | Family::V1Alpha1 | Family::V1Alpha2, "sameLabels" | "notSameLabels") => {
            "it went away with v0.1.7 of the API: name the namespaces by their labels"
        }
        (Family::V1Alpha1 | Family::V1Alpha2, "ipBlock") => {
            "the kinds of this group write `networks: [CIDR]`, and in `to` only"
        }
        _ => return None,
    })
}

fn list(fields: &[&str]) -> String {
    fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ")
}
