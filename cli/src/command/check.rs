//! `netlab check`: what this machine can do.
//!
//! Invariant: a row that fails says what to do; the last line says which commands work here.

use netlab_core::envelope::Envelope;
use netlab_ebpf::abi::ABI_VERSION;
use netlab_enforcer::lockstep::{self, LockstepError};
use netlab_enforcer::object;
use netlab_node::capability::{Item, Report, Status};
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::layout::{WIDTH, wrap};
use crate::output::style::{Charset, Mark, POINTER, paint};
use crate::output::terminal::Terminal;

/// The answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    items: Vec<Item>,
    /// Whether a packet can be proven in this kernel, with either backend.
    proves: bool,
    /// Commands that do everything they can.
    ready: Vec<&'static str>,
    /// Commands that do a part.
    limited: Vec<&'static str>,
    /// Commands that cannot work here.
    missing: Vec<&'static str>,
}

/// Looks and prints.
pub(crate) fn run(terminal: &Terminal) -> Result<Exit, Failure> {
    let answer = Answer::new(Report::gather());
    terminal
        .answer(&Envelope::new("Check", &answer, Vec::new()), |terminal| render(&answer, terminal.charset))?;
    Ok(if answer.proves { Exit::Yes } else { Exit::NotAllowed })
}

impl Answer {
    fn new(report: Report) -> Self {
        let ok = |id: &str| report.is_ok(id);
        let kernel_proof = ok("kernel") && ok("privilege") && ok("namespaces");
        let nft_proof = ok("nft") && (ok("namespaces") || ok("rootless"));
        let mut answer = Self {
            items: Vec::new(),
            proves: kernel_proof || nft_proof,
            ready: vec!["policy eval, compile"],
            limited: Vec::new(),
            missing: Vec::new(),
        };
        match (kernel_proof, nft_proof) {
            (true, _) => answer.ready.extend(["policy prove", "lab", "enforce"]),
            (false, true) => {
                answer.limited.push("policy prove (--backend nft)");
                answer.missing.extend(["lab", "enforce"]);
            }
            (false, false) => {
                answer.limited.push("policy prove (simulated)");
                answer.missing.extend(["lab", "enforce"]);
            }
        }
        answer.items = report.items;
        answer.items.insert(answer.items.len().min(1), object());
        answer.items.push(Item {
            id: "cluster".to_owned(),
            status: Status::Absent,
            text: "live clusters are not supported in this version; -f works".to_owned(),
            hint: None,
        });
        answer
    }
}

fn object() -> Item {
    let hash = object::hash();
    let whole = object::recorded_hash() == Some(hash.as_str());
    let short: String = hash.chars().take(12).collect();
    // Its relocations are counted without any kernel's types: it is to have none.
    let counted = lockstep::check(object::bytes(), || Err(LockstepError::NoBtf));
    let lockstep = match &counted {
        Ok(found) if found.abi == Some(ABI_VERSION) => "0 CO-RE relocations: no kernel lockstep",
        Ok(_) => "of another map layout than this netlab",
        Err(_) => "with CO-RE relocations: it depends on the kernel's own types",
    };
    let good = whole && counted.is_ok_and(|found| found.abi == Some(ABI_VERSION));
    Item {
        id: "object".to_owned(),
        status: if good { Status::Ok } else { Status::Fail },
        text: format!("netlab-tc {short}, map layout {ABI_VERSION}, {lockstep}"),
        hint: (!good).then(|| "this build holds another object than was recorded: build it anew".to_owned()),
    }
}

fn render(answer: &Answer, charset: Charset) -> String {
    let mut text = String::new();
    let width = answer.items.iter().map(|item| item.id.chars().count()).max().unwrap_or(0);
    for item in &answer.items {
        let mark = match item.status {
            Status::Ok => Mark::Good,
            Status::Warn => Mark::Warning,
            Status::Fail => Mark::Bad,
            Status::Absent => Mark::Absent,
        };
        let mark = charset.mark(mark);
        let indent = anstream::adapter::strip_str(&mark).to_string().chars().count() + 1 + width + 2;
        for (index, line) in wrap(&item.text, WIDTH - indent).into_iter().enumerate() {
            if index == 0 {
                text += &format!("{mark} {:<width$}  {line}\n", item.id);
            } else {
                text += &format!("{}{line}\n", " ".repeat(indent));
            }
        }
        if let Some(hint) = &item.hint {
            for (index, line) in wrap(hint, WIDTH - 10).into_iter().enumerate() {
                let head = if index == 0 { paint(POINTER, "hint:") } else { " ".repeat(5) };
                text += &format!("    {head} {line}\n");
            }
        }
    }
    let parts = [("ready", &answer.ready), ("limited", &answer.limited), ("not here", &answer.missing)];
    let last: Vec<String> = parts
        .into_iter()
        .filter(|(_, commands)| !commands.is_empty())
        .map(|(word, commands)| format!("{word}: {}", commands.join(", ")))
        .collect();
    let one_line = last.join("   ");
    text += &if one_line.chars().count() <= WIDTH { one_line } else { last.join("\n") };
    text.push('\n');
    text
}
