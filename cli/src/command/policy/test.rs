//! `netlab policy test`: do the claims hold?

use std::collections::{BTreeMap, BTreeSet};

use netlab_core::diagnostic::{Diagnostic, Severity};
use netlab_core::endpoint_ref::PortRef;
use netlab_core::envelope::Envelope;
use netlab_core::input::{Budget, Loaded};
use netlab_core::policy::Scope;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::claims::{Claim, Draft, Point, apart, points, read};
use netlab_core::policy::connections::{Focus, HostNetwork, as_if_running, connections};
use netlab_core::policy::evaluate::Outcome;
use netlab_core::policy::query::{Query, Service};
use netlab_enforcer::prove::{Datapath, prove_all};

use super::connections::about;
use super::prove::{choose, could_not_try};
use crate::args::globals::{Format, Globals};
use crate::args::policy::{BackendArg, Switch, Test};
use crate::claims::{Judge, Status, Tried, question, scope};
use crate::command::give_up_after;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::{self, Input};
use crate::output::claims::{Answer, junit, summary, table, tap};
use crate::output::terminal::Terminal;
use crate::question::{Question, compile};

/// Tries, or drafts.
pub(crate) fn run(args: &Test, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let input = load::input(globals, terminal)?;
    if args.record {
        return record(args, input, globals, terminal);
    }
    let Input { loaded, mut not_examined } = input;
    let (asked, findings) = questions(args, &loaded, globals)?;
    let errors: Vec<&Diagnostic> =
        findings.diagnostics.iter().filter(|finding| finding.severity == Severity::Error).collect();
    if !errors.is_empty() {
        if !globals.skip_invalid {
            let what = match errors.len() {
                1 => "1 claim cannot be tried".to_owned(),
                number => format!("{number} claims cannot be tried"),
            };
            return Err(Failure::unreadable(what)
                .hint(
                    "mend it, or leave it out with `--skip-invalid` (the answer is then incomplete, exit 3)",
                )
                .about(findings));
        }
        terminal.findings(&findings.diagnostics, &findings.texts);
        not_examined.extend(errors.iter().map(|finding| format!("a claim: {}", finding.message)));
    }
    let compiled = compile(&loaded, &scope(asked.iter().map(|(_, question)| question), &loaded.cluster))?;
    let judge = Judge::new(&loaded.cluster, &compiled.rulesets)?;
    let mut proofs = kernel(args, &loaded, &asked, globals, terminal)?;
    let mut unknown = BTreeSet::new();
    let tried: Vec<Tried> = asked
        .into_iter()
        .map(|(claim, question)| {
            // Hints choose among endpoints: a claim that holds of all holds of those.
            let [fewest, all] = [false, true].map(|some| question.unknown_endpoints(&loaded.cluster, some));
            let tried = judge.try_claim(claim, question, proofs.as_mut().and_then(Iterator::next));
            unknown.extend(if tried.status == Status::Holds { fewest } else { all });
            tried
        })
        .collect();
    for what in &unknown {
        terminal.remark(what);
    }
    not_examined.extend(unknown);

    let incomplete = !not_examined.is_empty();
    match terminal.format {
        Format::Tap => terminal.whole(&tap(&tried)),
        Format::Junit => terminal.whole(&junit(&tried)),
        Format::Json | Format::Yaml => {
            terminal.data(&Envelope::new("ClaimResults", Answer::new(&tried), not_examined))
        }
        _ if terminal.quiet => terminal.text(&summary(&tried)),
        _ => terminal.text(&table(&tried, terminal.charset)),
    }?;
    let any = |status| tried.iter().any(|tried| tried.status == status);
    Ok(if any(Status::Fails) {
        Exit::No
    } else if any(Status::Undecided) || incomplete {
        Exit::CannotTell
    } else {
        Exit::Yes
    })
}

/// Every claim as a question, and what is wrong with the others.
fn questions(
    args: &Test,
    loaded: &Loaded,
    globals: &Globals,
) -> Result<(Vec<(Claim, Question)>, Loaded), Failure> {
    let mut findings = Loaded::default();
    let mut asked = Vec::new();
    for path in &args.claims {
        let document = load::document(path)?;
        let claims = read(&document, &loaded.cluster, &Budget::default());
        if claims.list.is_empty() && claims.diagnostics.is_empty() {
            return Err(Failure::unreadable(format!("no claim in `{}`", path.display()))
                .hint("`netlab policy test --record` drafts some from the present state"));
        }
        findings.diagnostics.extend(claims.diagnostics);
        findings.texts.insert(document.name, document.text);
        for claim in claims.list {
            match question(&claim, globals, &loaded.cluster) {
                Ok(question) => asked.push((claim, question)),
                Err(finding) => findings.diagnostics.push(*finding),
            }
        }
    }
    findings.diagnostics.sort();
    Ok((asked, findings))
}

