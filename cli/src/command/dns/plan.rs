//! `netlab dns plan`: what a library asks for a name, and what comes of it.

use std::io::Read as _;
use std::path::Path;

use netlab_core::envelope::Envelope;
use netlab_dnsdiag::answers::Answers;
use netlab_dnsdiag::assumed::Assumed;
use netlab_dnsdiag::resolv_conf;
use netlab_dnsdiag::resolver::{Libc, Lookup, QueryPlan, compare, plan};
use netlab_dnsdiag::script::Script;
use serde::Serialize;

use crate::args::dns::Plan;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::dns_plan::{render, render_comparison};
use crate::output::terminal::Terminal;

/// An answer, and what it takes for granted.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a, T> {
    #[serde(flatten)]
    answer: &'a T,
    assumed: Option<String>,
}

/// Answers.
pub(crate) fn run(args: &Plan, terminal: &Terminal) -> Result<Exit, Failure> {
    super::query::is_name(&args.name)?;
    let stdin = Path::new("-");
    if args.resolv_conf == stdin && args.server.as_deref() == Some(stdin) {
        return Err(Failure::unreadable("`--resolv-conf -` and `--server -`: standard input is one text")
            .hint("name a file for one of them"));
    }
    let file = read(&args.resolv_conf)?;
    let script = args.server.as_deref().map(script).transpose()?;
    let assumed = Assumed::meant(&args.name, &file);
    let answers: &dyn Answers = match &script {
        Some(script) => script,
        None => &assumed,
    };
    let lookup = Lookup { name: args.name.clone(), family: args.family.into() };
    let of = |libc: Libc| plan(&lookup, &resolv_conf::read(&file, libc.dialect()), libc, answers);
    let assumed = script.is_none().then(|| assumed.words());
    if args.compare || args.libc.len() > 1 {
        let libcs = if args.libc.len() > 1 { args.libc.clone() } else { beside(&args.libc) };
        let comparison = compare(libcs.into_iter().map(of).collect());
        let answer = Answer { answer: &comparison, assumed };
        terminal.answer(&Envelope::new("QueryPlans", &answer, Vec::new()), |_| {
            render_comparison(&comparison, answer.assumed.as_deref())
        })?;
        return Ok(exit(comparison.plans.iter().map(QueryPlan::resolves)));
    }
    let Some(libc) = args.libc.first() else {
        return Err(Failure::unreadable("`--libc` names no library"));
    };
    let plan = of(*libc);
    let answer = Answer { answer: &plan, assumed };
    terminal.answer(&Envelope::new("QueryPlan", &answer, Vec::new()), |_| {
        render(&plan, answer.assumed.as_deref())
    })?;
    Ok(exit([plan.resolves()]))
}

/// The libraries that one is compared with, itself among them.
fn beside(asked: &[Libc]) -> Vec<Libc> {
    let kind = std::mem::discriminant::<Libc>;
    Libc::all()
        .into_iter()
        .map(|libc| asked.iter().copied().find(|asked| kind(asked) == kind(&libc)).unwrap_or(libc))
        .collect()
}

fn exit(resolves: impl IntoIterator<Item = Option<bool>>) -> Exit {
    let all: Vec<Option<bool>> = resolves.into_iter().collect();
    if all.contains(&Some(false)) {
        Exit::No
    } else if all.contains(&None) {
        Exit::CannotTell
    } else {
        Exit::Yes
    }
}

fn script(path: &Path) -> Result<Script, Failure> {
    let bytes = read(path)?;
    let refused = |error: &dyn std::error::Error| {
        Failure::unreadable(format!("`{}` is no script of servers", path.display()))
            .because(error)
            .hint("write `{\"10.96.0.10\": [[\"NAME.\", \"*\", \"ok\"]]}`, as docs/dns.md describes")
    };
    let text = String::from_utf8(bytes).map_err(|error| refused(&error))?;
    text.parse().map_err(|error: netlab_dnsdiag::script::ScriptError| refused(&error))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(path).map(|read| bytes = read)
    };
    let failure = || Failure::unreadable(format!("cannot read `{}`", path.display()));
    read.map_err(|error| failure().because(&error)).map(|()| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_does_not_resolve_is_a_no() {
        assert_eq!(exit([Some(true), None, Some(false)]), Exit::No);
        assert_eq!(exit([Some(true), None]), Exit::CannotTell);
        assert_eq!(exit([Some(true)]), Exit::Yes);
    }

    #[test]
    fn a_release_that_was_named_stays() {
        let musl: Libc = "musl:1.2.3".parse().expect("a libc");
        assert!(beside(&[musl]).contains(&musl));
        assert_eq!(beside(&[musl]).len(), 3);
    }
}
