//! `cargo xtask peers`: a real kube-proxy's rules, made here and read back.
//!
//! Invariant: everything is built and kept under `target/peers`, from the Go module proxy; rules are written in a network
//! namespace that ends with the process which wrote them. Needs Go, root, nft and iptables; the everyday suite needs none
//! of it, as it reads dumps that are kept. The wrapper around the proxiers is `xtask/peers/kube-proxy`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use nix::sched::{CloneFlags, unshare};

/// Versions whose proxiers the wrapper compiles with; their kept dumps are read by `core/tests/it/service_peers.rs`.
const VERSIONS: [&str; 2] = ["1.34.4", "1.36.3"];
/// What the proxy is told; the kept dumps were made with the same.
const FLAGS: [&str; 8] = [
    "-node",
    "worker",
    "-zone",
    "a",
    "-cluster-cidr",
    "10.244.0.0/16,fd00:10:244::/48",
    "-service-cidrs",
    "10.96.0.0/16,fd00:96::/112",
];
/// The file of a dump without its version, the mode that it is of, and the command that prints it.
const DUMPS: [(&str, &str, &str, &[&str]); 4] = [
    ("iptables-VERSION.save", "iptables", "iptables-save", &[]),
    ("ip6tables-VERSION.save", "iptables", "ip6tables-save", &[]),
    ("nft-ip-VERSION.json", "nftables", "nft", &["-j", "-a", "list", "table", "ip", "kube-proxy"]),
    ("nft-ip6-VERSION.json", "nftables", "nft", &["-j", "-a", "list", "table", "ip6", "kube-proxy"]),
];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Build only.
    #[arg(long)]
    build: bool,
}

#[expect(clippy::print_stdout, reason = "a task tells what it made")]
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let peers = root.join("target/peers");
    let dumps = peers.join("dumps");
    fs::create_dir_all(&dumps)?;
    for version in VERSIONS {
        let program = build(root, &peers, version).with_context(|| format!("kube-proxy {version}"))?;
        println!("built   {}", program.display());
        if !arguments.build {
            for mode in ["iptables", "nftables"] {
                for file in dump(root, &program, &dumps, version, mode)? {
                    println!("dumped  {}", file.display());
                }
            }
        }
    }
    if arguments.build {
        return Ok(());
    }
    let test = Command::new(env!("CARGO"))
        .args(["test", "-p", "netlab-core", "--test", "it", "service_peers"])
        .env("NETLAB_PEERS", &dumps)
        .current_dir(root)
        .status()?;
    ensure!(test.success(), "what a real kube-proxy wrote is not what was predicted");
    Ok(())
}

/// Builds the wrapper with one version's proxiers, unless that was done before.
fn build(root: &Path, peers: &Path, version: &str) -> anyhow::Result<PathBuf> {
    let source = root.join("xtask/peers/kube-proxy/main.go");
    let directory = peers.join(format!("kube-proxy-{version}"));
    let program = directory.join("kube-proxy-peer");
    let is_current =
        || Some(fs::metadata(&program).ok()?.modified().ok()? > fs::metadata(&source).ok()?.modified().ok()?);
    if is_current() == Some(true) {
        return Ok(program);
    }
    fs::create_dir_all(&directory)?;
    fs::copy(&source, directory.join("main.go"))?;
    fs::write(directory.join("go.mod"), module(&directory, version)?)?;
    go(&directory, &["mod", "tidy"])?;
    go(&directory, &["build", "-o", "kube-proxy-peer", "."])?;
    Ok(program)
}

/// A module around k8s.io/kubernetes: what that replaces by directories of its own tree is replaced by the published
/// modules of the same release.
fn module(directory: &Path, version: &str) -> anyhow::Result<String> {
    let asked = format!("k8s.io/kubernetes@v{version}");
    let found = go(directory, &["mod", "download", "-json", &asked])?;
    let found: serde_json::Value = serde_json::from_str(&found)?;
    let path = found["GoMod"].as_str().context("no GoMod in what `go mod download` says")?;
    let theirs = fs::read_to_string(path)?;
    let (_, minor) = version.split_once('.').context("a version of three parts")?;
    let mut module = String::from("module netlab.dev/peers/kube-proxy\n");
    for line in theirs.lines() {
        if line.starts_with("go ") || line.starts_with("godebug ") {
            module += &format!("\n{line}\n");
        } else if let Some((name, _)) = line.trim().split_once(" => ./staging/") {
            let name = name.trim_start_matches("replace ");
            module += &format!("\nreplace {name} => {name} v0.{minor}\n");
        }
    }
    Ok(module + &format!("\nrequire k8s.io/kubernetes v{version}\n"))
}

fn go(directory: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("nice")
        .arg("go")
        .args(arguments)
        .env("GOFLAGS", "-p=1 -mod=mod -buildvcs=false")
        .env("GOWORK", "off")
        .current_dir(directory)
        .stderr(Stdio::inherit())
        .output()
        .context("go cannot be started")?;
    ensure!(output.status.success(), "go {} failed", arguments.join(" "));
    Ok(String::from_utf8(output.stdout)?)
}

/// Lets the proxy write its rules in a fresh namespace, and lists them there.
fn dump(root: &Path, program: &Path, to: &Path, version: &str, mode: &str) -> anyhow::Result<Vec<PathBuf>> {
    let world = root.join("core/tests/kube-proxy/world.yaml");
    let work = || -> anyhow::Result<Vec<PathBuf>> {
        unshare(CloneFlags::CLONE_NEWNET).context("no network namespace can be made")?;
        run_here("ip", &["link", "set", "lo", "up"])?;
        for address in ["192.0.2.11/32", "2001:db8::11/128"] {
            run_here("ip", &["addr", "add", address, "dev", "lo"])?;
        }
        let written = Command::new(program)
            .args(["-mode", mode])
            .args(FLAGS)
            .stdin(fs::File::open(&world)?)
            .stderr(fs::File::create(to.join(format!("{mode}-{version}.log")))?)
            .status()?;
        ensure!(
            written.success(),
            "the proxy of {version} failed in {mode} mode; see its log in {}",
            to.display()
        );
        let mut files = Vec::new();
        for (name, of, command, arguments) in DUMPS {
            // Rules of iptables mode are the same in every version; the tests read one version's.
            if of == mode && (mode == "nftables" || Some(&version) == VERSIONS.last()) {
                let file = to.join(name.replace("VERSION", version));
                fs::write(&file, run_here(command, arguments)?)?;
                files.push(file);
            }
        }
        Ok(files)
    };
    // The namespace is the thread's, and goes with it.
    std::thread::scope(|scope| {
        scope.spawn(work).join().unwrap_or_else(|_| bail!("the thread of the namespace panicked"))
    })
}

fn run_here(command: &str, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = Command::new(command)
        .args(arguments)
        .output()
        .with_context(|| format!("{command} cannot be started"))?;
    ensure!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(output.stdout)
}
