//! Nothing is left of a lab whose process is killed, wherever it was.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use netlab_node::{Netlink, Netns};

use crate::cluster::{Families, plan};
use crate::process::lab_process;
use crate::require;

/// Every network namespace that a process, a descriptor or a mount of this machine holds.
fn held_namespaces() -> BTreeSet<u64> {
    let number = |text: &str| text.strip_prefix("net:[")?.strip_suffix(']')?.parse::<u64>().ok();
    let mut held = BTreeSet::new();
    for process in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let path = process.path();
        let links = std::fs::read_dir(path.join("fd")).into_iter().flatten().flatten().map(|fd| fd.path());
        let tasks = std::fs::read_dir(path.join("task")).into_iter().flatten().flatten();
        let tasks = tasks.map(|task| task.path().join("ns/net"));
        for link in links.chain(tasks) {
            let target = std::fs::read_link(link).ok();
            held.extend(target.and_then(|target| number(target.to_str()?)));
        }
        let mounts = std::fs::read_to_string(path.join("mountinfo")).unwrap_or_default();
        held.extend(mounts.lines().filter_map(|line| number(line.split(' ').nth(3)?)));
    }
    held
}

/// Runs `lab_process die STEP` in a host namespace of its own. The inodes that it had made, and whether it stood.
fn die(host: &Netns, step: usize) -> (Vec<u64>, bool) {
    let plan = serde_json::to_vec(&plan(Families::Both)).expect("json");
    let output = host
        .run(|| {
            let mut child = lab_process()
                .args(["die", &step.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("spawn");
            child.stdin.take().expect("stdin").write_all(&plan).expect("plan");
            child.wait_with_output().expect("wait")
        })
        .expect("run");
    assert_eq!(output.status.signal(), Some(libc::SIGKILL));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let inodes = text.lines().filter_map(|line| line.parse().ok()).collect();
    (inodes, text.contains("stands"))
}

#[test]
fn a_kill_at_any_step_leaves_nothing() {
    if !require::netns() {
        return;
    }
    let host = Netns::create().expect("host");
    let mounts = || std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let before = mounts();
    // 7 namespaces, each with its four kinds of step; the last run is killed when everything stands.
    let steps = 7 * 4;
    let mut stood = 0;
    for step in (0..10).map(|share| share * steps / 9) {
        let (inodes, stands) = die(&host, step);
        assert!(!inodes.is_empty());
        stood += usize::from(stands);
        let held = held_namespaces();
        let left: Vec<&u64> = inodes.iter().filter(|inode| held.contains(inode)).collect();
        assert!(left.is_empty(), "step {step}: {left:?} are still held");
    }
    assert_eq!(stood, 1, "the last run, and only that, gets through");
    let links = Netlink::open_in(&host).expect("netlink").links().expect("links");
    assert_eq!(links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["lo"]);
    assert_eq!(mounts(), before);
}

/// The kernel itself counts: in a user namespace that may have no more network namespaces than one lab needs,
/// lab after lab can be built only if each killed one really went away.
#[test]
fn the_kernel_gets_every_namespace_back() {
    let script = r#"
        plan=$1; program=$2
        echo "$3" > /proc/sys/user/max_net_namespaces
        for run in 1 2 3 4 5; do
            tries=0
            while :; do
                output=$("$program" die 999 < "$plan" 2> /dev/null || true)
                case $output in *stands*) break;; esac
                tries=$((tries + 1))
                test $tries -lt 200 || exit 1
                sleep 0.05
            done
        done
        echo "$(($3 - 2))" > /proc/sys/user/max_net_namespaces
        sleep 0.2
        output=$("$program" die 999 < "$plan" 2> /dev/null || true)
        case $output in *stands*) exit 2;; esac
    "#;
    let namespaced = Command::new("unshare").args(["-Urn", "true"]).status();
    let usable = namespaced
        .map_err(|error| error.to_string())
        .and_then(|status| if status.success() { Ok(()) } else { Err("unshare -Urn fails".to_owned()) });
    if !require::met("userns", usable) {
        return;
    }
    let order = OrderFile::new(&serde_json::to_vec(&plan(Families::Both)).expect("json"));
    // The plan's 7, and the one that `unshare -n` itself makes, which is counted too.
    let status = Command::new("unshare")
        .args(["-Urn", "sh", "-e", "-c", script, "sh"])
        .arg(&order.0)
        .arg(lab_process().get_program())
        .arg("8")
        .status()
        .expect("unshare");
    assert_ne!(status.code(), Some(2), "the limit does not limit: the test shows nothing");
    assert!(status.success(), "a killed lab keeps its namespaces ({status})");
}

/// A plan in a file, for a shell to redirect.
struct OrderFile(std::path::PathBuf);

impl OrderFile {
    fn new(order: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("netlab-plan-{}", std::process::id()));
        std::fs::write(&path, order).expect("order");
        Self(path)
    }
}

impl Drop for OrderFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
