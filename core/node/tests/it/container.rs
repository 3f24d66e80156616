//! A container's files are its own, whatever its links say.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use netlab_node::container::Container;

use crate::require;

/// A process whose root is another directory.
struct Rooted {
    child: Child,
    root: tempfile::TempDir,
}

impl Drop for Rooted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Rooted {
    fn new() -> Option<Self> {
        if !require::netns() {
            return None;
        }
        let root = tempfile::tempdir().expect("a directory");
        for directory in ["etc", "usr"] {
            std::fs::create_dir(root.path().join(directory)).expect("a directory");
        }
        for link in ["bin", "lib", "lib64"] {
            symlink(Path::new("usr").join(link), root.path().join(link)).expect("a link");
        }
        // The mount is seen in a namespace of its own, and goes with the process.
        let script = "mount --bind /usr \"$0/usr\" && exec chroot \"$0\" sleep 60";
        let mut command = Command::new("unshare");
        let child =
            command.args(["--mount", "sh", "-c", script]).arg(root.path()).spawn().expect("it starts");
        let rooted = Self { child, root };
        let end = Instant::now() + Duration::from_secs(10);
        while rooted.own_root() != rooted.root.path().canonicalize().expect("a path") {
            assert!(Instant::now() < end, "the process does not get into its root");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(rooted)
    }

    fn own_root(&self) -> std::path::PathBuf {
        std::fs::read_link(format!("/proc/{}/root", self.child.id())).unwrap_or_default()
    }

    fn etc(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join("etc").join(name)
    }
}

#[test]
fn links_do_not_lead_out_of_the_container() {
    let Some(rooted) = Rooted::new() else { return };
    std::fs::write(rooted.etc("real"), "nameserver 192.0.2.1\n").expect("written");
    symlink("/etc/real", rooted.etc("resolv.conf")).expect("a link");
    symlink("/../../../etc/real", rooted.etc("hosts")).expect("a link");
    // There on any machine, and not in this root.
    symlink("/etc/passwd", rooted.etc("nsswitch.conf")).expect("a link");
    let container = Container::of_process(rooted.child.id()).expect("it is ours");
    let text = |path: &str| container.text(path).expect("readable");
    assert_eq!(text("/etc/resolv.conf").as_deref(), Some("nameserver 192.0.2.1\n"));
    assert_eq!(text("/etc/hosts").as_deref(), Some("nameserver 192.0.2.1\n"));
    assert_eq!(text("/etc/nsswitch.conf"), None);
    assert_eq!(text("/etc/missing"), None);
    let error = container.text("/etc").expect_err("a directory");
    assert!(error.to_string().contains("cannot read /etc of process"), "{error}");
}

#[test]
fn the_libc_is_that_of_the_process() {
    let Some(rooted) = Rooted::new() else { return };
    let container = Container::of_process(rooted.child.id()).expect("it is ours");
    let installed = Command::new("getconf").arg("GNU_LIBC_VERSION").output().expect("getconf runs");
    let installed = String::from_utf8_lossy(&installed.stdout).trim().replace(' ', ":");
    assert_eq!(container.libc().as_deref(), Some(&*installed));
}

#[test]
fn a_process_that_is_gone_is_named() {
    let error = Container::of_process(u32::MAX).expect_err("no such process");
    assert!(error.to_string().contains("/root of process 4294967295"), "{error}");
}

/// Mounted over the node's own file, as a container runtime does it: what is below shows when the mount goes.
#[test]
fn a_process_that_ends_uncovers_nothing_of_the_node() {
    if !require::netns() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (own, of_node) = (directory.path().join("own"), directory.path().join("file"));
    std::fs::write(&own, "nameserver 192.0.2.1\n").expect("written");
    std::fs::write(&of_node, "nameserver 198.51.100.99\n").expect("written");
    let script = "mount --bind \"$0\" \"$1\" && echo mounted && exec sleep 60";
    let mut child = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .args([&own, &of_node])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = [0; 8];
    std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut said).expect("it is mounted");
    let container = Container::of_process(child.id()).expect("it is ours");
    let netns = container.netns().expect("its namespace").identity();
    assert!(!container.has_ended());
    child.kill().expect("it is ours");
    // Until its parent asks it is still in the table.
    let end = Instant::now() + Duration::from_secs(10);
    while !container.has_ended() {
        assert!(Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait().expect("it ended");
    assert!(container.has_ended());
    let path = of_node.display().to_string();
    assert_eq!(container.text(&path).expect("readable").as_deref(), Some("nameserver 192.0.2.1\n"));
    // What is no more cannot be asked for, and is never that of another process.
    assert_eq!(container.libc(), None);
    let error = container.netns().expect_err("it is gone");
    assert!(error.to_string().contains("/ns/net"), "{error}");
    assert_ne!(netns.inode, 0);
}
