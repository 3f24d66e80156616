//! What stays in force without a process, and who takes it over.
//!
//! Invariant: the BPF file system is mounted in a mount namespace of the test's own thread, so that no name is left
//! anywhere.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use netlab_core::model::cluster::ObjectKey;
use netlab_core::policy::change::{Change, PeerPrefix};
use netlab_enforcer::LoadOptions;
use netlab_enforcer::backend::tc::TcBackend;
use netlab_enforcer::maps::MapSizes;
use netlab_enforcer::pins::{PinPlace, Pinned};
use netlab_enforcer::update::step::{Step, Steps};
use netlab_plugin::contract::{Backend, BackendError};
use netlab_plugin::contract_tests;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::json;

use crate::backend_contract::interfaces;
use crate::backend_site::{CLASS_DB, CLASS_WEB, CLASS_WORLD, DB, Site, has, open};
use crate::backend_traffic::{assert_silent, connect, db_isolated, listen};

/// A BPF file system that only this thread and its children see.
pub(crate) struct PinSite {
    directory: tempfile::TempDir,
}

impl PinSite {
    pub(crate) fn new() -> Self {
        unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private mounts");
        let directory = tempfile::tempdir().expect("a directory");
        let bpffs = directory.path().join("bpf");
        fs::create_dir(&bpffs).expect("a directory");
        mount(Some("bpf"), &bpffs, Some("bpf"), MsFlags::empty(), none).expect("a BPF file system");
        Self { directory }
    }

    pub(crate) fn place(&self) -> PinPlace {
        let path = self.directory.path();
        PinPlace { bpffs: path.join("bpf/node"), state: path.join("state") }
    }

    fn set(&self) -> PathBuf {
        self.place().bpffs.join("v2")
    }
}

impl Drop for PinSite {
    fn drop(&mut self) {
        // The directory below can be removed then.
        let _ = nix::mount::umount2(&self.directory.path().join("bpf"), nix::mount::MntFlags::MNT_DETACH);
    }
}

/// A site whose enforcement is pinned.
struct Node {
    site: Site,
    pins: PinSite,
}

impl Node {
    fn new() -> Option<Self> {
        has(&["netns", "bpf"]).then(|| Self { pins: PinSite::new(), site: Site::new() })
    }

    fn open(&self) -> Result<TcBackend, BackendError> {
        let node = self.site.node().try_clone().expect("a second handle");
        TcBackend::open(node, &self.pins.place(), &LoadOptions::LAB)
    }

    /// Web reaches db at 5432 and not at 81: what `db_isolated` says.
    #[track_caller]
    fn assert_isolated(&self) {
        connect(self.site.pod("web"), DB[0], 5432).expect("allowed");
        assert_silent(connect(self.site.pod("web"), DB[0], 81));
    }
}

