//! Real servers with one small world of names: CoreDNS, dnsmasq, unbound and bind9.
//!
//! Invariant: all have the same names, so what they say differs only in how they say it; [`Kind::script`] has what is
//! expected of each. Where programs lie is told by `NETLAB_DNS_PEERS`, which `cargo xtask dns-peers` sets. They listen on
//! the loopback of the namespace of the thread that starts them, and end with the value.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netlab_dnsdiag::resolver::Libc;
use netlab_dnsdiag::version::Version;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Where they listen.
pub(crate) const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5353);
/// Where clients ask.
pub(crate) const NAMESERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53));
/// How long one may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

const ADDRESSES: [(&str, &str); 6] = [
    ("example.com", "198.51.100.80"),
    ("example.com", "2001:db8:64::80"),
    ("www.example.com", "198.51.100.81"),
    ("www.example.com", "2001:db8:64::81"),
    ("v4.example.com", "198.51.100.84"),
    ("deep.below.example.com", "198.51.100.85"),
];
/// With more addresses than 512 bytes hold, and than Go's 1232.
const MANY: [(&str, u8); 2] = [("large.example.com", 60), ("huge.example.com", 90)];
const ALIASES: [(&str, &str); 3] = [
    ("alias.example.com", "example.com"),
    ("v4alias.example.com", "v4.example.com"),
    ("dangling.example.com", "nobody.example.com"),
];

/// The directory of the programs, if there is one.
pub(crate) fn directory() -> Option<PathBuf> {
    std::env::var_os("NETLAB_DNS_PEERS").map(PathBuf::from)
}

/// Addresses of a name, behind its alias.
pub(crate) fn addresses(name: &str) -> Vec<IpAddr> {
    let name = name.trim_end_matches('.');
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, target)| target);
    world().filter(|(known, _)| *known == name).map(|(_, address)| address).collect()
}

fn world() -> impl Iterator<Item = (&'static str, IpAddr)> {
    let few = ADDRESSES.into_iter().map(|(name, address)| (name, address.parse().expect("an address")));
    let many = MANY.into_iter().flat_map(|(name, count)| {
        (1..=count).map(move |number| (name, IpAddr::from([198, 51, 100, number + 100])))
    });
    few.chain(many)
}

/// Whose server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Coredns,
    Dnsmasq,
    Unbound,
    Named,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::Coredns, Kind::Dnsmasq, Kind::Unbound, Kind::Named];

impl Kind {
    /// What it is expected to say, as `dns plan` reads it; NXDOMAIN where nothing is said.
    pub(crate) fn script(self, libc: Libc) -> Value {
        let go = matches!(libc, Libc::Go(_));
        // Before 1.2.4 musl took a truncated answer as it was.
        let takes_part = matches!(libc, Libc::Musl(version) if version < Version::new(1, 2, 4));
        let cut = if takes_part && self.cuts_in_part() { "ok" } else { "tc" };
        let rows = [
            ("example.com", "*", "ok"),
            ("www.example.com", "*", "ok"),
            ("alias.example.com", "*", "ok"),
            ("v4.example.com", "A", "ok"),
            ("v4.example.com", "AAAA", "nodata"),
            ("v4alias.example.com", "A", "ok"),
            ("v4alias.example.com", "AAAA", "nodata"),
            ("below.example.com", "*", "nodata"),
            // Go offers 1232 bytes, the others none.
            ("large.example.com", "A", if go { "ok" } else { cut }),
            ("large.example.com", "AAAA", "nodata"),
            ("huge.example.com", "A", cut),
            ("huge.example.com", "AAAA", "nodata"),
            ("www.servfail.test", "*", "servfail"),
            ("www.refused.test", "*", "refused"),
        ];
        json!({ NAMESERVER.to_string(): rows })
    }

    /// Whether a truncated answer has some of the addresses; unbound's is empty.
    const fn cuts_in_part(self) -> bool {
        !matches!(self, Self::Unbound)
    }

    /// dnsmasq has no SERVFAIL of its own.
    pub(crate) const fn can_fail(self) -> bool {
        !matches!(self, Self::Dnsmasq)
    }

    pub(crate) fn start(self, place: &Path) -> Peer {
        let command = match self {
            Self::Coredns => coredns(place),
            Self::Dnsmasq => dnsmasq(),
            Self::Unbound => unbound(place),
            Self::Named => named(place),
        };
        Peer::start(command, place)
    }
}

/// A server that runs.
pub(crate) struct Peer {
    child: Child,
    log: PathBuf,
}

