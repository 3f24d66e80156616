//! The real libraries against their plans: each lookup in a network namespace of its own, with scripted servers and
//! with a `resolv.conf` that only it sees.
//!
//! glibc is this machine's, musl is Debian's. `NETLAB_DNS_HELPERS` names more (`musl:1.2.5=/path/to/lookup`), built of
//! `tests/data/lookup/lookup.c`; with `NETLAB_TEST_GO=1` Go's resolver is built and asked, too. `NETLAB_DNS_SCENARIOS`
//! is a file of other scenarios to measure, `NETLAB_DNS_RECORD` one into which what was measured is written.

mod peers;
mod real;
mod server;
mod wire;

use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use netlab_dnsdiag::resolver::Libc;
use netlab_node::netlink::Batch;
use netlab_node::{Netlink, Netns};

use crate::require;
use crate::scenario::Scenarios;
use crate::vector::{Observed, Vector, agrees, agrees_within, vectors};
use server::{Arrived, Servers};

/// A lookup that takes longer than this is none of the random ones.
const LONGEST_RANDOM: u64 = 7_000;
/// So many lookups at once: they wait most of the time.
const AT_ONCE: usize = 40;

/// A program that looks one name up.
struct Helper {
    libc: Libc,
    program: PathBuf,
}

/// What can be asked here; `None`, said, when something is missing.
fn helpers(directory: &Path) -> Option<Vec<Helper>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/lookup/lookup.c");
    let compile = |compiler: &str, name: &str| {
        let program = directory.join(name);
        let output = Command::new(compiler).arg("-O1").arg("-o").arg(&program).arg(&source).output();
        let outcome = match output {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(format!("{compiler}: {}", String::from_utf8_lossy(&output.stderr))),
            Err(error) => Err(format!("{compiler}: {error}; Debian has it in gcc, libc6-dev and musl-tools")),
        };
        require::met("netns", outcome).then_some(program)
    };
    let glibc = compile("cc", "lookup-glibc")?;
    let version = Command::new(&glibc).arg("--version").output().expect("the helper runs");
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let musl = compile("musl-gcc", "lookup-musl")?;
    let mut helpers = vec![
        Helper { libc: version.parse().expect("glibc's version"), program: glibc },
        Helper { libc: format!("musl:{}", musl_version()?).parse().expect("musl's version"), program: musl },
    ];
    for pair in
        std::env::var("NETLAB_DNS_HELPERS").unwrap_or_default().split(',').filter(|pair| !pair.is_empty())
    {
        let (libc, program) = pair.split_once('=').expect("NETLAB_DNS_HELPERS: LIBC=PROGRAM");
        helpers.push(Helper { libc: libc.parse().expect("a libc"), program: program.into() });
    }
    if std::env::var("NETLAB_TEST_GO").is_ok_and(|value| value == "1") {
        helpers.push(go(directory));
    }
    Some(helpers)
}

/// The loader that musl's programs name tells its version when it is run.
fn musl_version() -> Option<String> {
    let loader = fs::read_dir("/lib").ok()?.filter_map(Result::ok).find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        (name.starts_with("ld-musl-")).then(|| entry.path())
    });
    let text = Command::new(loader?).output().ok()?.stderr;
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().find_map(|line| line.strip_prefix("Version ").map(str::to_owned))
}

fn go(directory: &Path) -> Helper {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/lookup/lookup.go");
    let program = directory.join("lookup-go");
    let built =
        Command::new("go").arg("build").arg("-o").arg(&program).arg(source).env("CGO_ENABLED", "0").status();
    assert!(built.expect("NETLAB_TEST_GO=1 needs `go`").success());
    let version =
        Command::new("go").args(["env", "GOVERSION"]).output().expect("go tells its version").stdout;
    let version = String::from_utf8_lossy(&version).trim().replace("go", "go:");
    Helper { libc: version.parse().expect("Go's version"), program }
}

