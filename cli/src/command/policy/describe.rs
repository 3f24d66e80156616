//! `netlab policy describe`: one pod, in plain words.

use netlab_core::envelope::Envelope;
use netlab_core::policy::describe::{Description, describe};
use netlab_core::policy::query::End;
use serde::Serialize;

use crate::args::globals::Globals;
use crate::args::policy::Describe;
use crate::ends;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::describe::render;
use crate::output::terminal::Terminal;

/// The answer, for machines.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(flatten)]
    story: &'a Description,
    /// How many pods were asked about.
    pods: usize,
    pods_with_another_story: Vec<&'a str>,
}

/// Tells.
pub(crate) fn run(args: &Describe, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let input = load::input(globals, terminal)?;
    let (asked, found) = ends::resolve("describe", &args.subject, globals, &input.loaded.cluster)?;
    let told: Vec<Description> = found
        .iter()
        .filter_map(|end| match end {
            End::Pod(key) => describe(&input.loaded.cluster, &input.loaded.policies, key),
            End::Node(_) | End::Address(_) => None,
        })
        .collect();
    let Some(first) = told.first() else {
        return Err(Failure::unreadable(format!("`{asked}` is no pod, and policies are about pods"))
            .hint("`policy connections --to` lists what may be opened to an address or node"));
    };
    let alike = |other: &&Description| other.ingress == first.ingress && other.egress == first.egress;
    let pods_with_another_story: Vec<&str> =
        told.iter().filter(|other| !alike(other)).map(|other| other.pod.as_str()).collect();
    let different = pods_with_another_story.len();
    if different > 0 {
        terminal.note(&format!(
            "note: {different} of {} pods of {asked} {} another story; this is {}'s",
            told.len(),
            if different == 1 { "has" } else { "have" },
            first.pod
        ));
    }
    let incomplete = !input.not_examined.is_empty();
    let answer = Answer { story: first, pods: told.len(), pods_with_another_story };
    terminal.answer(&Envelope::new("Description", answer, input.not_examined), |_| render(first))?;
    Ok(if incomplete { Exit::CannotTell } else { Exit::Yes })
}
