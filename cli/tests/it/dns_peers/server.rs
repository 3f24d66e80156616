//! Real servers in a pod of a lab, in the place of the lab's own.
//!
//! Invariant: the lab's server stays where it is; what comes for port 53 is led to the real one by rules in the pod's own
//! namespace, which go with the value, and so does the process. Where programs lie is told by `NETLAB_DNS_PEERS`, a
//! directory that `cargo xtask dns-peers` makes.

use std::fs::File;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netlab_node::Netns;

use super::api;

/// Where real servers listen.
pub(super) const PORT: u16 = 5353;
/// How long one may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

const LEAD: &str = "
table inet peer {
  chain in { type nat hook prerouting priority dstnat; udp dport 53 redirect to :5353; tcp dport 53 redirect to :5353; }
  chain own { type nat hook output priority -100; oif lo udp dport 53 redirect to :5353; oif lo tcp dport 53 redirect to :5353; }
}";

/// The directory of the programs, if there is one.
pub(super) fn peers() -> Option<PathBuf> {
    std::env::var_os("NETLAB_DNS_PEERS").map(PathBuf::from)
}

/// A real server that runs.
pub(super) struct Peer<'n> {
    netns: &'n Netns,
    child: Child,
    pub(super) log: PathBuf,
}

impl<'n> Peer<'n> {
    /// `CoreDNS` with this text as its Corefile, in which `API` stands for the address of an API that serves these manifests.
    pub(super) fn coredns(netns: &'n Netns, directory: &Path, corefile: &str, manifests: &str) -> Self {
        let program = peers().expect("where the peers are").join("coredns/coredns");
        let api = netns.run(|| api::serve(manifests)).expect("the namespace").expect("an API");
        let file = directory.join("Corefile");
        std::fs::write(&file, corefile.replace("API", &format!("http://{api}"))).expect("written");
        let mut command = Command::new(program);
        command.arg("-conf").arg(file);
        Self::start(netns, directory, command)
    }

    fn start(netns: &'n Netns, directory: &Path, mut command: Command) -> Self {
        let log = directory.join("log");
        let file = File::create(&log).expect("a log");
        command.stdin(Stdio::null()).stderr(file.try_clone().expect("a file")).stdout(file);
        let child = netns.run(|| command.spawn()).expect("the namespace").expect("the server starts");
        let mut peer = Self { netns, child, log };
        let begin = Instant::now();
        let there = || TcpStream::connect(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), PORT)).is_ok();
        while !netns.run(there).expect("the namespace") {
            let ended = peer.child.try_wait().expect("a child");
            assert!(ended.is_none() && begin.elapsed() < PATIENCE, "{ended:?}: {}", peer.told());
            std::thread::sleep(Duration::from_millis(50));
        }
        peer.rules(LEAD);
        peer
    }

    /// What it has logged.
    pub(super) fn told(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn rules(&self, text: &str) {
        let apply = || {
            let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn()?;
            nft.stdin.take().expect("a pipe").write_all(text.as_bytes())?;
            nft.wait()
        };
        let status = self.netns.run(apply).expect("the namespace").expect("nft runs");
        assert!(status.success(), "{text}");
    }
}

impl Drop for Peer<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            self.rules("delete table inet peer");
        }
    }
}
