//! `netlab check`: the machine, and objects against a kernel's types.

use serde_json::Value;

use crate::run::{netlab, shell};

const DRILL: &str = "enforcer/tests/data/drill.o";

fn json(line: &str) -> (Option<i32>, Value) {
    let run = shell(&format!("{line} -o json"));
    let value = serde_json::from_str(&run.stdout);
    (run.code, value.unwrap_or_else(|error| panic!("`{line}`: {error}: {}{}", run.stdout, run.stderr)))
}

/// The table and the JSON say the same of this machine.
#[test]
fn the_table_and_the_document_say_the_same() {
    let (code, document) = json("netlab check");
    let table = shell("netlab check");
    assert_eq!(code, table.code);
    assert_eq!(document["proves"], code == Some(0));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let all = words(&table.stdout);
    for item in document["items"].as_array().expect("items") {
        let line = format!("{} {}", item["id"].as_str().expect("id"), item["text"].as_str().expect("text"));
        assert!(all.contains(&words(&line)), "{line} is not in {all}");
    }
    for list in ["ready", "limited", "missing"] {
        for command in document[list].as_array().expect("a list") {
            assert!(all.contains(command.as_str().expect("text")), "{command}");
        }
    }
}

#[test]
fn the_object_inside_fits_every_kernel() {
    let run = netlab(["check", "--object"].map(str::to_owned));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.starts_with("FITS  netlab-tc\n"), "{}", run.stdout);
    let (code, answer) = json("netlab check --object");
    assert_eq!((code, &answer["kind"], &answer["relocations"]), (Some(0), &"ObjectCheck".into(), &0.into()));
    assert_eq!(answer["abi"], answer["expectedAbi"]);
    let (_, file) = json("netlab check --object enforcer/bpf/netlab-tc.o");
    assert_eq!(file["programs"], answer["programs"]);
    let programs: Vec<&String> = file["programs"].as_object().expect("programs").keys().collect();
    assert_eq!(programs, ["from_pod", "to_pod", "to_wire"], "what they call is none");
}

/// The drill of the mismatched kernel: the same types, but for the name of one member.
#[test]
fn the_drill_of_the_mismatched_types_names_the_member() {
    let directory = tempfile::tempdir().expect("a directory");
    let other = directory.path().join("other.btf");
    let bytes = std::fs::read(format!("{}/../{DRILL}", env!("CARGO_MANIFEST_DIR"))).expect("the drill");
    let place = bytes.windows(11).position(|part| part == b"start_time\0").expect("its member");
    let mut changed = bytes;
    changed[place..place + 5].copy_from_slice(b"begin");
    std::fs::write(&other, changed).expect("written");

    assert_eq!(shell(&format!("netlab check --object {DRILL} --btf {DRILL}")).code, Some(0));
    let line = format!("netlab check --object {DRILL} --btf {}", other.display());
    let run = shell(&line);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let head = format!("MISMATCH  {DRILL}: 1 of 2 CO-RE relocations without a target");
    assert_eq!(run.stdout.lines().next(), Some(head.as_str()));
    let words = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("struct task_struct has no member start_time"), "{words}");
    let (code, answer) = json(&line);
    assert_eq!((code, &answer["fits"]), (Some(1), &false.into()));
    let failure = &answer["failures"][0];
    assert_eq!(failure["subject"], "struct task_struct.start_time");
    assert_eq!((&failure["program"], &answer["programs"]["look"]), (&"look".into(), &2.into()));
}

/// An object of another layout is told by its version.
#[test]
fn an_object_of_another_layout_does_not_fit() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("old.o");
    let mut bytes = netlab_enforcer::object::bytes().to_vec();
    let version = netlab_ebpf::abi::ABI_VERSION;
    // The constants are the one place where the version stands beside the kernel's ticks.
    let ticks = ((1_u64 << 32) / 250).to_le_bytes();
    let constants = bytes.windows(8).position(|part| part == ticks).expect("the constants");
    let near = constants.saturating_sub(32)..constants + 40;
    let abi = near.step_by(4).find(|at| bytes[*at..*at + 4] == version.to_le_bytes()).expect("the version");
    bytes[abi..abi + 4].copy_from_slice(&(version + 41).to_le_bytes());
    std::fs::write(&path, bytes).expect("written");
    let (code, answer) = json(&format!("netlab check --object {}", path.display()));
    assert_eq!((code, &answer["abi"], &answer["fits"]), (Some(1), &(version + 41).into(), &false.into()));
}

#[test]
fn what_cannot_be_understood_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let garbage = directory.path().join("garbage");
    std::fs::write(&garbage, "apiVersion: v1\n").expect("written");
    let garbage = garbage.display();
    for line in [
        format!("netlab check --object {garbage}"),
        format!("netlab check --object {DRILL} --btf {garbage}"),
        format!("netlab check --object --btf {garbage}"),
        format!("netlab check --object {garbage}.nosuch"),
        format!("netlab check --btf {DRILL}"),
    ] {
        let run = shell(&line);
        assert_eq!(run.code, Some(2), "`{line}`: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.starts_with("error: "), "`{line}`: {}", run.stderr);
    }
}
