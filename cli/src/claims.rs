//! Claims put to a cluster: each becomes a question, and the answer is held against what was expected.
//!
//! Invariant: a claim that cannot be put as a question is a finding with the claim's own place, never one that holds.

use std::collections::BTreeSet;

use netlab_core::diagnostic::{Diagnostic, code};
use netlab_core::endpoint_ref::DestinationRef;
use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::model::source::Position;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::claims::Claim;
use netlab_core::policy::evaluate::{Evaluation, Outcome, Side, evaluate_on};
use netlab_core::policy::query::Query;
use netlab_core::policy::trial::Trial;
use netlab_core::policy::{Rulesets, Scope};
use netlab_enforcer::prove::error::ProveError;
use netlab_enforcer::prove::proof::{Proof, ProofOutcome};
use serde::Serialize;

use crate::args::globals::Globals;
use crate::args::packet::PacketArgs;
use crate::failure::Failure;
use crate::question::{Asked, Question};

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// It is as claimed.
    Holds,
    /// It is not.
    Fails,
    /// There is no certain answer.
    Undecided,
}

/// A claim that was tried.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) claim: Claim,
    pub(crate) asked: Asked,
    pub(crate) found: Outcome,
    pub(crate) status: Status,
    /// The sides that decide: direction and reasons.
    pub(crate) because: Vec<(&'static str, Side)>,
    /// What else is to be said.
    pub(crate) notes: Vec<String>,
    /// What the kernel did, if it was asked.
    pub(crate) kernel: Option<Kernel>,
}

/// The kernel's answer to a claim.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kernel {
    /// Every packet proved, one contradicted, or one not seen.
    pub(crate) outcome: ProofOutcome,
    /// How many packets were sent.
    pub(crate) packets: usize,
}

/// The claim as a question; what is wrong with it as a finding.
pub(crate) fn question(
    claim: &Claim,
    globals: &Globals,
    cluster: &Cluster,
) -> Result<Question, Box<Diagnostic>> {
    let args = PacketArgs {
        from: claim.from.clone(),
        to: DestinationRef { endpoint: claim.to.clone(), port: None },
        port: claim.port.clone(),
        proto: claim.protocol,
    };
    Question::new(&args, globals, cluster).map_err(|failure| {
        // What is a flag on the command line is a field here.
        let field = |text: &str| text.replace("`--proto", "`protocol").replace("`--", "`");
        let message = std::iter::once(&failure.what).chain(&failure.causes).map(|text| field(text));
        let message = message.collect::<Vec<_>>().join(": ");
        let finding = Diagnostic::error(code::CLAIM_INVALID, message)
            .at(Position { line: claim.line, column: claim.column })
            .in_file(&claim.file);
        Box::new(match &failure.hint {
            Some(hint) => finding.with_hint(field(hint)),
            None => finding,
        })
    })
}

/// The pods whose tables the questions need.
pub(crate) fn scope<'q>(questions: impl Iterator<Item = &'q Question>, cluster: &Cluster) -> Scope {
    let pods: BTreeSet<ObjectKey> = questions.flat_map(|question| question.pods(cluster)).collect();
    Scope::Pods(pods)
}

