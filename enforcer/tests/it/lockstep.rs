//! Objects against kernels' types: the drill is a program that reads `tgid` and `start_time` of a `task_struct`.

use std::path::Path;

use netlab_enforcer::lockstep::{KernelTypes, Lockstep, LockstepError, check};
use netlab_enforcer::object;

const DRILL: &[u8] = include_bytes!("../data/drill.o");

/// The drill's own types in the place of a kernel's, with names of the same length put for others.
fn kernel(renamed: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = DRILL.to_vec();
    for (name, other) in renamed {
        assert_eq!(name.len(), other.len());
        let found: Vec<usize> = (0..bytes.len() - name.len())
            .filter(|start| bytes[*start..].starts_with(format!("{name}\0").as_bytes()))
            .collect();
        assert!(!found.is_empty(), "{name}");
        for start in found {
            bytes[start..][..name.len()].copy_from_slice(other.as_bytes());
        }
    }
    bytes
}

fn against(renamed: &[(&str, &str)]) -> Lockstep {
    check(DRILL, || KernelTypes::parse(&kernel(renamed))).expect("understood")
}

fn why(lockstep: &Lockstep) -> Vec<(String, String)> {
    lockstep.failures.iter().map(|failure| (failure.subject.clone(), failure.why.clone())).collect()
}

#[test]
fn our_own_object_needs_no_kernel_types() {
    let never = || -> Result<KernelTypes, LockstepError> { panic!("nothing to try against a kernel") };
    let found = check(object::bytes(), never).expect("understood");
    assert_eq!((found.relocations(), found.failures.len()), (0, 0));
    assert_eq!(found.abi, Some(netlab_ebpf::abi::ABI_VERSION));
    for program in object::PROGRAMS {
        assert_eq!(found.programs.get(program), Some(&0), "{:?}", found.programs);
    }
}

#[test]
fn relocations_are_counted_by_program_and_fit_their_own_types() {
    let found = against(&[]);
    let counts: Vec<(&str, u32)> =
        found.programs.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(counts, [("look", 2), ("pass", 0)]);
    assert_eq!((found.failures.as_slice(), found.abi), ([].as_slice(), None));
}

#[test]
fn a_member_that_the_kernel_lacks_is_named() {
    let found = against(&[("start_time", "begin_time")]);
    let [failure] = found.failures.as_slice() else { panic!("{:?}", found.failures) };
    assert_eq!((failure.program.as_str(), failure.asks), ("look", "byte offset"));
    assert_eq!(failure.subject, "struct task_struct.start_time");
    assert_eq!(failure.why, "struct task_struct has no member start_time");
}

#[test]
fn a_type_that_the_kernel_lacks_is_named() {
    let found = against(&[("task_struct", "other_thing")]);
    let expected = ["tgid", "start_time"]
        .map(|member| (format!("struct task_struct.{member}"), "there is no struct task_struct".to_owned()));
    let mut failures = why(&found);
    failures.sort_by_key(|(subject, _)| subject.ends_with("start_time"));
    assert_eq!(failures, expected);
}

/// `struct task_struct` has had both since long ago.
#[test]
fn the_running_kernel_fits() {
    let Ok(kernel) = std::fs::read(Path::new("/sys/kernel/btf/vmlinux")) else {
        eprintln!("skipped: this kernel tells no types");
        return;
    };
    let found = check(DRILL, || KernelTypes::parse(&kernel)).expect("understood");
    assert_eq!((found.relocations(), why(&found)), (2, vec![]));
}

#[test]
fn what_is_no_object_and_no_types_is_refused() {
    let fits = || KernelTypes::parse(DRILL);
    for garbage in [&b""[..], b"apiVersion: v1\n", b"\x7fELF", &DRILL[..200]] {
        assert!(matches!(check(garbage, fits), Err(LockstepError::NotElf(_))), "{} bytes", garbage.len());
        let error = KernelTypes::parse(garbage).expect_err("no types");
        assert!(!error.to_string().is_empty());
    }
    let ours = std::fs::read("/proc/self/exe").expect("this test");
    assert!(matches!(check(&ours, fits), Err(LockstepError::NotBpf)));
    let big = [0xeb, 0x9f, 1, 0, 0, 0, 0, 24];
    assert!(KernelTypes::parse(&big).expect_err("big endian").to_string().contains("big-endian"));
}

/// Whatever bytes are wrong: an answer or an error, and soon.
#[test]
fn no_damage_is_too_much() {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut understood, mut refused) = (0, 0);
    for _ in 0..4_000 {
        let mut damaged = DRILL.to_vec();
        for _ in 0..random.usize(1..8) {
            let place = random.usize(..damaged.len());
            damaged[place] = random.u8(..);
        }
        // Without its end no ELF file can be read.
        if random.u8(..8) == 0 {
            damaged.truncate(random.usize(damaged.len() / 2..=damaged.len()));
        }
        let object = if random.bool() { &damaged[..] } else { DRILL };
        match check(object, || KernelTypes::parse(&damaged)) {
            Ok(_) => understood += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(understood > 10 && refused > 10, "understood {understood}, refused {refused}");
}