#[track_caller]
fn assert_clean(backend: &mut TcBackend, generation: u32) {
    let observation = backend.observe().expect("observation");
    assert_eq!((observation.generation, observation.drift), (generation, vec![]));
}

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn what_is_in_force_stays_without_a_process_and_the_next_one_takes_it_over() {
    let Some(node) = Node::new() else { return };
    let _listeners = [5432, 81].map(|port| listen(node.site.pod("db"), DB[0], port));
    let mut first = node.open().expect("begun");
    first.set_note(json!({ "numbers": [1, 2, 3] }));
    let change = node.site.change(1, vec![open(1), db_isolated(2)], 1, 2);
    first.apply(&change).expect("applied");
    let programs = names(&node.pins.set().join("programs"));
    assert_eq!(programs, ["from_pod", "to_pod", "to_wire"]);
    let links = names(&node.pins.set().join("links"));
    assert_eq!(links.len(), 4, "{links:?}");
    let held = connect(node.site.pod("web"), DB[0], 5432).expect("allowed");
    drop(first);

    node.assert_isolated();
    let mut second = node.open().expect("taken over");
    assert_eq!(second.change(), Some(&change));
    assert_eq!(second.note(), &json!({ "numbers": [1, 2, 3] }));
    assert_eq!(second.attached().count(), 2);
    assert_clean(&mut second, 1);
    assert_eq!(names(&node.pins.set().join("links")), links, "the same links, and no others");
    node.assert_isolated();
    // The flow of before is still known: a reply passes although db may open nothing.
    let pinned = Pinned::open(&node.pins.place()).expect("readable").expect("there");
    assert!(!pinned.state.conntrack4.keys().expect("readable").is_empty());
    drop(held);

    let error =
        second.apply(&node.site.change(1, vec![open(1), open(3)], 1, 3)).expect_err("generation 1 again");
    assert!(error.message.contains("generation 1"), "{error}");
    second.apply(&node.site.change(2, vec![open(1), open(3)], 1, 3)).expect("applied");
    assert_clean(&mut second, 2);
    connect(node.site.pod("web"), DB[0], 81).expect("open now");

    second.apply(&node.site.change(3, vec![open(1), db_isolated(2)], 1, 2)).expect("applied");
    assert_silent(connect(node.site.pod("web"), DB[0], 81));
    assert_eq!(second.teardown(), []);
    connect(node.site.pod("web"), DB[0], 81).expect("nothing is left");
    assert_eq!(names(&node.pins.place().bpffs), Vec::<String>::new());
    assert_eq!(names(&node.pins.place().state), Vec::<String>::new());
}

#[test]
fn pinned_tc_keeps_the_contract() {
    if !has(&["netns", "bpf"]) {
        return;
    }
    let (node, _far) = interfaces();
    let pins = PinSite::new();
    let mut number = 0;
    contract_tests::run(&mut || {
        number += 1;
        let PinPlace { bpffs, state } = pins.place();
        let place = PinPlace { bpffs: bpffs.join(number.to_string()), state: state.join(number.to_string()) };
        let node = node.try_clone().expect("a second handle");
        Box::new(TcBackend::open(node, &place, &LoadOptions::LAB).expect("begun"))
    });
}

#[test]
fn there_is_one_writer() {
    let Some(node) = Node::new() else { return };
    let first = node.open().expect("begun");
    let error = node.open().expect_err("in use");
    assert!(error.message.contains("in use") && error.retry, "{error}");
    drop(first);
    node.open().expect("free again");
}

#[test]
fn pins_that_are_not_ours_are_refused_with_what_to_do() {
    let Some(node) = Node::new() else { return };
    let place = PinPlace { bpffs: node.pins.place().state.join("not-bpf"), ..node.pins.place() };
    let netns = || node.site.node().try_clone().expect("a second handle");
    let error = TcBackend::open(netns(), &place, &LoadOptions::LAB).expect_err("no BPF file system");
    assert!(error.message.contains("mount -t bpf"), "{error}");

    let mut backend = node.open().expect("begun");
    backend.apply(&node.site.change(1, vec![open(1), db_isolated(2)], 1, 2)).expect("applied");
    drop(backend);
    let elsewhere = node.site.pod("web").try_clone().expect("a second handle");
    let error =
        TcBackend::open(elsewhere, &node.pins.place(), &LoadOptions::LAB).expect_err("another namespace");
    assert!(error.message.contains("another network namespace"), "{error}");

    let maps = node.pins.set().join("maps");
    for (from, to) in [("PEERS", "spare"), ("CIDRS", "PEERS"), ("spare", "CIDRS")] {
        fs::rename(maps.join(from), maps.join(to)).expect("renamed");
    }
    let error = node.open().expect_err("another layout");
    assert!(error.message.contains("CIDRS") || error.message.contains("PEERS"), "{error}");
    assert!(error.message.contains("made by another netlab"), "{error}");
    // The way out that the message names.
    fs::rename(node.pins.set(), node.pins.place().bpffs.join("v0")).expect("renamed");
    let _listeners = [5432, 81].map(|port| listen(node.site.pod("db"), DB[0], port));
    let mut backend = node.open().expect("begun");
    node.assert_isolated();
    backend.apply(&node.site.change(1, vec![open(1), db_isolated(2)], 1, 2)).expect("applied");
    node.assert_isolated();
    assert_clean(&mut backend, 1);
    assert_eq!(names(&node.pins.place().bpffs), ["v2"]);
}

