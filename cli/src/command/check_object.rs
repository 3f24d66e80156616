//! `netlab check --object`: whether an object would load here, or on the kernel whose types are given.
//!
//! Invariant: the first line is the answer, and every reason against it is on a line of its own.

use std::collections::BTreeMap;
use std::path::Path;

use netlab_core::envelope::Envelope;
use netlab_ebpf::abi::ABI_VERSION;
use netlab_enforcer::lockstep::{KernelTypes, Lockstep, LockstepError, check};
use netlab_enforcer::object;
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::layout::Rows;
use crate::output::style::{BAD, DENIED, GOOD, STRONG, WARNING, paint};
use crate::output::terminal::Terminal;

/// The running kernel's types.
const RUNNING: &str = "/sys/kernel/btf/vmlinux";

/// The answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    /// The file, or `netlab-tc` for the object inside netlab.
    object: String,
    /// Whether nothing speaks against loading it.
    fits: bool,
    /// Its version of the map layouts; none when it bears none.
    abi: Option<u32>,
    /// This netlab's.
    expected_abi: u32,
    /// How many CO-RE relocations it has.
    relocations: u32,
    /// By program and function.
    programs: BTreeMap<String, u32>,
    /// Those without a target.
    failures: Vec<Missing>,
    /// The types they were tried against.
    btf: String,
    /// The running kernel: name, release, machine.
    uname: String,
}

/// A relocation without a target.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Missing {
    program: String,
    instruction: u32,
    asks: &'static str,
    subject: String,
    why: String,
}

/// Looks and prints. `object` is none for the one inside netlab, `btf` for the running kernel's types.
pub(crate) fn run(object: Option<&Path>, btf: Option<&Path>, terminal: &Terminal) -> Result<Exit, Failure> {
    let read;
    let (name, bytes) = match object {
        None => ("netlab-tc".to_owned(), object::bytes()),
        Some(path) => {
            read = file("--object", path)?;
            (path.display().to_string(), read.as_slice())
        }
    };
    // What was given is read even if nothing needs it: a wrong file is said, not passed over.
    let given = btf.map(|path| types("--btf", path)).transpose()?;
    let kernel = || match given {
        Some(types) => Ok(types),
        None => types("--btf", Path::new(RUNNING)).map_err(Problem::Kernel),
    };
    let found = check(bytes, kernel).map_err(|problem| match problem {
        Problem::Object(error) => {
            Failure::unreadable(format!("`--object {name}` cannot be checked")).because(&error)
        }
        Problem::Kernel(failure) => {
            Failure::new(Exit::CannotTell, "the object needs the kernel's types, and they cannot be read")
                .caused_by(failure.what)
                .hint("give those of the kernel it is meant for: `--btf FILE`")
        }
    })?;
    let answer = Answer::new(name, found, btf.unwrap_or(Path::new(RUNNING)));
    terminal.answer(&Envelope::new("ObjectCheck", &answer, Vec::new()), |_| render(&answer))?;
    Ok(if answer.fits { Exit::Yes } else { Exit::No })
}

enum Problem {
    Object(LockstepError),
    Kernel(Failure),
}

impl From<LockstepError> for Problem {
    fn from(error: LockstepError) -> Self {
        Self::Object(error)
    }
}

fn file(flag: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        Failure::unreadable(format!("`{flag} {}` cannot be read", path.display())).because(&error)
    })
}

fn types(flag: &str, path: &Path) -> Result<KernelTypes, Failure> {
    KernelTypes::parse(&file(flag, path)?).map_err(|error| {
        Failure::unreadable(format!("`{flag} {}` holds no kernel's types", path.display()))
            .because(&error)
            .hint(format!("give BTF as {RUNNING} has it, or an ELF file with a .BTF section"))
    })
}

impl Answer {
    fn new(object: String, found: Lockstep, btf: &Path) -> Self {
        let relocations = found.relocations();
        let Lockstep { abi, programs, failures } = found;
        let failures: Vec<Missing> = failures
            .into_iter()
            .map(|failure| Missing {
                program: failure.program,
                instruction: failure.instruction,
                asks: failure.asks,
                subject: failure.subject,
                why: failure.why,
            })
            .collect();
        Self {
            object,
            fits: failures.is_empty() && abi.is_none_or(|abi| abi == ABI_VERSION),
            abi,
            expected_abi: ABI_VERSION,
            relocations,
            programs,
            failures,
            btf: btf.display().to_string(),
            uname: uname(),
        }
    }
}

fn uname() -> String {
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        text.trim().to_owned()
    };
    [read("ostype"), read("osrelease"), std::env::consts::ARCH.to_owned()].join(" ")
}

fn render(answer: &Answer) -> String {
    let Answer { object, abi, expected_abi, relocations, failures, btf, uname, .. } = answer;
    let head = match (failures.len(), answer.fits) {
        (_, true) => format!("{}  {}", paint(GOOD, "FITS"), paint(STRONG, object)),
        (0, false) => format!("{}  {}: another map layout", paint(BAD, "MISMATCH"), paint(STRONG, object)),
        (lost, false) => {
            let of = format!("{lost} of {relocations} CO-RE relocations without a target");
            format!("{}  {}: {of}", paint(BAD, "MISMATCH"), paint(STRONG, object))
        }
    };
    let mut rows = Rows::new(9, 5);
    match abi {
        Some(abi) if abi == expected_abi => rows.row("layout", (GOOD, "same"), &format!("ABI {abi}")),
        Some(abi) => {
            rows.row("layout", (DENIED, "other"), &format!("ABI {abi}, but this netlab uses {expected_abi}"));
        }
        None => rows.row("layout", (WARNING, "-"), "it bears no ABI version: it is not netlab's"),
    }
    let what = if *relocations == 0 {
        "no CO-RE relocations: no kernel lockstep".to_owned()
    } else {
        format!("CO-RE relocations, tried against {btf}")
    };
    rows.row("kernel", (if failures.is_empty() { GOOD } else { DENIED }, &relocations.to_string()), &what);
    for (program, relocations) in answer.programs.iter().filter(|(_, relocations)| **relocations > 0) {
        let lost = failures.iter().filter(|missing| missing.program == **program).count();
        rows.row("", (GOOD, &relocations.to_string()), &format!("in {program}, {lost} without a target"));
    }
    for missing in failures {
        let Missing { program, instruction, asks, subject, why } = missing;
        let text = format!("{subject} ({asks}), {program} instruction {instruction}: {why}");
        rows.row("missing", (DENIED, ""), &text);
    }
    rows.plain("uname", uname);
    format!("{head}\n\n{}", rows.finish())
}
