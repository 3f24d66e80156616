//! `netlab policy prove`: one packet, in this machine's kernel.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal};
use std::time::Duration;

use netlab_core::envelope::Envelope;
use netlab_core::input::Loaded;
use netlab_core::policy::evaluate::Outcome;
use netlab_enforcer::prove::error::{Blame, ProveError};
use netlab_enforcer::prove::proof::{Proof, ProofOutcome};
use netlab_enforcer::prove::{Datapath, Proven, prove_by};
use netlab_lab::enter_user_namespace;
use netlab_node::capability::{KernelRelease, find_tool, missing_capabilities, try_user_namespace};
use serde::Serialize;

use crate::args::globals::Globals;
use crate::args::packet::Expected;
use crate::args::policy::{BackendArg, Prove};
use crate::command::give_up_after;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::diagnostic::Texts;
use crate::output::proof::{others, render, source_line};
use crate::output::terminal::Terminal;
use crate::question::{Asked, Question};

/// The answer in its envelope.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    /// The question, as it was asked.
    asked: &'a Asked,
    /// The proof that matters most.
    #[serde(flatten)]
    shown: &'a Proof,
    /// The lines of its rules.
    sources: BTreeSet<Source<'a>>,
    /// The same question's other packets.
    others: Vec<&'a Proof>,
}

/// A line of the input.
#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Source<'a> {
    file: &'a str,
    line: u32,
    text: &'a str,
}

/// The lines that a proof quotes.
fn sources<'a>(proof: &'a Proof, texts: &'a Texts) -> BTreeSet<Source<'a>> {
    let rules = proof.hops.iter().filter_map(|hop| hop.rule.as_ref());
    let quoted = rules.filter_map(|rule| {
        let file = rule.file.as_deref()?;
        let (line, text) = source_line(Some(file), rule.line, texts)?;
        Some(Source { file, line, text })
    });
    quoted.collect()
}

/// Proves.
pub(crate) fn run(args: &Prove, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let input = load::input(globals, terminal)?;
    let question = Question::new(&args.packet, globals, &input.loaded.cluster)?;
    if let (true, Some(service)) = (question.query.to.is_empty(), &question.service) {
        return Err(
            Failure::new(Exit::CannotTell, "there is nowhere to send to").caused_by(service.notes.join("; "))
        );
    }
    let (datapath, obstacle) = choose(args.backend)?;
    if let Some(limit) = globals.timeout {
        give_up_after(limit, terminal.clone());
    }
    terminal.progress(&format!("asking {datapath:?}"));
    if let (Datapath::Nft, BackendArg::Auto) = (datapath, args.backend) {
        terminal.note(
            "note: nftables is asked, since the eBPF program cannot be loaded here; see `netlab check`",
        );
    }
    let proven = match prove_by(&input.loaded, &question.query, datapath, args.proxy.into()) {
        Ok(proven) => proven,
        // One to a Service that leads it nowhere is a question, and `policy eval` says undefined.
        Err(ProveError::NothingToSend { why }) if question.service.is_some() => {
            return Err(Failure::new(Exit::CannotTell, "there is nowhere to send to").caused_by(why));
        }
        Err(error) => return Err(could_not_try(&error, terminal)),
    };
    let Some((shown, rest)) = most_important(&proven.proofs) else {
        return Err(Failure::new(Exit::CannotTell, "there was nothing to prove"));
    };
    let mut not_examined = input.not_examined;
    let differs = rest.iter().any(|proof| verdict(proof) != verdict(shown));
    let unknown = question.unknown_endpoints(&input.loaded.cluster, differs);
    for what in &unknown {
        terminal.remark(what);
    }
    not_examined.extend(unknown);
    let incomplete = !not_examined.is_empty();
    not_examined.extend(proven.proofs.iter().flat_map(|proof| proof.not_examined.iter().cloned()));
    if proven.proofs.iter().any(|proof| proof.via.is_some()) {
        not_examined.push("which endpoint the node's proxy chooses: it was given each in turn".to_owned());
    } else if question.service.as_ref().is_some_and(|service| {
        let leads_on = |proof: &Proof| !service.addresses.contains(&proof.query.destination);
        !service.headless && proven.proofs.iter().any(leads_on)
    }) {
        not_examined.push("how the node's proxy leads from the Service to its endpoints".to_owned());
    }
    not_examined.dedup();
    let answer = Answer {
        asked: &question.asked,
        shown,
        sources: sources(shown, &input.loaded.texts),
        others: rest.clone(),
    };
    let envelope = Envelope::new("Proof", answer, not_examined);
    let subject = question.asked.to_string();
    terminal.answer(&envelope, |_| {
        render(shown, &subject, differs, &input.loaded.texts) + &others(shown, &rest)
    })?;
    if shown.outcome == ProofOutcome::Contradicted {
        dump(&envelope, &input.loaded, terminal)?;
    }
    if datapath == Datapath::None && !args.allow_simulated {
        let why = obstacle.as_deref().unwrap_or("`--backend none` was asked for");
        terminal.note(&format!(
            "hint: no kernel was asked: {why}\n      run it as root, or accept this answer with `--allow-simulated`"
        ));
    }
    if let Some(limit) = args.hold {
        hold(&proven, limit, terminal);
    }
    Ok(if incomplete { Exit::CannotTell } else { exit(&proven.proofs, args) })
}

