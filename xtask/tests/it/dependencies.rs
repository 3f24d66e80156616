//! Who may depend on whom.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

use crate::tree::{files, none, root};

/// Packages of the workspace that each may use: the arrows of `ARCHITECTURE.md`.
const ARROWS: &[(&str, &[&str])] = &[
    ("netlab-ebpf", &[]),
    ("netlab-core", &["netlab-ebpf"]),
    ("netlab-node", &["netlab-core"]),
    ("netlab-plugin", &["netlab-core", "netlab-ebpf"]),
    ("netlab-lab", &["netlab-core", "netlab-node"]),
    ("netlab-dnsdiag", &["netlab-core", "netlab-node", "netlab-plugin"]),
    ("netlab-enforcer", &["netlab-core", "netlab-ebpf", "netlab-lab", "netlab-node", "netlab-plugin"]),
    (
        "netlab",
        &[
            "netlab-core",
            "netlab-dnsdiag",
            "netlab-ebpf",
            "netlab-enforcer",
            "netlab-lab",
            "netlab-node",
            "netlab-plugin",
        ],
    ),
    ("xtask", &["netlab-core", "netlab-ebpf", "netlab-enforcer", "netlab-lab", "netlab-node"]),
];

/// Crates from outside that only these packages may use, for shipped code and for tests.
const RESERVED: &[(&str, &[&str])] = &[
    ("anyhow", &["netlab", "xtask"]),
    ("aya", &["netlab-enforcer"]),
    ("aya-ebpf", &["netlab-ebpf"]),
    ("aya-obj", &["netlab-enforcer"]),
    ("clap", &["netlab", "xtask"]),
    ("clap_complete", &["netlab", "xtask"]),
    ("hickory-proto", &["netlab-dnsdiag", "netlab-lab"]),
    ("k8s-openapi", &[]),
    ("kube", &[]),
    ("libloading", &[]),
    ("granit-parser", &["netlab-core"]),
    ("serde-saphyr", &["netlab-core"]),
    ("tokio", &[]),
];

/// Crates that reach the operating system: never in the pure packages.
const IMPURE: &[&str] = &["libc", "nix", "netlink-sys", "rustix", "socket2", "tempfile"];
const PURE: &[&str] = &["netlab-ebpf", "netlab-core", "netlab-plugin"];

fn packages() -> Vec<Package> {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata describes the workspace");
    metadata.packages
}

#[test]
fn the_arrows_of_the_architecture_hold() {
    let mut offenders = Vec::new();
    for package in packages() {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name.as_str()) else {
            offenders.push(format!("{}: not in the list of arrows", package.name));
            continue;
        };
        let used: BTreeSet<&str> = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind == DependencyKind::Normal && dependency.path.is_some())
            .map(|dependency| dependency.name.as_str())
            .collect();
        offenders.extend(
            used.iter()
                .filter(|name| !allowed.contains(name))
                .map(|name| format!("{} uses {name}", package.name)),
        );
    }
    none("a package may use only what its arrow points to", &offenders);
}

#[test]
fn reserved_crates_stay_where_they_belong() {
    let mut offenders = Vec::new();
    for package in packages() {
        for dependency in &package.dependencies {
            let reserved = RESERVED.iter().find(|(name, _)| *name == dependency.name);
            if reserved.is_some_and(|(_, owners)| !owners.contains(&package.name.as_str())) {
                offenders.push(format!("{} uses {}", package.name, dependency.name));
            }
            if PURE.contains(&package.name.as_str())
                && IMPURE.contains(&dependency.name.as_str())
                && dependency.kind == DependencyKind::Normal
            {
                offenders.push(format!("{} is pure and uses {}", package.name, dependency.name));
            }
        }
    }
    none("some crates are for some packages only", &offenders);
}

#[test]
fn the_bottom_depends_on_nothing_on_the_host() {
    let packages = packages();
    let bottom = packages.iter().find(|package| package.name.as_str() == "netlab-ebpf").expect("netlab-ebpf");
    let offenders: Vec<String> = bottom
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == DependencyKind::Normal)
        .filter(|dependency| {
            dependency
                .target
                .as_ref()
                .is_none_or(|target| !target.to_string().contains("target_arch = \"bpf\""))
        })
        .map(|dependency| dependency.name.clone())
        .collect();
    none("netlab-ebpf has no dependency but for the BPF target", &offenders);
}

#[test]
fn every_package_takes_its_facts_from_the_workspace() {
    let mut offenders = Vec::new();
    for (path, text) in files(&["toml"]) {
        if !path.ends_with("Cargo.toml") || path == "Cargo.toml" {
            continue;
        }
        for needed in
            ["[lints]\nworkspace = true", "version.workspace", "license.workspace", "rust-version.workspace"]
        {
            if !text.contains(needed) {
                offenders.push(format!("{path}: no `{}`", needed.replace('\n', " ")));
            }
        }
        if !text.contains("description = ") {
            offenders.push(format!("{path}: no description"));
        }
    }
    none("lints, version, licence and Rust version are set once", &offenders);
}

#[test]
fn every_locked_crate_comes_from_the_public_index() {
    let offenders: Vec<String> = files(&["lock"])
        .iter()
        .flat_map(|(path, text)| {
            crate::tree::lines(path, text, |line| {
                line.starts_with("source = ")
                    && line != "source = \"registry+https://github.com/rust-lang/crates.io-index\""
            })
        })
        .collect();
    none("Cargo.lock names only crates.io", &offenders);
}
