//! The oracle stands alone: a mistake it shared with the compiler would be a mistake nobody sees.

use std::path::{Path, PathBuf};

/// Where paths may begin. `crate` only as far as [`ALLOWED_IN_CRATE`].
const ALLOWED_ROOTS: [&str; 5] = ["std", "serde_json", "crate", "super", "self"];

/// What the oracle may see of the crate.
const ALLOWED_IN_CRATE: [&str; 2] = ["crate::input::wire::", "crate::input::WireObjects"];

fn sources() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/policy/oracle");
    let entries = std::fs::read_dir(&folder).expect("the oracle's folder is there");
    let paths = entries.map(|entry| entry.expect("its entries can be listed").path());
    paths.map(|path| (path.clone(), std::fs::read_to_string(path).expect("a source file"))).collect()
}

/// Every path in the code (`a::b::c`, `a::b::` before a group), without comments and strings.
fn paths_in(source: &str) -> Vec<String> {
    let code: String = source
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .map(|line| line.split('"').step_by(2).collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n")
        .replace("::<", " <");
    let is_part = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    let words = code.split(|character: char| !is_part(character));
    words.filter(|word| word.contains("::")).map(str::to_owned).collect()
}

#[test]
fn it_imports_nothing_but_std_and_the_wire_structs() {
    let sources = sources();
    assert!(sources.len() > 3, "the oracle's files were found");
    let modules: Vec<_> = sources.iter().filter_map(|(path, _)| path.file_stem()?.to_str()).collect();
    let mut wrong = Vec::new();
    for (file, source) in &sources {
        for path in paths_in(source) {
            let root = path.split("::").next().unwrap_or_default();
            let is_type = root.starts_with(char::is_uppercase) || ["i64", "str"].contains(&root);
            let allowed = is_type || ALLOWED_ROOTS.contains(&root) || modules.contains(&root);
            let outside = root == "crate" && !ALLOWED_IN_CRATE.iter().any(|prefix| path.starts_with(prefix));
            let upwards = path.starts_with("super::super") || (file.ends_with("mod.rs") && root == "super");
            if !allowed || outside || upwards {
                wrong.push(format!("{}: {path}", file.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_check_sees_what_it_forbids() {
    let seen = paths_in(
        "use crate::model::port::PortRange; // crate::commented\nuse crate::{a};\nlet x = ipnet::IpNet::new(\"a::b\");",
    );
    assert_eq!(seen, ["crate::model::port::PortRange", "crate::", "ipnet::IpNet::new"]);
}