/// Tables to which any number of claims can be put.
pub(crate) struct Judge<'a> {
    cluster: &'a Cluster,
    rulesets: &'a Rulesets,
    trial: Trial,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(cluster: &'a Cluster, rulesets: &'a Rulesets) -> Result<Self, Failure> {
        let trial = Trial::new(rulesets).map_err(|error| {
            Failure::unreadable("the policies make tables that cannot be used").because(&error)
        })?;
        Ok(Self { cluster, rulesets, trial })
    }

    pub(crate) fn answer(&self, question: &Question) -> Evaluation {
        evaluate_on(self.cluster, self.rulesets, &self.trial, &question.query)
    }

    /// The verdict of a question, without its words.
    pub(crate) fn verdict(&self, query: &Query) -> Outcome {
        evaluate_on(self.cluster, self.rulesets, &self.trial, query).verdict
    }

    /// Tries a claim; with the kernel's proofs, these have the last word about the verdict.
    pub(crate) fn try_claim(
        &self,
        claim: Claim,
        question: Question,
        proofs: Option<Result<Vec<Proof>, ProveError>>,
    ) -> Tried {
        let evaluation = self.answer(&question);
        let mut notes = question.service.map(|service| service.notes).unwrap_or_default();
        notes.extend(evaluation.notes.iter().cloned());
        let mut found = evaluation.verdict;
        let mut doubt = None;
        let kernel = proofs.and_then(|proofs| match proofs {
            Ok(proofs) => {
                let kernel = Kernel { outcome: outcome(&proofs), packets: proofs.len() };
                match kernel.outcome {
                    ProofOutcome::Proved => found = observed(&proofs).unwrap_or(found),
                    ProofOutcome::Contradicted => {
                        notes.push(contradiction(&proofs));
                        doubt = Some(Status::Fails);
                        found = observed(&proofs).unwrap_or(found);
                    }
                    ProofOutcome::Inconclusive => {
                        notes.push("the kernel's answer was not seen for every packet".to_owned());
                        doubt = Some(Status::Undecided);
                    }
                }
                Some(kernel)
            }
            Err(error) => {
                notes.push(error.to_string());
                doubt = Some(Status::Undecided);
                None
            }
        });
        let because = because(&evaluation, found);
        let mut status = doubt.unwrap_or(match found {
            Outcome::Undefined => Status::Undecided,
            Outcome::Allow if claim.expect == Verdict::Allow => Status::Holds,
            Outcome::Deny if claim.expect == Verdict::Deny => Status::Holds,
            // Some pods may and others may not: neither is true of all.
            Outcome::Allow | Outcome::Deny | Outcome::Mixed => Status::Fails,
        });
        if let (Status::Holds, Some(by)) = (status, &claim.by) {
            let decides = |(_, side): &(_, Side)| {
                side.rule.as_ref().is_some_and(|rule| by.is_rule(rule))
                    || (side.rule.is_none() && side.isolated_by.iter().any(|policy| by.is_policy(policy)))
            };
            if !because.iter().any(decides) {
                status = Status::Fails;
                notes.insert(0, format!("it is not {by} that decides"));
            }
        }
        Tried { asked: question.asked, claim, found, status, because, notes, kernel }
    }
}

/// The sides that make the verdict what it is.
fn because(evaluation: &Evaluation, found: Outcome) -> Vec<(&'static str, Side)> {
    let wanted = match found {
        Outcome::Allow => Verdict::Allow,
        Outcome::Deny | Outcome::Mixed | Outcome::Undefined => Verdict::Deny,
    };
    let pair = evaluation.pairs.iter().find(|pair| pair.verdict == wanted).or(evaluation.pairs.first());
    let Some(pair) = pair else { return Vec::new() };
    [("egress", &pair.egress), ("ingress", &pair.ingress)]
        .into_iter()
        .filter(|(_, side)| side.verdict == pair.verdict)
        .map(|(direction, side)| (direction, side.clone()))
        .collect()
}

/// The worst of all.
fn outcome(proofs: &[Proof]) -> ProofOutcome {
    let any = |outcome| proofs.iter().any(|proof| proof.outcome == outcome);
    if any(ProofOutcome::Contradicted) {
        ProofOutcome::Contradicted
    } else if any(ProofOutcome::Inconclusive) {
        ProofOutcome::Inconclusive
    } else {
        ProofOutcome::Proved
    }
}

/// What the kernel did with all packets.
fn observed(proofs: &[Proof]) -> Option<Outcome> {
    let verdicts: BTreeSet<Verdict> = proofs.iter().filter_map(|proof| proof.observed).collect();
    match verdicts.iter().collect::<Vec<_>>().as_slice() {
        [] => None,
        [one] => Some((**one).into()),
        _ => Some(Outcome::Mixed),
    }
}

fn contradiction(proofs: &[Proof]) -> String {
    let wrong = proofs.iter().find(|proof| proof.outcome == ProofOutcome::Contradicted);
    wrong.map_or_else(String::new, |proof| {
        let observed = proof.observed.map_or_else(|| "nothing".to_owned(), |verdict| verdict.to_string());
        format!(
            "the kernel contradicts the tables: predicted {}, observed {observed}; see `policy prove`",
            proof.predicted
        )
    })
}
