//! `cargo xtask bench adversarial`: how the cost of policies that are made to hurt grows with their number.
//!
//! The target is the ratio of the longest to the shortest time for eight times the size. What is counted (classes,
//! entries, rows) is held to its bounds by a test of the core, where no clock decides.

use netlab_core::policy::{Limits, Numbers, Rulesets, Scope, compile_with};
use netlab_core::testing::adversarial::Adversary;

use super::figure::{Figure, processor_milliseconds};

const TIMES: [usize; 4] = [1, 2, 4, 8];
/// For eight times the size: `n log n` where memory leaves the caches, and the square of it.
const GROWTH: f64 = 16.0;
/// What was promised to be linear, and what a clock adds.
const LINEAR: f64 = 10.0;
const SQUARE: f64 = 128.0;

/// Every set at every size.
pub(crate) fn all() -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for adversary in Adversary::ALL {
        figures.extend(one(adversary)?);
    }
    Ok(figures)
}

fn one(adversary: Adversary) -> anyhow::Result<Vec<Figure>> {
    let part = format!("adversarial: {}", adversary.name());
    let mut figures = Vec::new();
    let mut medians = Vec::new();
    let most = match adversary {
        Adversary::OwnPorts => LINEAR,
        // Every pair of a CIDR and a class inside it is a match that can be cited.
        Adversary::OverlappingCidrs | Adversary::Exceptions => SQUARE,
        _ => GROWTH,
    };
    for times in TIMES {
        let size = adversary.size() * times;
        let (cluster, policies) = adversary.model(size);
        let compile = |scope: &Scope| -> Rulesets {
            compile_with(&cluster, &policies, scope, &Numbers::default(), &Limits::layout_only()).rulesets
        };
        let counts = compile(&Scope::Cluster).size();
        let what = format!(
            "{size}: {} peer classes, {} entries, {} rows",
            counts.peer_classes, counts.entries, counts.rows
        );
        let whole =
            Figure::median(&part, what, processor_milliseconds(5, || compile(&Scope::Cluster))?, "ms");
        let node = Scope::Node("node-0".to_owned());
        let tables = processor_milliseconds(5, || {
            let rulesets = compile(&node);
            // What a backend is given: every cell decided.
            rulesets.change(1, |key| Some(key.name.clone()))
        })?;
        let node = Figure::median(&part, format!("{size}: one node, with its tables"), tables, "ms");
        medians.push([whole.value, node.value]);
        figures.extend([whole, node]);
    }
    for (index, what) in ["whole cluster", "one node, with its tables"].into_iter().enumerate() {
        if let [first, .., last] = medians.as_slice() {
            let ratio = last[index] / first[index].max(0.01);
            figures.push(Figure::count(&part, format!("8 times the size: {what}"), ratio, "x").at_most(most));
        }
    }
    Ok(figures)
}