#[test]
fn links_of_another_version_are_taken_over_one_by_one() {
    let Some(node) = Node::new() else { return };
    let _listeners = [5432, 81].map(|port| listen(node.site.pod("db"), DB[0], port));
    let mut old = node.open().expect("begun");
    old.apply(&node.site.change(7, vec![open(1), db_isolated(2)], 1, 2)).expect("applied");
    drop(old);
    fs::rename(node.pins.set(), node.pins.place().bpffs.join("v0")).expect("renamed");
    // A set that was never finished, and a name that was.
    fs::create_dir_all(node.pins.place().bpffs.join("v2-half/maps")).expect("made");

    let new = node.open().expect("begun");
    assert_eq!(names(&node.pins.place().bpffs), ["v0", "v2"]);
    node.assert_isolated();
    drop(new);
    // A change that cannot be made gives the old programs back: the interface with the higher number has no place.
    fs::remove_dir_all(node.pins.set()).expect("removed");
    let key = |name| node.site.lab.host_interface(&ObjectKey::new("shop", name)).expect("link").index;
    let sizes = MapSizes { devices: key("web").max(key("db")), ..MapSizes::LAB };
    let netns = node.site.node().try_clone().expect("a second handle");
    let options = LoadOptions { sizes, ..LoadOptions::LAB };
    let mut small = TcBackend::open(netns, &node.pins.place(), &options).expect("begun");
    let error = small.apply(&node.site.change(1, vec![open(1), open(3)], 1, 3)).expect_err("no place");
    assert!(error.message.contains("number"), "{error}");
    assert_eq!(names(&node.pins.place().bpffs.join("v0/links")).len(), 4, "{error}");
    drop(small);
    node.assert_isolated();
    fs::remove_dir_all(node.pins.set()).expect("removed");
    let mut new = node.open().expect("begun");

    new.apply(&node.site.change(1, vec![open(1), db_isolated(2)], 1, 2)).expect("applied");
    assert_eq!(names(&node.pins.place().bpffs), ["v2"]);
    assert_eq!(names(&node.pins.set().join("links")).len(), 4);
    assert_clean(&mut new, 1);
    node.assert_isolated();
}

#[test]
fn pins_without_a_record_stay_in_force_until_the_next_change() {
    let Some(node) = Node::new() else { return };
    let _listeners = [5432, 81].map(|port| listen(node.site.pod("db"), DB[0], port));
    let mut backend = node.open().expect("begun");
    backend.apply(&node.site.change(1, vec![open(1), db_isolated(2)], 1, 2)).expect("applied");
    drop(backend);
    fs::remove_dir_all(node.pins.place().state.join("v2")).expect("removed");
    let mut backend = node.open().expect("begun anew");
    assert_eq!(backend.change(), None);
    node.assert_isolated();
    backend.apply(&node.site.change(1, vec![open(1), db_isolated(2)], 1, 2)).expect("applied");
    node.assert_isolated();
    assert_eq!(names(&node.pins.place().bpffs), ["v2"]);
    assert_clean(&mut backend, 1);
}

