//! Real servers in a place of a lab, instead of the lab's own.
//!
//! Invariant: the lab's server stays where it is; what comes for port 53 is led to the real one by rules in the place's own
//! namespace, which go with the value, and so does the process. Where programs lie is told by `NETLAB_DNS_PEERS`, a
//! directory that `cargo xtask dns-peers` makes.

use std::fs::File;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netlab_node::Netns;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::api;

/// Where real servers listen.
pub(super) const PORT: u16 = 5353;
/// How long one may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Names outside that servers of the world are given: those of the lab's world.
const WORLD: [(&str, &str, &str); 2] = [
    ("example.com", "198.51.100.80", "2001:db8:64::80"),
    ("www.example.com", "198.51.100.81", "2001:db8:64::81"),
];
/// One with more addresses than 512 bytes hold.
const LARGE: (&str, u8) = ("large.example.com", 60);

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
    /// `CoreDNS` with this text as its Corefile, in which `API` stands for the address of an API that serves these manifests,
    /// and `NOBODY` for one where nobody listens.
    pub(super) fn coredns(
        netns: &'n Netns,
        to: &[IpAddr],
        directory: &Path,
        corefile: &str,
        manifests: &str,
    ) -> Self {
        let program = peers().expect("where the peers are").join("coredns/coredns");
        let api = netns.run(|| api::serve(manifests)).expect("the namespace").expect("an API");
        let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
        let file = directory.join("Corefile");
        std::fs::write(
            &file,
            corefile.replace("API", &format!("http://{api}")).replace("NOBODY", &format!("http://{nobody}")),
        )
        .expect("written");
        let mut command = Command::new(program);
        command.arg("-conf").arg(file);
        Self::start(netns, to, directory, command)
    }

    /// dnsmasq, which knows the world's names and denies all others.
    pub(super) fn dnsmasq(netns: &'n Netns, to: &[IpAddr], directory: &Path, more: &[&str]) -> Self {
        let mut command = debian("dnsmasq");
        command.args(["-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--user=root", "--log-queries"]);
        command.args(["--log-facility=-", "--pid-file", &format!("--port={PORT}"), "--address=/#/"]);
        command.args(world().map(|(name, address)| format!("--host-record={name},{address}"))).args(more);
        Self::start(netns, to, directory, command)
    }

    /// unbound, with the same names as its own data.
    pub(super) fn unbound(netns: &'n Netns, to: &[IpAddr], directory: &Path, more: &str) -> Self {
        let mut text = format!(
            "server:\n chroot: \"\"\n username: \"\"\n pidfile: \"\"\n directory: {}\n do-daemonize: no\n use-syslog: no\n \
             log-queries: yes\n interface: 127.0.0.1\n port: {PORT}\n access-control: 0.0.0.0/0 allow\n \
             access-control: ::0/0 allow\n module-config: iterator\n num-threads: 1\n local-zone: \".\" static\n{more}",
            directory.display()
        );
        // From a socket of all addresses it would answer from another than was asked.
        text.extend(to.iter().map(|address| format!(" interface: {address}\n")));
        for (name, address) in world() {
            let kind = if address.is_ipv4() { "A" } else { "AAAA" };
            text += &format!(" local-data: \"{name}. 300 IN {kind} {address}\"\n");
        }
        let file = directory.join("unbound.conf");
        std::fs::write(&file, text).expect("written");
        let mut command = debian("unbound");
        command.arg("-d").arg("-c").arg(file);
        Self::start(netns, to, directory, command)
    }

    /// bind9, with the same names in a zone of everything.
    pub(super) fn named(netns: &'n Netns, to: &[IpAddr], directory: &Path, more: &str) -> Self {
        let mut zone =
            "$TTL 300\n. SOA ns. root. 1 7200 1800 86400 300\n. NS ns.\nns. A 198.51.100.1\n".to_owned();
        for (name, address) in world() {
            let kind = if address.is_ipv4() { "A" } else { "AAAA" };
            zone += &format!("{name}. {kind} {address}\n");
        }
        std::fs::write(directory.join("zone"), zone).expect("written");
        let text = format!(
            "options {{ directory \"{}\"; listen-on port {PORT} {{ any; }}; listen-on-v6 port {PORT} {{ any; }}; pid-file none; \
             session-keyfile none; dnssec-validation no; querylog yes; allow-query {{ any; }}; {more} }};\n\
             controls {{ }};\nzone \".\" {{ type primary; file \"zone\"; }};\n",
            directory.display()
        );
        let file = directory.join("named.conf");
        std::fs::write(&file, text).expect("written");
        let mut command = debian("named");
        command.args(["-g", "-n", "1", "-c"]).arg(file);
        Self::start(netns, to, directory, command)
    }

    fn start(netns: &'n Netns, to: &[IpAddr], directory: &Path, mut command: Command) -> Self {
        let log = directory.join("log");
        let file = File::create(&log).expect("a log");
        // dnsmasq has a process for each connection, which keeps the port: all of them end together.
        command.process_group(0);
        command.stdin(Stdio::null()).stderr(file.try_clone().expect("a file")).stdout(file);
        let child = netns.run(|| command.spawn()).expect("the namespace").expect("the server starts");
        let mut peer = Self { netns, child, log };
        let begin = Instant::now();
        let there = || TcpStream::connect(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), PORT)).is_ok();
        // One that ends by itself is a case, too.
        while !netns.run(there).expect("the namespace") && peer.child.try_wait().expect("a child").is_none() {
            assert!(begin.elapsed() < PATIENCE, "{}", peer.told());
            std::thread::sleep(Duration::from_millis(50));
        }
        peer.rules(&lead(to));
        peer
    }

    /// What it has logged.
    pub(super) fn told(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whether it runs still.
    pub(super) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
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
        let group = Pid::from_raw(i32::try_from(self.child.id()).expect("a process number"));
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
        if !std::thread::panicking() {
            self.rules("delete table inet peer");
        }
    }
}