/// The datapath to ask, and what stands in the way of a better one.
pub(super) fn choose(backend: BackendArg) -> Result<(Datapath, Option<String>), Failure> {
    let tc = tc_obstacle();
    match (backend, tc) {
        (BackendArg::None, obstacle) => Ok((Datapath::None, obstacle)),
        (BackendArg::Auto | BackendArg::Tc, None) => Ok((Datapath::Tc, None)),
        (BackendArg::Tc, Some(obstacle)) => Err(Failure::not_allowed("the tc backend cannot be used here")
            .caused_by(&obstacle)
            .hint("`netlab check` tells what this machine can do; `--backend nft` needs no root")),
        (BackendArg::Nft, _) => match ready_for_nft() {
            Ok(()) => Ok((Datapath::Nft, None)),
            Err(obstacle) => Err(Failure::not_allowed("the nft backend cannot be used here")
                .caused_by(&obstacle)
                .hint("`netlab check` tells what this machine can do")),
        },
        (BackendArg::Auto, Some(tc)) => match ready_for_nft() {
            Ok(()) => Ok((Datapath::Nft, None)),
            Err(nft) => Ok((Datapath::None, Some(format!("{tc}; {nft}")))),
        },
    }
}

/// Why the tc backend cannot work here, as far as it can be known without trying.
fn tc_obstacle() -> Option<String> {
    let missing = missing_capabilities();
    if !missing.is_empty() {
        return Some(format!("{} missing", missing.join(", ")));
    }
    match KernelRelease::running() {
        Some(release) if !release.has_tcx() => Some(format!("Linux {} is older than 6.6", release.text)),
        _ => None,
    }
}

/// Makes namespaces and nftables possible: as they are for root, else in a user namespace of this process, which
/// is entered here, before there is any thread.
fn ready_for_nft() -> Result<(), String> {
    if find_tool("nft", &["--version"]).is_none() {
        return Err("the program `nft` is not installed".to_owned());
    }
    let missing = missing_capabilities();
    if !["CAP_NET_ADMIN", "CAP_SYS_ADMIN"].iter().any(|needed| missing.iter().any(|word| word == needed)) {
        return Ok(());
    }
    if let Err(error) = try_user_namespace() {
        return Err(format!("no user namespace: {error}"));
    }
    enter_user_namespace().map_err(|error| format!("no user namespace: {error}"))
}

