//! `cargo xtask dns-peers`: real DNS servers, and the tests that compare with them.
//!
//! CoreDNS is built of the Go module proxy's source; dnsmasq, unbound and bind9 are Debian's packages, unpacked and never
//! installed, so no service of this machine is started. Invariant: all of it lies in `target/peers`; whatever runs does so
//! in namespaces that end with the tests. Wants Go, cc, musl-gcc, apt-get, dpkg and root; no everyday test needs a peer.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::corefiles;

/// What is compared, and the libraries that a small installation lacks.
const PACKAGES: [&str; 10] = [
    "dnsmasq-base",
    "unbound",
    "bind9",
    "bind9-libs",
    "dns-root-data",
    "libprotobuf-c1",
    "libjemalloc2",
    "liblmdb0",
    "libmaxminddb0",
    "libfstrm0",
];
const PROGRAMS: [&str; 3] = ["dnsmasq", "unbound", "named"];
/// The tests, by package and name.
const TESTS: [(&str, &str); 2] = [("netlab-dnsdiag", "clients_of_real_servers"), ("netlab", "dns_peers")];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Fetch and build only.
    #[arg(long)]
    build: bool,
    /// Write what real servers say into the recorded files instead of comparing with them.
    #[arg(long)]
    bless: bool,
}

#[expect(clippy::print_stdout, reason = "a task tells what it compared with")]
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let peers = corefiles::peers(root);
    corefiles::build(root, &peers.join("coredns"))?;
    println!("coredns {}", corefiles::VERSION);
    for package in debian(&peers.join("debian"))? {
        println!("{package}");
    }
    if arguments.build {
        return Ok(());
    }
    for (package, test) in TESTS {
        let mut command = Command::new(env!("CARGO"));
        command.args(["test", "-p", package, "--test", "it", test, "--", "--nocapture"]);
        command.env("NETLAB_DNS_PEERS", &peers).env("NETLAB_TEST_GO", "1").current_dir(root);
        if arguments.bless {
            command.env("NETLAB_BLESS", "1");
        }
        ensure!(command.status()?.success(), "`{test}` of {package} does not agree with real servers");
    }
    Ok(())
}

/// Unpacks the packages, unless that was done; their versions.
fn debian(place: &Path) -> anyhow::Result<Vec<String>> {
    let archives = place.join("debs");
    fs::create_dir_all(&archives)?;
    let programs = PROGRAMS.map(|program| place.join("usr/sbin").join(program));
    if !programs.iter().all(|program| program.exists()) {
        let fetched = Command::new("apt-get").arg("download").args(PACKAGES).current_dir(&archives).status();
        ensure!(
            fetched.context("apt-get")?.success(),
            "apt-get cannot download; is its list of packages there?"
        );
        for archive in files(&archives)? {
            let unpacked = Command::new("dpkg").arg("-x").arg(&archive).arg(place).status();
            ensure!(unpacked.context("dpkg")?.success(), "{} cannot be unpacked", archive.display());
        }
    }
    for program in &programs {
        let libraries =
            Command::new("ldd").arg(program).env("LD_LIBRARY_PATH", libraries(place)?).output()?;
        let text = String::from_utf8_lossy(&libraries.stdout).into_owned();
        let missing: Vec<&str> =
            text.lines().filter(|line| line.contains("not found")).map(str::trim).collect();
        if !missing.is_empty() {
            bail!("{} lacks {}: install Debian's packages of them", program.display(), missing.join(", "));
        }
    }
    let names = files(&archives)?
        .into_iter()
        .filter_map(|path| Some(path.file_stem()?.to_str()?.replace("%3a", ":")));
    Ok(names.filter(|name| !name.starts_with("lib")).collect())
}

fn files(directory: &Path) -> anyhow::Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        found.push(entry?.path());
    }
    found.sort();
    Ok(found)
}

/// The directory of the libraries, which Debian calls after the machine.
fn libraries(place: &Path) -> anyhow::Result<std::path::PathBuf> {
    let found = files(&place.join("usr/lib"))?;
    let triplet = found.into_iter().find(|path| path.to_string_lossy().ends_with("-linux-gnu"));
    triplet.context("no libraries were unpacked")
}
