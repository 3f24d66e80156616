//! `cargo xtask corefiles`: builds the real server and asks it again what it makes of each recorded Corefile.
//!
//! Wants Go, its module proxy and root: the server runs in namespaces of its own, with files of its own, and is killed
//! after a second. No test of the everyday suite needs it; the verdicts are recorded in `dnsdiag/tests/data`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

const MODULE: &str = "github.com/coredns/coredns";
pub(crate) const VERSION: &str = "v1.15.0";
const CASES: &str = "dnsdiag/tests/data/corefiles.txt";

/// What a server finds in its namespaces: an API's address and token, a node's file, a loopback device that is up.
const SCENE: &str = "ip link set lo up && mount -t tmpfs none /run && \
    mkdir -p /run/secrets/kubernetes.io/serviceaccount && \
    echo token > /run/secrets/kubernetes.io/serviceaccount/token && \
    echo 'nameserver 192.0.2.1' > /run/resolv.conf && mount --bind /run/resolv.conf /etc/resolv.conf && \
    cd \"$1\" && exec timeout -s KILL 1 \"$2\" -conf Corefile";

/// Asks.
#[expect(clippy::print_stdout, reason = "the verdict is the product")]
pub(crate) fn run() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    let place = peers(root).join("coredns");
    let server = build(root, &place)?;
    let text = fs::read_to_string(root.join(CASES))?;
    let (mut asked, mut different) = (0, Vec::new());
    for case in text.split("\n== ").skip(1) {
        let (head, corefile) = case.split_once('\n').context("a case has a text")?;
        let (recorded, title) = head.split_once(": ").context("a case has a verdict and a title")?;
        fs::write(place.join("Corefile"), format!("{corefile}\n"))?;
        let output = Command::new("unshare")
            .args(["--net", "--mount", "sh", "-c", SCENE, "sh"])
            .args([&place, &server])
            .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            .env("KUBERNETES_SERVICE_PORT", "6443")
            .output()
            .context("unshare")?;
        // Killed by the timeout, it had started; 125 to 127 are of the shell and of `timeout`.
        let verdict = match output.status.code() {
            None | Some(137) => "starts",
            Some(125..=127) => bail!("{title}: {}", String::from_utf8_lossy(&output.stderr)),
            Some(_) => "refuses",
        };
        asked += 1;
        if verdict != recorded {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            different.push(format!("{title}: recorded {recorded}, now {verdict}\n{said}"));
        }
    }
    if asked == 0 || !different.is_empty() {
        bail!("{} of {asked} verdicts differ\n{}", different.len(), different.join("\n"));
    }
    println!("CoreDNS {VERSION} says of {asked} Corefiles what is recorded");
    Ok(())
}

/// Where programs of others are kept.
pub(crate) fn peers(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("peers")
}

/// Builds the server.
pub(crate) fn build(root: &Path, place: &Path) -> Result<PathBuf> {
    fs::create_dir_all(place)?;
    fs::copy(root.join("xtask/peers/coredns/main.go"), place.join("main.go"))?;
    fs::write(
        place.join("go.mod"),
        format!("module netlab.dev/peers/coredns\n\nrequire {MODULE} {VERSION}\n"),
    )?;
    let server = place.join("coredns");
    for arguments in [&["mod", "tidy"][..], &["build", "-o", "coredns", "."]] {
        let status = Command::new("nice")
            .arg("go")
            .args(arguments)
            .env("GOFLAGS", "-p=1 -mod=mod")
            .current_dir(place)
            .status()
            .context("Go is needed to build the peer")?;
        if !status.success() {
            bail!("`go {}` failed in {}", arguments.join(" "), place.display());
        }
    }
    Ok(server)
}
