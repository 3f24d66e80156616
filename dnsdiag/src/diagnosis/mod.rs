//! The conclusion: the ordered rules over what the checks and models see.
//!
//! Invariant: one verdict. It is a rule's, or "healthy" when everything that could show a failure was examined and shows none, or
//! "undetermined" with what is missing. Pure: the same evidence gives the same words.

use std::collections::BTreeSet;

use netlab_plugin::check::{CheckOutcome, CheckStatus, Target};
use netlab_plugin::evidence::Evidence;
use serde::Serialize;

use crate::bundle::layout;
use crate::check::{Registry, STEPS};
use crate::rules::{Class, Confidence, Effect, Hit, RULES, Rule, Standing};
use crate::view::{Halved, View};

mod healthy;

/// What was concluded.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// `namespace/pod`.
    pub subject: String,
    /// The names that were asked about.
    pub names: Vec<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, one sentence each.
    pub because: Vec<String>,
    /// The steps, in order.
    pub steps: Vec<StepOutcome>,
    /// Other causes that are there too.
    pub contributing: Vec<Cause>,
    /// What to do, one line each.
    pub fixes: Vec<String>,
    /// Commands that verify the verdict or the fix.
    pub verify: Vec<String>,
    /// Modes that were not judged, and for want of what.
    pub not_judged: Vec<NotJudged>,
    /// What was not examined, one line each; the envelope carries it in JSON.
    #[serde(skip)]
    pub not_examined: Vec<String>,
}

/// The verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Its kind.
    pub class: Class,
    /// `POLICY-EGRESS-DENY`; null when healthy or undetermined.
    pub id: Option<&'static str>,
    /// `F01`; null when healthy or undetermined.
    pub mode: Option<&'static str>,
    /// How sure.
    pub confidence: Confidence,
    /// In a line.
    pub summary: String,
    /// Ids of facts that speak for it.
    pub evidence: Vec<String>,
    /// Ids of facts that speak against it.
    pub against: Vec<String>,
}

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepOutcome {
    /// `S6`.
    pub id: String,
    /// `policy`.
    pub name: String,
    /// What it came to.
    pub status: CheckStatus,
    /// What it saw.
    pub line: String,
    /// Ids of facts behind it.
    pub evidence: Vec<String>,
}

/// Another cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// `F09`, or the id of a check from elsewhere.
    pub mode: String,
    /// `PROXY-TCP-MISSING`.
    pub id: String,
    /// How sure.
    pub confidence: Confidence,
    /// In a line.
    pub summary: String,
    /// Ids of facts that speak for it.
    pub evidence: Vec<String>,
}

/// A mode that was not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotJudged {
    /// `F30`.
    pub mode: &'static str,
    /// The files that were not recorded.
    pub needs: Vec<&'static str>,
}

/// A rule that fired.
#[derive(Clone, Debug)]
pub struct Fired {
    /// The rule.
    pub rule: &'static Rule,
    /// What it says.
    pub hit: Hit,
    /// What it explains of what fails.
    pub standing: Standing,
}

impl Fired {
    /// True when it explains no failure, or not the first.
    fn is_beside(&self) -> bool {
        self.rule.latent || self.hit.partial || self.standing != Standing::Explains
    }
}

/// Every rule that fires: first what explains a failure and fits the report, in the order in which rules are asked; what explains none
/// comes last, for it never outranks what does. The confusion matrix prints it.
#[must_use]
pub fn hits(view: &View<'_>) -> (Vec<Fired>, Vec<NotJudged>) {
    let mut fired = Vec::new();
    let mut not_judged = Vec::new();
    let failures = view.failures();
    for rule in RULES {
        let needs = view.missing(rule.needs);
        if !needs.is_empty() {
            not_judged.push(NotJudged { mode: rule.mode, needs });
        } else if let Some(hit) = (rule.test)(view) {
            let standing = rule.standing(&hit, view, &failures);
            fired.push(Fired { rule, hit: weighed(hit, rule, standing, view), standing });
        }
    }
    // Nor does what does not explain the first of them.
    fired.sort_by_key(|one| (one.standing, one.hit.partial));
    (fired, not_judged)
}

/// Sure is only what explains something that fails, and does not contradict the report.
fn weighed(mut hit: Hit, rule: &Rule, standing: Standing, view: &View<'_>) -> Hit {
    let why = match standing {
        Standing::Explains => return hit,
        Standing::Idle if rule.latent => return hit,
        Standing::Idle => "nothing that was asked fails by it".to_owned(),
        Standing::BesideReport => {
            let symptom = view.evidence.symptom();
            hit = hit.despite(symptom.map(|(id, _)| id));
            let error = symptom.and_then(|(_, symptom)| symptom.error.clone()).unwrap_or_default();
            format!("it does not explain the report \"{error}\"")
        }
    };
    hit.confidence = hit.confidence.min(Confidence::Medium);
    hit.because(why)
}