/// Two changes, between which every kind of step is needed: a pod comes or goes, two classes become one that an old
/// ruleset told apart, a prefix comes or goes, a ruleset is replaced.
fn two_changes(site: &Site, generation: u32) -> [Change; 2] {
    let mut few = site.change(generation, vec![open(1), db_isolated(2)], 1, 2);
    few.pods.retain(|pod| pod.name == "db");
    let address = std::net::Ipv4Addr::new(10, 9, 0, 0).into();
    few.peers.push(PeerPrefix { address, length: 24, class: CLASS_WORLD });
    few.peers.sort_unstable();

    let mut many = site.change(generation, vec![open(1), db_isolated(3)], 1, 3);
    let class = |class: u32| 10 + if class == CLASS_DB { CLASS_WEB } else { class };
    for peer in &mut many.peers {
        peer.class = class(peer.class);
    }
    let tables = many.rulesets.iter_mut().flat_map(|ruleset| [&mut ruleset.ingress, &mut ruleset.egress]);
    for table in tables.flatten() {
        table.rows.retain(|row| row.peer_classes != [CLASS_DB]);
        for number in table.rows.iter_mut().flat_map(|row| &mut row.peer_classes) {
            *number = class(*number);
        }
    }
    [few, many]
}

/// The steps of a change.
fn steps_of(backend: &mut TcBackend, change: &Change) -> Vec<Step> {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&steps);
    backend.follow(Steps::followed(move |step| seen.lock().expect("steps").push(step)));
    backend.apply(change).expect("applied");
    backend.follow(Steps::default());
    let steps = steps.lock().expect("steps");
    steps.clone()
}

/// Ends whoever calls it the `step`-th time, as far as a thread can be ended.
fn ended_at(step: usize) -> Steps {
    let count = AtomicUsize::new(0);
    Steps::followed(move |done: Step| {
        assert!(count.fetch_add(1, Ordering::Relaxed) != step, "ended after {done:?}");
    })
}

#[test]
fn a_change_that_is_broken_off_after_any_step_is_completed() {
    let Some(node) = Node::new() else { return };
    let mut backend = node.open().expect("begun");
    backend.apply(&two_changes(&node.site, 1)[0]).expect("applied");
    let to_many = steps_of(&mut backend, &two_changes(&node.site, 2)[1]);
    let to_few = steps_of(&mut backend, &two_changes(&node.site, 3)[0]);
    let kinds: BTreeSet<Step> = to_many.iter().chain(&to_few).copied().collect();
    assert_eq!(kinds.len(), 17, "every kind of step: {kinds:?}");
    drop(backend);
    let mut generation = 4;
    for (goal, steps) in [(1, to_many), (0, to_few)] {
        // Of many steps of one kind, the first and the last.
        let chosen = (0..steps.len()).filter(|index| {
            let same = |other: &usize| steps[*other] == steps[*index];
            !(0..*index).any(|other| same(&other)) || !(index + 1..steps.len()).any(|other| same(&other))
        });
        for step in chosen {
            let _listeners = [5432, 81].map(|port| listen(node.site.pod("db"), DB[0], port));
            let mut backend = node.open().expect("begun or taken over");
            backend.apply(&two_changes(&node.site, generation)[1 - goal]).expect("applied");
            let after = &two_changes(&node.site, generation + 1)[goal];
            backend.follow(ended_at(step));
            let ended = catch_unwind(AssertUnwindSafe(|| backend.apply(after))).is_err();
            assert!(ended, "step {step} of {steps:?}");
            drop(backend);
            node.assert_isolated();
            let mut backend = node.open().expect("taken over");
            assert_eq!(backend.change(), Some(after), "step {step}: {:?}", steps[step]);
            assert_eq!(backend.attached().count(), after.pods.len(), "step {step}: {:?}", steps[step]);
            assert_clean(&mut backend, generation + 1);
            connect(node.site.pod("web"), DB[0], 5432).expect("allowed");
            generation += 2;
        }
    }
}

/// `db` isolated, with the device by which packets leave the node.
fn with_wire(node: &Node, generation: u32) -> Change {
    let change = node.site.change(generation, vec![open(1), db_isolated(2)], 1, 2);
    Change { wires: vec!["eth0".to_owned()], ..change }
}