/// Looks up, and tells what happened.
fn measure(vector: &Vector, helper: &Helper, directory: &Path) -> Observed {
    let (_, observed) = Netns::create_with(|| measure_here(vector, helper, directory)).expect("a namespace");
    observed
}

fn measure_here(vector: &Vector, helper: &Helper, directory: &Path) -> Observed {
    lo_up();
    let servers = Servers::start(&vector.script()).expect("servers start");
    let looked_up = look_up(vector, helper, directory);
    observed(&looked_up, servers.stop())
}

fn lo_up() {
    Netlink::open().and_then(|mut netlink| netlink.apply(Batch::new().link_up("lo"))).expect("lo comes up");
}

/// What a helper tells: getaddrinfo's number, when it began, how long it took (in nanoseconds), and addresses.
struct LookedUp {
    rc: i64,
    begin: i64,
    took: i64,
    addresses: Vec<IpAddr>,
}

/// One lookup here, with a `resolv.conf` that only it sees.
fn look_up(vector: &Vector, helper: &Helper, directory: &Path) -> LookedUp {
    let conf = tempfile::NamedTempFile::new_in(directory).expect("a file");
    fs::write(&conf, &vector.resolv_conf).expect("written");
    let switch = directory.join("nsswitch.conf");
    // A host name without a dot: its domain would be a suffix. DNS alone is asked.
    let script = r#"mount --bind "$1" /etc/resolv.conf || exit 9
[ ! -e /etc/nsswitch.conf ] || mount --bind "$2" /etc/nsswitch.conf || exit 9
echo pod > /proc/sys/kernel/hostname
exec "$3" "$4" "$5""#;
    let output = Command::new("unshare")
        .args(["--mount", "--uts", "--propagation", "private", "sh", "-c", script, "sh"])
        .arg(conf.path())
        .arg(&switch)
        .arg(&helper.program)
        .args([&vector.query, &vector.family])
        .output()
        .expect("unshare runs");
    // Servers may still be busy with the last queries.
    std::thread::sleep(Duration::from_millis(50));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    let numbers: Vec<i64> =
        lines.next().unwrap_or_default().split(' ').filter_map(|word| word.parse().ok()).collect();
    let [rc, begin, took] = numbers.as_slice() else {
        panic!("{} {}: {text}{}", vector.name, helper.libc, String::from_utf8_lossy(&output.stderr));
    };
    let addresses = lines.filter_map(|line| line.parse().ok()).collect();
    LookedUp { rc: *rc, begin: *begin, took: *took, addresses }
}

/// The same beside what arrived at servers.
fn observed(looked_up: &LookedUp, mut arrived: Vec<Arrived>) -> Observed {
    let seconds =
        |nanoseconds: i64| f64::from(i32::try_from(nanoseconds / 1_000_000).expect("short")) / 1000.0;
    arrived.sort_by_key(|query| query.at);
    Observed {
        rc: i32::try_from(looked_up.rc).expect("a return code"),
        seconds: seconds(looked_up.took),
        queries: arrived
            .iter()
            .map(|query| format!("{} {}", seconds(query.at - looked_up.begin), query.what))
            .collect(),
        complete: true,
    }
}

/// Adds what was measured to the file that `NETLAB_DNS_RECORD` names, a line for each.
fn record(vector: &Vector, libc: Libc, observed: &Observed) {
    let Ok(path) = std::env::var("NETLAB_DNS_RECORD") else { return };
    let Observed { rc, seconds, queries, complete } = observed;
    let line = serde_json::json!({
        "name": vector.name, "resolvConf": vector.resolv_conf, "server": vector.server, "query": vector.query,
        "family": vector.family, "libc": libc.to_string(),
        "observed": {"rc": rc, "seconds": seconds, "queries": queries, "complete": complete},
    });
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path).expect("the record");
    file.write_all(format!("{line}\n").as_bytes()).expect("written");
}

#[expect(clippy::print_stderr, reason = "the tally is what one runs this for")]
fn tell(what: &str) {
    eprintln!("{what}");
}

