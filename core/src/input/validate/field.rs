//! Fields that the API does not have.
//!
//! The API server drops them, so `ingres:` is a policy that isolates and admits nobody. The message names the
//! nearest field, or the place where the field would belong.

use super::Report;
use crate::diagnostic::code;
use crate::input::node::push_key;
use crate::input::wire::meta::{ObjectMeta, Unknown};

/// The structs of a NetworkPolicy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Object,
    Metadata,
    Spec,
    IngressRule,
    EgressRule,
    Peer,
    IpBlock,
    Port,
    Selector,
    Requirement,
}

impl Holder {
    const ALL: [Self; 10] = [
        Self::Object,
        Self::Metadata,
        Self::Spec,
        Self::IngressRule,
        Self::EgressRule,
        Self::Peer,
        Self::IpBlock,
        Self::Port,
        Self::Selector,
        Self::Requirement,
    ];

    const fn fields(self) -> &'static [&'static str] {
        match self {
            // `status` was part of the API from 1.24 to 1.27.
            Self::Object => &["apiVersion", "kind", "metadata", "spec", "status"],
            Self::Metadata => &[
                "annotations",
                "clusterName",
                "creationTimestamp",
                "deletionGracePeriodSeconds",
                "deletionTimestamp",
                "finalizers",
                "generateName",
                "generation",
                "initializers",
                "labels",
                "managedFields",
                "name",
                "namespace",
                "ownerReferences",
                "resourceVersion",
                "selfLink",
                "uid",
            ],
            Self::Spec => &["egress", "ingress", "podSelector", "policyTypes"],
            Self::IngressRule => &["from", "ports"],
            Self::EgressRule => &["ports", "to"],
            Self::Peer => &["ipBlock", "namespaceSelector", "podSelector"],
            Self::IpBlock => &["cidr", "except"],
            Self::Port => &["endPort", "port", "protocol"],
            Self::Selector => &["matchExpressions", "matchLabels"],
            Self::Requirement => &["key", "operator", "values"],
        }
    }

    const fn place(self) -> &'static str {
        match self {
            Self::Object => "the top of the object",
            Self::Metadata => "`metadata`",
            Self::Spec => "`spec`",
            Self::IngressRule => "an element of `ingress`",
            Self::EgressRule => "an element of `egress`",
            Self::Peer => "an element of `from` or `to`",
            Self::IpBlock => "`ipBlock`",
            Self::Port => "an element of `ports`",
            Self::Selector => "a selector",
            Self::Requirement => "an element of `matchExpressions`",
        }
    }
}

/// Reports the unknown fields at the top of the object and in its metadata.
pub(super) fn object(report: &mut Report<'_>, unknown: &Unknown, metadata: &ObjectMeta) {
    self::unknown(report, "", Holder::Object, unknown);
    self::unknown(report, "metadata", Holder::Metadata, &metadata.unknown);
}

/// Reports the unknown fields of one struct.
pub(super) fn unknown(report: &mut Report<'_>, path: &str, holder: Holder, unknown: &Unknown) {
    for field in unknown.keys().filter(|field| !holder.fields().contains(&field.as_str())) {
        let mut at = path.to_owned();
        push_key(&mut at, field);
        let nearest = holder
            .fields()
            .iter()
            .map(|known| (strsim::osa_distance(&field.to_lowercase(), &known.to_lowercase()), known))
            .min()
            .filter(|(distance, known)| *distance <= 1 + known.len() / 5);
        let elsewhere = Holder::ALL.into_iter().find(|other| other.fields().contains(&field.as_str()));
        let hint = match (nearest, elsewhere) {
            (Some((_, known)), _) => format!("did you mean `{known}`?"),
            (None, Some(other)) => format!("`{field}` belongs into {}", other.place()),
            (None, None) if holder == Holder::Selector => {
                format!("labels go below `matchLabels`: {{{field}: …}}")
            }
            (None, None) => format!("{} takes {}", holder.place(), list(holder.fields())),
        };
        let message = format!("unknown field `{field}`");
        report.error(code::UNKNOWN_FIELD, &at, message, &hint);
    }
}

fn list(fields: &[&str]) -> String {
    fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ")
}