/// The links, and those of them that are of a device by which packets leave.
fn links(node: &Node, set: &str) -> (usize, Vec<String>) {
    let all = names(&node.pins.place().bpffs.join(set).join("links"));
    (all.len(), all.into_iter().filter(|name| name.ends_with("-to_wire")).collect())
}

#[test]
fn the_program_of_a_device_by_which_packets_leave_is_taken_over() {
    let Some(node) = Node::new() else { return };
    let mut first = node.open().expect("begun");
    first.apply(&with_wire(&node, 1)).expect("applied");
    let pinned = links(&node, "v2");
    assert_eq!((pinned.0, pinned.1.len()), (5, 1), "{pinned:?}");
    drop(first);

    let mut second = node.open().expect("taken over");
    assert_clean(&mut second, 1);
    assert_eq!(links(&node, "v2"), pinned, "the same links, and no others");
    let wanted = second.datapath().to_wire().id();
    assert_ne!(wanted, 0);
    drop(second);

    // Somebody takes it off while no process is there: the next one says so, and puts it back when asked.
    let [wire] = pinned.1.as_slice() else { panic!("{pinned:?}") };
    fs::remove_file(node.pins.set().join("links").join(wire)).expect("removed");
    let mut third = node.open().expect("taken over");
    third.apply(&with_wire(&node, 2)).expect("applied");
    assert_eq!(links(&node, "v2"), pinned);
    assert_clean(&mut third, 2);

    // And goes when it is not wanted any more, or everything goes.
    third.apply(&node.site.change(3, vec![open(1), db_isolated(2)], 1, 2)).expect("applied");
    assert_eq!(links(&node, "v2"), (4, vec![]));
    assert_clean(&mut third, 3);
    third.apply(&with_wire(&node, 4)).expect("applied");
    assert_eq!(third.teardown(), []);
    assert_eq!(names(&node.pins.place().bpffs), Vec::<String>::new());
}

/// From the layout before, which had neither `SERVICES` nor the third program, and from one that has it.
#[test]
fn devices_by_which_packets_leave_survive_a_change_of_layout() {
    let Some(node) = Node::new() else { return };
    let _listeners = [5432, 81].map(|port| listen(node.site.pod("db"), DB[0], port));
    let other = |name: &str| {
        fs::rename(node.pins.set(), node.pins.place().bpffs.join(name)).expect("renamed");
        fs::remove_dir_all(node.pins.place().state.join("v2")).expect("removed");
    };
    let mut old = node.open().expect("begun");
    old.apply(&node.site.change(1, vec![open(1), db_isolated(2)], 1, 2)).expect("applied");
    drop(old);
    for of_it in ["maps/SERVICES", "programs/to_wire"] {
        fs::remove_file(node.pins.set().join(of_it)).expect("it was there");
    }
    other("v1");
    let mut new = node.open().expect("begun beside it");
    node.assert_isolated();
    new.apply(&with_wire(&node, 1)).expect("applied");
    assert_eq!(names(&node.pins.place().bpffs), ["v2"]);
    let pinned = links(&node, "v2");
    assert_eq!((pinned.0, pinned.1.len()), (5, 1), "{pinned:?}");
    assert_clean(&mut new, 1);
    node.assert_isolated();
    drop(new);

    for (wanted, left) in
        [(with_wire(&node, 1), 5), (node.site.change(1, vec![open(1), db_isolated(2)], 1, 2), 4)]
    {
        other("v3");
        let mut new = node.open().expect("begun beside it");
        assert_eq!(links(&node, "v3"), pinned, "nothing is touched before the first change");
        new.apply(&wanted).expect("applied");
        assert_eq!(names(&node.pins.place().bpffs), ["v2"]);
        assert_eq!(links(&node, "v2").0, left);
        assert_clean(&mut new, 1);
        node.assert_isolated();
        new.apply(&Change { generation: 2, ..with_wire(&node, 1) }).expect("applied");
        assert_eq!(links(&node, "v2"), pinned);
        drop(new);
    }
}
