//! `cargo xtask bpf`: builds the BPF object with pinned tools, and checks that the committed one is what the
//! sources give.
//!
//! Invariant: the committed object is never made by anything else, and its record says from which sources. What
//! a build may differ in between two directories (the order of debug types, strings) is left out of the
//! comparison; code, relocations, maps, data and the content of the type information are in it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use object::build::elf::{Builder, SectionData};
use sha2::{Digest, Sha256};

mod content;

/// The compiler of record. Another one makes other code, which is no fault of the sources.
const RUSTC: &str = "rustc 1.95.0";
/// The linker of record: it uses the compiler's own LLVM.
const LINKER: &str = "bpf-linker 0.10.4";
const TARGET: &str = "bpfel-unknown-none";

/// What to do with the object.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Build, compare with the committed object, write nothing; fails on a difference.
    #[arg(long)]
    check: bool,
    /// Build even with another compiler or linker than the ones of record.
    #[arg(long)]
    any_tools: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = root();
    let tools = tools(arguments.any_tools)?;
    let built = strip(&build(&root)?)?;
    let content = content::describe(&built)?;
    let record = Record {
        object: hash(&built),
        content: hash(content.as_bytes()),
        sources: hash_sources(&root)?,
        tools,
    };
    let (object_path, record_path) = (root.join(OBJECT), root.join(RECORD));
    if !arguments.check {
        fs::create_dir_all(object_path.parent().context("the object has a directory")?)?;
        fs::write(&object_path, &built)?;
        fs::write(&record_path, record.to_string())?;
        say(&format!("wrote {OBJECT}: {} bytes, content {}", built.len(), record.content));
        return Ok(());
    }
    let committed = fs::read(&object_path)
        .with_context(|| format!("{OBJECT} is not there: run `cargo xtask bpf` and commit it"))?;
    let committed_record = fs::read_to_string(&record_path)?;
    ensure!(
        field(&committed_record, "object") == Some(&hash(&committed)),
        "{RECORD} is not the record of {OBJECT}: run `cargo xtask bpf` and commit both"
    );
    let committed_content = content::describe(&committed)?;
    if committed_content != content {
        bail!(
            "{OBJECT} is not what the sources give: run `cargo xtask bpf` and commit it\n{}",
            differences(&committed_content, &content)
        );
    }
    ensure!(
        field(&committed_record, "sources") == Some(&record.sources),
        "{RECORD} was made from other sources, though they give the same object: run `cargo xtask bpf`"
    );
    say(&format!("{OBJECT} is what the sources give (content {})", record.content));
    Ok(())
}

const OBJECT: &str = "enforcer/bpf/netlab-tc.o";
const RECORD: &str = "enforcer/bpf/netlab-tc.o.sha256";

/// What is written beside the object: `name value` lines.
struct Record {
    object: String,
    content: String,
    sources: String,
    tools: String,
}

impl std::fmt::Display for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { object, content, sources, tools } = self;
        write!(f, "object {object}\ncontent {content}\nsources {sources}\ntools {tools}\n")
    }
}

fn field<'a>(record: &'a str, name: &str) -> Option<&'a str> {
    record.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_owned)
}

#[expect(clippy::print_stdout, reason = "a developer's task talks to a developer")]
fn say(line: &str) {
    println!("{line}");
}

/// The versions of the tools, which must be those of record.
fn tools(any: bool) -> anyhow::Result<String> {
    let mut found = Vec::new();
    for (program, wanted, hint) in [
        ("rustc", RUSTC, "rustup toolchain install 1.95.0 --component rust-src"),
        ("bpf-linker", LINKER, "cargo install --locked bpf-linker@0.10.4"),
    ] {
        let output = Command::new(program)
            .arg("--version")
            .output()
            .with_context(|| format!("{program} cannot be run; install it with: {hint}"))?;
        let version = String::from_utf8(output.stdout)?.trim().to_owned();
        ensure!(
            any || version.starts_with(wanted),
            "the object is built with {wanted}, but this is {version}; install it with: {hint}"
        );
        found.push(version);
    }
    Ok(found.join(", "))
}