/// Everything that was measured and planned.
fn compare(scenarios: &[Vector], helpers: &[Helper], directory: &Path, at_once: usize) -> Vec<String> {
    fs::write(directory.join("nsswitch.conf"), "hosts: files dns\n").expect("written");
    let mut jobs: Vec<(u64, &Vector, &Helper)> = Vec::new();
    for vector in scenarios {
        for helper in helpers {
            let plan = vector.plan(helper.libc);
            let outcomes = &plan.predicted.outcomes;
            // What never ends, or divides by 0, cannot be waited for.
            let ends = outcomes.iter().all(|outcome| outcome.rc.is_some() && outcome.millis.is_some());
            if ends {
                let longest = outcomes.iter().filter_map(|outcome| outcome.millis).max().unwrap_or(0);
                jobs.push((longest, vector, helper));
            }
        }
    }
    // The longest are begun first.
    jobs.sort_by_key(|(longest, ..)| *longest);
    let jobs = Mutex::new(jobs);
    let wrong = Mutex::new(Vec::new());
    let tally = Mutex::new(std::collections::BTreeMap::<String, usize>::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let Some((_, vector, helper)) = jobs.lock().expect("the jobs").pop() else { return };
                    let observed = measure(vector, helper, directory);
                    record(vector, helper.libc, &observed);
                    let plan = vector.plan(helper.libc);
                    *tally.lock().expect("the tally").entry(helper.libc.to_string()).or_default() += 1;
                    if let Err(why) = agrees(&plan, &observed) {
                        let late = agrees_within(&plan, &observed, 1.5).is_ok();
                        let how = if late { "late" } else { "otherwise" };
                        tell(&format!("{how}: {} by {}: {why}", vector.name, helper.libc));
                        wrong.lock().expect("the list").push(format!(
                            "{} by {}: {:?} with {} {}\n {}\n  {why}\n  measured {observed:#?}",
                            vector.name,
                            helper.libc,
                            vector.resolv_conf,
                            vector.query,
                            vector.family,
                            vector.server,
                        ));
                    }
                }
            });
        }
    });
    tell(&format!("compared: {:?}", tally.lock().expect("the tally")));
    wrong.into_inner().expect("the list")
}

/// How many random scenarios: 30, or what `NETLAB_WORLDS` says.
fn random_scenarios(seed: u64, helpers: &[Helper]) -> Vec<Vector> {
    let count = std::env::var("NETLAB_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(30);
    let short = |vector: &Vector| {
        helpers.iter().all(|helper| {
            let outcomes = vector.plan(helper.libc).predicted.outcomes;
            outcomes.iter().all(|outcome| outcome.millis.is_some_and(|millis| millis <= LONGEST_RANDOM))
        })
    };
    Scenarios::new(seed).filter(short).take(count).collect()
}

#[test]
fn the_real_libraries_do_what_is_planned() {
    let root = nix::unistd::geteuid().is_root();
    if !require::met("root", if root { Ok(()) } else { Err("the tests do not run as root") })
        || !require::netns()
    {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let Some(helpers) = helpers(directory.path()) else { return };
    let seed = std::env::var("NETLAB_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let mut scenarios = vectors();
    if let Ok(file) = std::env::var("NETLAB_DNS_SCENARIOS") {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        scenarios = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    } else {
        if std::env::var_os("NETLAB_SEED").is_some() {
            // A soak repeats what is random, not what is fixed.
            scenarios.clear();
        }
        scenarios.extend(random_scenarios(seed, &helpers));
    }
    let wrong = compare(&scenarios, &helpers, directory.path(), AT_ONCE);
    // A machine under load is late now and then; what is wrong is wrong again, fewer at a time.
    let mut wrong = wrong;
    for at_once in [16, 8, 4] {
        scenarios.retain(|vector| wrong.iter().any(|text| text.starts_with(&format!("{} by", vector.name))));
        if !wrong.is_empty() {
            wrong = compare(&scenarios, &helpers, directory.path(), at_once);
        }
    }
    assert!(wrong.is_empty(), "seed {seed}: {} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