/// What the kernel does with each claim's packets, with `--kernel`.
fn kernel(
    args: &Test,
    loaded: &Loaded,
    asked: &[(Claim, Question)],
    globals: &Globals,
    terminal: &Terminal,
) -> Result<Option<impl Iterator<Item = netlab_enforcer::prove::Answer> + use<>>, Failure> {
    if !args.kernel {
        if let Some(limit) = globals.timeout {
            give_up_after(limit, terminal.clone());
        }
        return Ok(None);
    }
    let (datapath, obstacle) = choose(args.backend)?;
    // User namespaces want a process of one thread.
    if let Some(limit) = globals.timeout {
        give_up_after(limit, terminal.clone());
    }
    match (datapath, args.backend) {
        (Datapath::None, BackendArg::Auto) => {
            return Err(Failure::not_allowed("no kernel can be asked here")
                .caused_by(obstacle.unwrap_or_default())
                .hint("run it as root, or without `--kernel`"));
        }
        (Datapath::Nft, BackendArg::Auto) => terminal.note(
            "note: nftables is asked, since the eBPF program cannot be loaded here; see `netlab check`",
        ),
        _ => {}
    }
    let queries: Vec<Query> = asked.iter().map(|(_, question)| question.query.clone()).collect();
    let proofs = prove_all(loaded, &queries, datapath).map_err(|error| could_not_try(&error, terminal))?;
    Ok(Some(proofs.into_iter()))
}

/// Writes claims that hold now.
fn record(args: &Test, input: Input, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let Input { loaded, not_examined } = input;
    let busy = terminal.busy("recording claims");
    let mut running = loaded.clone();
    // Nobody can try a packet of a pod that has finished.
    running.cluster.pods.retain(|_, pod| !pod.terminal);
    running.cluster = as_if_running(&running.cluster, &loaded.policies, HostNetwork::AsPods);
    let focus = Focus {
        workloads_only: args.external == Switch::Off,
        about: about(globals, &running.cluster),
        ..Focus::default()
    };
    let listed = connections(&running.cluster, &compile(&running, &Scope::Cluster)?.rulesets, &focus);

    let compiled = compile(&loaded, &Scope::Cluster)?;
    let judge = Judge::new(&loaded.cluster, &compiled.rulesets)?;
    let mut draft = Draft::default();
    // Ends that no table tells apart are asked once for a port.
    let mut known: BTreeMap<(Option<(u32, u32)>, PortRef), Verdict> = BTreeMap::new();
    points(&loaded.cluster, &compiled.rulesets, &listed, |point, kinds| -> Result<(), Failure> {
        let class = (point.alike, point.port.clone());
        if let Some(verdict) = known.get(&class) {
            draft.claim(&point, *verdict);
            return Ok(());
        }
        let of_kinds = point.alike.zip(point.port.number()).and_then(|((from, to), (protocol, port))| {
            let [from, to] = [from, to].map(|number| kinds.ends(number).to_vec());
            // What a pod sends to itself is no example of what others send to it.
            let itself = from.iter().any(|end| to.contains(end));
            let query = Query { from, to, service: Service::Port { protocol, port } };
            (!itself).then(|| judge.verdict(&query).settled())?
        });
        if let Some(verdict) = of_kinds {
            known.insert(class, verdict);
            draft.claim(&point, verdict);
            return Ok(());
        }
        let (outcome, why) = found(&judge, &loaded, &point, globals)?;
        if let Some(verdict) = outcome.settled().filter(|_| point.alike.is_some()) {
            known.insert(class, verdict);
        }
        if outcome == Outcome::Mixed {
            for point in apart(&loaded.cluster, &point) {
                let (outcome, why) = found(&judge, &loaded, &point, globals)?;
                write(&mut draft, &point, outcome, &why);
            }
        } else {
            write(&mut draft, &point, outcome, &why);
        }
        Ok(())
    })?;
    drop(busy);
    terminal.whole(&draft.finish())?;
    for text in &not_examined {
        terminal.note(&format!("note: not examined: {text}"));
    }
    Ok(if not_examined.is_empty() { Exit::Yes } else { Exit::CannotTell })
}

/// The verdict of a point, and why it is none.
fn found(
    judge: &Judge<'_>,
    loaded: &Loaded,
    point: &Point,
    globals: &Globals,
) -> Result<(Outcome, String), Failure> {
    let claim = Claim {
        name: None,
        from: point.from.clone(),
        to: point.to.clone(),
        port: Some(point.port.clone()),
        protocol: None,
        expect: Verdict::Allow,
        by: None,
        file: "the present state".into(),
        line: 1,
        column: 1,
    };
    let question = question(&claim, globals, &loaded.cluster)
        .map_err(|finding| Failure::unreadable(finding.message.clone()))?;
    let evaluation = judge.answer(&question);
    Ok((evaluation.verdict, evaluation.notes.join("; ")))
}

fn write(draft: &mut Draft, point: &Point, found: Outcome, why: &str) {
    match found {
        Outcome::Allow => draft.claim(point, Verdict::Allow),
        Outcome::Deny => draft.claim(point, Verdict::Deny),
        Outcome::Mixed | Outcome::Undefined => draft.remark(point, why),
    }
}
