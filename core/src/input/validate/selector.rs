//! Label selectors (`ValidateLabelSelector` of `meta/v1`).

use std::collections::BTreeSet;

use super::{Report, field, holder, name};
use crate::diagnostic::code;
use crate::input::node::push_key;
use crate::input::wire::meta::{LabelSelector, LabelSelectorRequirement};
use crate::model::selector::{Operator, Requirement, Selector};

const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];

/// Reads a selector, reporting whatever the API server would refuse.
pub(super) fn selector(report: &mut Report<'_>, path: &str, wire: &LabelSelector) -> Selector {
    field::unknown(report, path, &holder::SELECTOR, &wire.unknown);
    for (key, value) in wire.match_labels.iter().flatten() {
        let mut at = format!("{path}.matchLabels");
        push_key(&mut at, key);
        if let Some(problem) = name::label_key(key) {
            let message = format!("`{key}` is no label key: {problem}");
            report.error(code::INVALID_SELECTOR, &at, message, "no object can have this label");
        }
        value_is_valid(report, &at, value);
    }
    for (index, requirement) in wire.match_expressions.iter().flatten().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        self::requirement(report, &path, requirement);
    }
    selector_of_valid(wire)
}

fn requirement(report: &mut Report<'_>, path: &str, wire: &LabelSelectorRequirement) {
    field::unknown(report, path, &holder::REQUIREMENT, &wire.unknown);
    if let Some(problem) = name::label_key(&wire.key) {
        let at = format!("{path}.key");
        let message = format!("`{}` is no label key: {problem}", wire.key);
        report.error(code::INVALID_SELECTOR, &at, message, "write the key of a label");
    }
    let values = wire.values.as_deref().unwrap_or_default();
    match wire.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            let message = format!("`{}` without `values`", wire.operator);
            report.error(code::INVALID_SELECTOR, path, message, "name one value at least, or use `Exists`");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let at = format!("{path}.values");
            let message = format!("`{}` takes no `values`", wire.operator);
            report.error(code::INVALID_SELECTOR, &at, message, "take them away, or use `In` or `NotIn`");
        }
        operator if OPERATORS.contains(&operator) => {}
        operator => {
            let at = format!("{path}.operator");
            let message = format!("`{operator}` is no operator");
            let hint = match OPERATORS.into_iter().find(|known| known.eq_ignore_ascii_case(operator)) {
                Some(known) => format!("write `{known}`"),
                None => "write `In`, `NotIn`, `Exists` or `DoesNotExist`".to_owned(),
            };
            report.error(code::INVALID_SELECTOR, &at, message, &hint);
        }
    }
    for (index, value) in values.iter().enumerate() {
        value_is_valid(report, &format!("{path}.values[{index}]"), value);
    }
}

fn value_is_valid(report: &mut Report<'_>, path: &str, value: &str) {
    if let Some(problem) = name::label_value(value) {
        let message = format!("`{value}` is no label value: {problem}");
        report.error(code::INVALID_SELECTOR, path, message, "no object can have this label");
    }
}

/// The model of a selector; requirements that are not valid match nothing.
pub(crate) fn selector_of_valid(wire: &LabelSelector) -> Selector {
    let labels = wire.match_labels.iter().flatten().map(|(key, value)| Requirement {
        key: key.clone(),
        operator: Operator::In(BTreeSet::from([value.clone()])),
    });
    let expressions = wire.match_expressions.iter().flatten().map(|requirement| {
        let values = || requirement.values.iter().flatten().cloned().collect();
        let operator = match requirement.operator.as_str() {
            "NotIn" => Operator::NotIn(values()),
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => Operator::In(values()),
        };
        Requirement { key: requirement.key.clone(), operator }
    });
    Selector::new(labels.chain(expressions))
}