/// Rules that lead what comes for port 53 of these addresses, and of the loopback, to the real server.
fn lead(to: &[IpAddr]) -> String {
    let mut text = "table inet peer {\n chain in { type nat hook prerouting priority dstnat;\n".to_owned();
    for address in to {
        let (family, at) = match address {
            IpAddr::V4(address) => ("ip", address.to_string()),
            IpAddr::V6(address) => ("ip6", format!("[{address}]")),
        };
        for protocol in ["udp", "tcp"] {
            text += &format!("  {family} daddr {address} {protocol} dport 53 dnat {family} to {at}:{PORT}\n");
        }
    }
    text += " }\n chain own { type nat hook output priority -100;\n";
    for protocol in ["udp", "tcp"] {
        text += &format!("  oif lo {protocol} dport 53 redirect to :{PORT}\n");
    }
    text + " }\n}\n"
}

fn world() -> impl Iterator<Item = (&'static str, IpAddr)> {
    let few = WORLD.into_iter().flat_map(|(name, v4, v6)| [(name, v4.to_owned()), (name, v6.to_owned())]);
    let (large, count) = LARGE;
    let many = (1..=count).map(move |number| (large, format!("198.51.100.{}", number + 100)));
    few.chain(many).map(|(name, address)| (name, address.parse().expect("an address")))
}

/// A program of Debian's packages, with the libraries beside it.
fn debian(program: &str) -> Command {
    let place = peers().expect("where the peers are").join("debian");
    let mut command = Command::new(place.join("usr/sbin").join(program));
    let libraries = std::fs::read_dir(place.join("usr/lib")).expect("libraries").flatten();
    let paths: Vec<String> = libraries.map(|entry| entry.path().display().to_string()).collect();
    command.env("LD_LIBRARY_PATH", paths.join(":"));
    command
}
