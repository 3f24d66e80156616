//! S11: answers against the API's objects, as sets.

use netlab_plugin::check::CheckOutcome;
use netlab_plugin::evidence::{Flag, Outcome};

use super::Step;
use crate::bundle::layout;
use crate::records::{Answer, RecordType};
use crate::view::{Ask, Server, View, ids};

pub(super) const STEP: Step = Step {
    id: "S11",
    name: "answers",
    summary: "every answer about the cluster against Services and slices, for each server",
    needs: &[layout::PROBES, layout::SERVICES, layout::SLICES, layout::NAMESPACES, layout::PODS],
    costs: "nothing beyond the probes",
    examine,
};

fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    for (id, probe) in view.rows(&Ask::from_pod()) {
        let of_cluster = view.server(probe.server).is_some_and(|server| {
            matches!(server, Server::ClusterDns(_) | Server::DnsPod(_) | Server::LinkLocal)
        });
        let record = match &*probe.qtype {
            "A" => RecordType::A,
            "AAAA" => RecordType::Aaaa,
            _ => continue,
        };
        if !of_cluster || !matches!(probe.result, Outcome::Noerror | Outcome::Nxdomain) {
            continue;
        }
        // A truncated answer says itself that it is not all; an alias in place of a denial is autopath's.
        let autopath = view.server_blocks().iter().any(|block| block.all("autopath").next().is_some());
        let alias = probe.answers.iter().any(|answer| answer.starts_with("CNAME "));
        if probe.has(Flag::Tc) || (autopath && alias) {
            continue;
        }
        let Some(truth) = view.truth(&probe.name) else { continue };
        let told: std::collections::BTreeSet<String> =
            probe.addresses().iter().map(ToString::to_string).collect();
        let fits = match truth.answer(record) {
            Answer::Unknown | Answer::Alias(_) => continue,
            Answer::NxDomain => probe.result == Outcome::Nxdomain,
            Answer::NoData => probe.result == Outcome::Noerror && told.is_empty(),
            Answer::Records(records) => probe.result == Outcome::Noerror && told == *records,
        };
        if fits {
            right.push(id);
        } else {
            let got = match told.len() {
                0 => probe.result.as_str().to_owned(),
                count @ 1..=3 => told.into_iter().take(count).collect::<Vec<_>>().join(", "),
                count => format!("{count} addresses"),
            };
            wrong.push((id, format!("{} {} gets {got}", probe.qtype, probe.name)));
        }
    }
    let outcome = match wrong.first() {
        Some((_, first)) => CheckOutcome::fault(format!(
            "{} of {} are wrong: {first}",
            wrong.len(),
            right.len() + wrong.len()
        )),
        None if right.is_empty() => return None,
        None => CheckOutcome::ok(format!("{} answers match Services and slices", right.len())),
    };
    Some(outcome.citing(ids(wrong.into_iter().map(|(id, _)| id).chain(right))))
}