/// Runs cargo and returns the linked object, DWARF and all.
fn build(root: &Path) -> anyhow::Result<Vec<u8>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target_directory = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root.join(directory),
        None => root.join("target"),
    }
    .join("bpf");
    let sysroot = String::from_utf8(Command::new("rustc").args(["--print", "sysroot"]).output()?.stdout)?;
    let cargo_home = match std::env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => std::env::home_dir().context("no home directory for cargo's")?.join(".cargo"),
    };
    let flags = [
        // Type information and line numbers come from debug information.
        "-Cdebuginfo=2".to_owned(),
        "-Clink-arg=--btf".to_owned(),
        // Kernel 5.1 and later know these instructions; the tcx hooks need 6.6 anyhow.
        "-Ctarget-cpu=v3".to_owned(),
        // Copies and clears as stores in place, never as calls.
        "-Clink-arg=--disable-expand-memcpy-in-order".to_owned(),
        "-Clink-arg=--disable-memory-builtins".to_owned(),
        format!("--remap-path-prefix={}=/netlab", root.display()),
        format!("--remap-path-prefix={}=/rust", sysroot.trim()),
        format!("--remap-path-prefix={}=/cargo", cargo_home.display()),
    ];
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--release", "--locked", "--package", "netlab-ebpf", "--bin", "netlab-tc"])
        .args(["-Zbuild-std=core", "--target", TARGET])
        // Building the core library is not a stable feature; this lets the stable compiler do it.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .env("CARGO_TARGET_DIR", &target_directory)
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_STRIP", "none")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "false")
        .status()
        .context("cargo cannot be run")?;
    ensure!(
        status.success(),
        "the BPF build failed; if the core library was not found: rustup component add rust-src"
    );
    let path = target_directory.join(TARGET).join("release/netlab-tc");
    fs::read(&path).with_context(|| format!("no object at {}", path.display()))
}

/// Drops DWARF, and the relocations of type information, which no loader applies.
fn strip(object: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut builder = Builder::read(object).context("the linker's output is no ELF file")?;
    for section in &mut builder.sections {
        let name = section.name.to_string();
        section.delete = name.starts_with(".debug_")
            || name.starts_with(".rel.debug_")
            || name.starts_with(".rel.BTF")
            || name == ".llvm_addrsig";
        if let SectionData::Relocation(relocations) = &section.data {
            ensure!(section.delete || !relocations.is_empty(), "empty relocations in {name}");
        }
    }
    builder.delete_orphans();
    builder.delete_orphan_symbols();
    // The linker keeps the names of sections and of symbols in one table; the writer wants one of each.
    for (name, data) in [(".shstrtab", SectionData::SectionString), (".strtab", SectionData::String)] {
        let same = |other: &SectionData<'_>| std::mem::discriminant(other) == std::mem::discriminant(&data);
        if !builder.sections.iter().any(|section| same(&section.data)) {
            let section = builder.sections.add();
            section.name = name.into();
            section.sh_type = object::elf::SHT_STRTAB;
            section.sh_addralign = 1;
            section.data = data;
        }
    }
    builder.set_section_sizes();
    let mut bytes = Vec::new();
    builder.write(&mut bytes).context("the stripped object cannot be written")?;
    Ok(bytes)
}

/// One hash over the paths and bytes of everything in this repository that the object is built from.
fn hash_sources(root: &Path) -> anyhow::Result<String> {
    let mut files = BTreeMap::new();
    let mut directories = vec![root.join("ebpf")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                if path.file_name().is_none_or(|name| name != "tests") {
                    directories.push(path);
                }
            } else {
                let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
                files.insert(name, fs::read(&path)?);
            }
        }
    }
    let mut hasher = Sha256::new();
    for (name, bytes) in files {
        hasher.update(format!("{name} {}\n", bytes.len()));
        hasher.update(bytes);
    }
    Ok(hexadecimal(&hasher.finalize()))
}

fn hash(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The first lines that only one of two descriptions has.
fn differences(committed: &str, built: &str) -> String {
    const SHOWN: usize = 20;
    let count = |text: &str| {
        let mut lines = BTreeMap::new();
        for line in text.lines() {
            *lines.entry(line.to_owned()).or_insert(0_usize) += 1;
        }
        lines
    };
    let (committed, built) = (count(committed), count(built));
    let mut lines = Vec::new();
    for (sign, ours, theirs) in [('-', &committed, &built), ('+', &built, &committed)] {
        for (line, number) in ours {
            if theirs.get(line).copied().unwrap_or_default() < *number {
                lines.push(format!("{sign} {line}"));
            }
        }
    }
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    if more > 0 {
        lines.push(format!("… and {more} more lines"));
    }
    format!("(- committed, + built)\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_object_was_built_from_the_present_sources() {
        let record = fs::read_to_string(root().join(RECORD)).expect("the record is committed");
        assert_eq!(
            field(&record, "sources"),
            Some(hash_sources(&root()).expect("the sources can be read").as_str()),
            "ebpf/ has changed since the object was built: run `cargo xtask bpf` and commit the result"
        );
    }

    #[test]
    fn the_record_is_that_of_the_committed_object() {
        let record = fs::read_to_string(root().join(RECORD)).expect("the record is committed");
        let object = fs::read(root().join(OBJECT)).expect("the object is committed");
        assert_eq!(field(&record, "object"), Some(hash(&object).as_str()));
        let content = content::describe(&object).expect("the object can be read");
        assert_eq!(field(&record, "content"), Some(hash(content.as_bytes()).as_str()));
    }

    #[test]
    fn differences_name_what_only_one_side_has() {
        let text = differences("a\nb\nb\n", "a\nb\nc\n");
        assert_eq!(text, "(- committed, + built)\n- b\n+ c");
    }
}