/// Concludes.
#[must_use]
pub fn diagnose(target: &Target, evidence: &Evidence, checks: &Registry) -> Diagnosis {
    let view = View::new(target, evidence);
    let mut outcomes: Vec<(String, String, CheckOutcome)> = STEPS
        .iter()
        .filter_map(|step| Some((step.id.to_owned(), step.name.to_owned(), (step.examine)(&view)?)))
        .collect();
    let mut foreign = Vec::new();
    for check in checks.others() {
        let info = check.describe();
        let outcome = check.run(target, evidence);
        if outcome.status == CheckStatus::Fault {
            foreign.push(Cause {
                mode: info.id.clone(),
                id: info.name.clone(),
                confidence: Confidence::Medium,
                summary: outcome.line.clone(),
                evidence: outcome.evidence.clone(),
            });
        }
        outcomes.push((info.id, info.name, outcome));
    }
    let (mut hits, not_judged) = hits(&view);
    let nothing_fails = view.failures().is_empty();
    // Where one address family works and the other does not, that one is judged by itself: what is said of both together would
    // be true of neither.
    let halved = view.halved().filter(|_| hits.iter().all(Fired::is_beside));
    if let Some(halved) = &halved {
        // What was said of both is not said again of one, where it harms no more.
        let said: Vec<&str> = hits.iter().map(|one| one.rule.mode).collect();
        let mut of_one = of_family(target, evidence, halved);
        of_one.retain(|one| !said.contains(&one.rule.mode));
        of_one.append(&mut hits);
        hits = of_one;
    }
    let mut hits = hits.into_iter().peekable();
    // A danger or noise explains no error that is reported. Without a report it is the verdict where it explains every
    // fault that a step found.
    let symptom = view.evidence.symptom();
    let failed = symptom.is_some_and(|(_, symptom)| symptom.error.is_some());
    let faults: Vec<&CheckOutcome> = outcomes
        .iter()
        .map(|(_, _, outcome)| outcome)
        .filter(|outcome| outcome.status == CheckStatus::Fault)
        .collect();
    let explains = |hit: &Hit| {
        !faults.is_empty()
            && faults.iter().all(|fault| fault.evidence.iter().all(|id| hit.evidence.contains(id)))
    };
    let first = hits.next_if(|one| {
        let noted = one.rule.latent && symptom.is_some()
            || one.rule.explains.contains(&Effect::Danger) && nothing_fails;
        !one.hit.partial && (one.standing != Standing::Idle || !failed && (noted || explains(&one.hit)))
    });
    let (verdict, because, fixes, verify) = match first {
        Some(Fired { rule, hit, .. }) => (
            Verdict {
                class: rule.class,
                id: Some(rule.id),
                mode: Some(rule.mode),
                confidence: hit.confidence,
                summary: hit.summary,
                evidence: hit.evidence,
                against: hit.against,
            },
            hit.because,
            hit.fixes,
            hit.verify,
        ),
        None => healthy::conclude(&view, halved.as_ref(), &outcomes, &foreign),
    };
    let contributing = hits
        .map(|Fired { rule, hit, .. }| Cause {
            mode: rule.mode.to_owned(),
            id: rule.id.to_owned(),
            confidence: hit.confidence,
            summary: hit.summary,
            evidence: hit.evidence,
        })
        .chain(foreign)
        .collect();
    let not_examined = not_examined(&view, &outcomes);
    let steps = outcomes
        .into_iter()
        .map(|(id, name, outcome)| StepOutcome {
            id,
            name,
            status: outcome.status,
            line: outcome.line,
            evidence: outcome.evidence,
        })
        .collect();
    Diagnosis {
        subject: target.to_string(),
        names: target.names.clone(),
        verdict,
        because,
        steps,
        contributing,
        fixes,
        verify,
        not_judged,
        not_examined,
    }
}

/// What the rules say of the family that fails, by itself.
fn of_family(target: &Target, evidence: &Evidence, halved: &Halved) -> Vec<Fired> {
    let view = View::of_family(target, evidence, halved.family);
    let (hits, _) = hits(&view);
    let works = format!(
        "over {} all is well ({} answered): it is {} alone",
        halved.other(),
        halved.whole.count(),
        halved.name()
    );
    hits.into_iter()
        .filter(|one| !one.is_beside())
        .map(|mut one| {
            one.hit.summary = format!("{}: {}", halved.name(), one.hit.summary);
            one.hit = one.hit.because(&works).citing(halved.whole.ids.clone());
            one
        })
        .collect()
}

/// Everything that was not looked at, in words.
fn not_examined(view: &View<'_>, outcomes: &[(String, String, CheckOutcome)]) -> Vec<String> {
    let mut all = BTreeSet::new();
    for (_, name, outcome) in outcomes {
        all.extend(outcome.not_examined.iter().map(|what| format!("{name}: {what}")));
    }
    for (file, why) in &view.unreadable {
        all.insert(format!("{file}: counts as not recorded: {why}"));
    }
    for file in layout::FILES.iter().filter(|file| file.vital) {
        all.extend(
            view.illegible(file.path).map(|why| format!("{}: counts as not recorded: {why}", file.path)),
        );
    }
    if view.knows(layout::PROBES) && view.outside().is_empty() {
        all.insert("upstream: no question for a name outside of the cluster is recorded".to_owned());
    }
    if view.knows(layout::PROBES)
        && view.asks_from_one_socket()
        && view.together().iter().all(|one| one.pairs == 0)
    {
        all.insert("probes: A and AAAA from one socket, as C libraries ask: not recorded".to_owned());
    }
    let proxy = layout::PROXY_DUMPS.iter().any(|dump| view.knows(dump));
    for file in layout::FILES {
        let other_dump = proxy
            && (layout::PROXY_DUMPS.contains(&file.path)
                || (file.path == layout::NODE_IP6TABLES
                    && (view.knows(layout::NODE_NFT) || !view.has_both_families())));
        let evidence = !matches!(file.format, layout::Format::Manifest | layout::Format::Expected);
        if evidence && !other_dump && !view.knows(file.path) {
            all.insert(format!("{}: not recorded", file.path));
        }
    }
    all.into_iter().collect()
}