pub(super) fn could_not_try(error: &ProveError, terminal: &Terminal) -> Failure {
    let exit = match error.blame() {
        Blame::Input => Exit::CannotRead,
        Blame::Kernel => Exit::NotAllowed,
        Blame::Bug => Exit::CannotTell,
    };
    terminal.progress(&format!("{error:?}"));
    let failure = Failure::new(exit, "the proof could not be tried").because(error);
    match error.blame() {
        Blame::Input => failure,
        Blame::Kernel => failure.hint("`netlab check` tells what this machine can do"),
        Blame::Bug => failure.hint("this is a fault of netlab: please report it with the input"),
    }
}

/// A contradiction first, then what stayed open, then a denied packet, then the first.
fn most_important(proofs: &[Proof]) -> Option<(&Proof, Vec<&Proof>)> {
    let rank = |proof: &Proof| match (proof.outcome, verdict(proof)) {
        (ProofOutcome::Contradicted, _) => 0,
        (_, Outcome::Undefined) => 1,
        (ProofOutcome::Inconclusive, Outcome::Allow) => 3,
        (ProofOutcome::Inconclusive, _) => 2,
        (ProofOutcome::Proved, Outcome::Allow) => 5,
        (ProofOutcome::Proved, _) => 4,
    };
    let shown = proofs.iter().min_by_key(|proof| rank(proof))?;
    Some((shown, proofs.iter().filter(|proof| !std::ptr::eq(*proof, shown)).collect()))
}

/// What the packet's verdict is: what the kernel did or would do, unless the API defines none.
fn verdict(proof: &Proof) -> Outcome {
    match &proof.undefined {
        Some(_) => Outcome::Undefined,
        None => proof.observed.map_or(proof.predicted, Outcome::from),
    }
}

fn exit(proofs: &[Proof], args: &Prove) -> Exit {
    let any = |outcome| proofs.iter().any(|proof| proof.outcome == outcome);
    if any(ProofOutcome::Contradicted) {
        return Exit::No;
    }
    // No expectation is met where the API says nothing, and no kernel can tell what it means.
    let undefined = proofs.iter().any(|proof| proof.undefined.is_some());
    if undefined || (any(ProofOutcome::Inconclusive) && !args.allow_simulated) {
        return Exit::CannotTell;
    }
    let expected = match args.expect {
        None => return Exit::Yes,
        Some(Expected::Allow) => Outcome::Allow,
        Some(Expected::Deny) => Outcome::Deny,
    };
    let as_expected = proofs.iter().all(|proof| verdict(proof) == expected);
    if as_expected { Exit::Yes } else { Exit::No }
}

/// Everything that somebody needs to look into a contradiction.
fn dump(envelope: &Envelope<Answer<'_>>, loaded: &Loaded, terminal: &Terminal) -> Result<(), Failure> {
    let input: std::collections::BTreeMap<&str, &str> =
        loaded.texts.iter().map(|(name, text)| (name.as_ref(), text.as_ref())).collect();
    let value = serde_json::json!({ "proof": envelope, "input": input });
    let name = format!("netlab-contradicted-{:08x}.json", std::process::id());
    let failed = || Failure::new(Exit::No, format!("cannot write the dump `{name}`"));
    let text = serde_json::to_string_pretty(&value).map_err(|error| failed().because(&error))?;
    std::fs::write(&name, text).map_err(|error| failed().because(&error))?;
    terminal.note(&format!("dump: ./{name} holds the proof and the input: please report it"));
    Ok(())
}

/// Keeps the place until the time is over, or Enter is pressed, or a signal ends the process.
fn hold(proven: &Proven, limit: Option<Duration>, terminal: &Terminal) {
    if proven.lab().is_none() {
        return;
    }
    let stdin = std::io::stdin();
    match limit {
        Some(limit) => {
            terminal.note(&format!("holding the namespaces and maps for {limit:?}"));
            std::thread::sleep(limit);
        }
        None if stdin.is_terminal() => {
            terminal.note("holding the namespaces and maps until you press Enter");
            let _ = stdin.lock().read_line(&mut String::new());
        }
        None => {
            terminal.note("holding the namespaces and maps until a signal ends this process");
            loop {
                std::thread::park();
            }
        }
    }
}