impl Peer {
    fn start(mut command: Command, place: &Path) -> Self {
        let log = place.join("log");
        let file = File::create(&log).expect("a log");
        // dnsmasq has a process for each connection: all of them end together.
        command.process_group(0);
        command.stdin(Stdio::null()).stderr(file.try_clone().expect("a file")).stdout(file);
        let mut peer = Self { child: command.spawn().expect("the server starts"), log };
        let begin = Instant::now();
        while TcpStream::connect(SERVER).is_err() {
            let ended = peer.child.try_wait().expect("a child").is_some();
            assert!(!ended && begin.elapsed() < PATIENCE, "{}", peer.told());
            std::thread::sleep(Duration::from_millis(50));
        }
        peer
    }

    /// What it has logged.
    pub(crate) fn told(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.child.id()).expect("a process number"));
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

fn zone(place: &Path) -> PathBuf {
    let mut text =
        "$TTL 300\n$ORIGIN .\n. SOA ns. root. 1 7200 1800 86400 300\n. NS ns.\nns. A 127.0.0.1\n".to_owned();
    for (name, address) in world() {
        let kind = if address.is_ipv4() { "A" } else { "AAAA" };
        text += &format!("{name}. 300 IN {kind} {address}\n");
    }
    for (alias, target) in ALIASES {
        text += &format!("{alias}. 300 IN CNAME {target}.\n");
    }
    written(place, "zone", &text)
}

fn written(place: &Path, name: &str, text: &str) -> PathBuf {
    let file = place.join(name);
    std::fs::write(&file, text).expect("written");
    file
}

fn coredns(place: &Path) -> Command {
    let text = format!(
        ".:5353 {{\n errors\n log\n file {} .\n}}\n\
         servfail.test:5353 {{\n hosts {{\n  192.0.2.7 other.servfail.test\n }}\n}}\n\
         refused.test:5353 {{\n acl {{\n  block\n }}\n file {0} .\n}}\n",
        zone(place).display()
    );
    let mut command = Command::new(directory().expect("where the peers are").join("coredns/coredns"));
    command.arg("-conf").arg(written(place, "Corefile", &text));
    command
}

fn dnsmasq() -> Command {
    let mut command = debian("dnsmasq");
    command.args(["-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--user=root", "--log-queries"]);
    command.args(["--log-facility=-", "--pid-file", "--port=5353", "--listen-address=127.0.0.1"]);
    command.args(["--bind-interfaces", "--address=/#/", "--server=/refused.test/#"]);
    command.args(world().map(|(name, address)| format!("--host-record={name},{address}")));
    command.args(ALIASES.map(|(alias, target)| format!("--cname={alias},{target}")));
    command
}

fn unbound(place: &Path) -> Command {
    // It looks the names up as it does everywhere, in a root of its own.
    let text = format!(
        "server:\n chroot: \"\"\n username: \"\"\n pidfile: \"\"\n directory: {}\n do-daemonize: no\n use-syslog: no\n \
         log-queries: yes\n interface: 127.0.0.1\n port: 5353\n module-config: iterator\n num-threads: 1\n \
         do-ip6: no\n local-zone: \"refused.test\" refuse\n local-zone: \"test.\" nodefault\n\
         stub-zone:\n name: \"servfail.test\"\n stub-addr: 127.0.0.9@1\n\
         auth-zone:\n name: \".\"\n zonefile: {}\n for-downstream: no\n for-upstream: yes\n fallback-enabled: no\n",
        place.display(),
        zone(place).display()
    );
    let mut command = debian("unbound");
    command.arg("-d").arg("-c").arg(written(place, "unbound.conf", &text));
    command
}

fn named(place: &Path) -> Command {
    let own = "$TTL 300\n@ SOA ns. root. 1 7200 1800 86400 300\n@ NS ns.\nwww A 198.51.100.90\n";
    // A zone that cannot be loaded is answered with SERVFAIL.
    let text = format!(
        "options {{ directory \"{}\"; listen-on port 5353 {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; pid-file none; \
         session-keyfile none; dnssec-validation no; querylog yes; recursion no; }};\ncontrols {{ }};\n\
         zone \".\" {{ type primary; file \"{}\"; }};\n\
         zone \"servfail.test\" {{ type primary; file \"not-there\"; }};\n\
         zone \"refused.test\" {{ type primary; file \"{}\"; allow-query {{ none; }}; }};\n",
        place.display(),
        zone(place).display(),
        written(place, "refused", own).display()
    );
    let mut command = debian("named");
    command.args(["-g", "-n", "1", "-c"]).arg(written(place, "named.conf", &text));
    command
}

/// A program of Debian's packages, with the libraries beside it.
fn debian(program: &str) -> Command {
    let place = directory().expect("where the peers are").join("debian");
    let mut command = Command::new(place.join("usr/sbin").join(program));
    let libraries = std::fs::read_dir(place.join("usr/lib")).expect("libraries").flatten();
    let paths: Vec<String> = libraries.map(|entry| entry.path().display().to_string()).collect();
    command.env("LD_LIBRARY_PATH", paths.join(":"));
    command
}
