//! `cargo xtask mutate`: puts known faults into a copy of the code, one at a time, and wants each caught by the test
//! that its patch names.
//!
//! Invariant: caught means that the patched code compiles, that the named test ran and failed, and that it passes
//! without the patch. A patch that does not apply, does not compile or is not caught fails the whole run; one whose
//! test cannot run on this machine is told.

pub(crate) mod patch;
mod scratch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};

use self::patch::Patch;
use self::scratch::Scratch;
use crate::tests_of::{Executable, Name, Ran, Suite, build};

/// `cargo xtask mutate`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Patches of xtask/mutations, by name or the start of it.
    names: Vec<String>,
    /// Every patch.
    #[arg(long, conflicts_with_all = ["names", "some"])]
    all: bool,
    /// So many, in rotation.
    #[arg(long, value_name = "N", conflicts_with = "names")]
    some: Option<usize>,
    /// Where the rotation stands; the day by default.
    #[arg(long, value_name = "S", requires = "some")]
    seed: Option<u64>,
    /// Do not run the tests without the patch first: somebody just did.
    #[arg(long)]
    trust_tests: bool,
}

/// Most time that a named test may take.
const AT_MOST: Duration = Duration::from_secs(300);

/// What became of a patch.
#[derive(Debug)]
pub(crate) enum Fate {
    /// The named test failed.
    Caught,
    /// The named test passed.
    Uncaught,
    /// The test cannot run here.
    NotRun(String),
    /// It could not be tried.
    Error(String),
}

impl Fate {
    /// In a word.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Uncaught => "NOT CAUGHT",
            Self::NotRun(_) => "not run",
            Self::Error(_) => "ERROR",
        }
    }

    /// Why, where the word does not say it.
    fn why(&self) -> Option<&str> {
        match self {
            Self::Caught | Self::Uncaught => None,
            Self::NotRun(why) | Self::Error(why) => Some(why),
        }
    }

    /// True when the run must fail for it.
    pub(crate) fn is_bad(&self) -> bool {
        matches!(self, Self::Uncaught | Self::Error(_))
    }
}

/// Runs the patches that were asked for.
#[expect(clippy::print_stdout, reason = "the table is the product")]
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = root()?;
    let chosen = choose(patch::all(&root)?, arguments)?;
    let mut mutator = Mutator::new(&root)?;
    let start = Instant::now();
    let mut bad = 0;
    for patch in &chosen {
        let (fate, time) = mutator.try_one(patch, !arguments.trust_tests);
        print_fate(patch, &fate, time);
        bad += usize::from(fate.is_bad());
    }
    println!("{} mutations in {:.0} s, {bad} not caught", chosen.len(), start.elapsed().as_secs_f64());
    if bad > 0 {
        bail!("{bad} of {} mutations were not caught by the tests that they name", chosen.len());
    }
    Ok(())
}

/// One line of the table.
#[expect(clippy::print_stdout, reason = "the table is the product")]
pub(crate) fn print_fate(patch: &Patch, fate: &Fate, time: Duration) {
    println!("{:<44} {:<10} {:>4.0} s  {}", patch.name, fate.word(), time.as_secs_f64(), patch.caught_by);
    if matches!(fate, Fate::Uncaught) {
        println!("    {}", patch.breaks);
    }
    for line in fate.why().unwrap_or_default().lines().take(20) {
        println!("    {line}");
    }
}

fn choose(patches: Vec<Patch>, arguments: &Arguments) -> anyhow::Result<Vec<Patch>> {
    if arguments.all {
        return Ok(patches);
    }
    if let Some(some) = arguments.some {
        let seed = arguments.seed.unwrap_or_else(days);
        return Ok(in_rotation(&patches, some, seed));
    }
    if arguments.names.is_empty() {
        bail!("say which: --all, --some N, or names of xtask/mutations");
    }
    let mut chosen = Vec::new();
    for name in &arguments.names {
        let found: Vec<Patch> =
            patches.iter().filter(|patch| patch.name.starts_with(name)).cloned().collect();
        if found.is_empty() {
            bail!("there is no mutation {name} in xtask/mutations");
        }
        chosen.extend(found);
    }
    Ok(chosen)
}

/// `some` patches far from each other, other ones for every seed until all were had.
#[expect(clippy::print_stdout, reason = "what was chosen can be chosen again")]
fn in_rotation(patches: &[Patch], some: usize, seed: u64) -> Vec<Patch> {
    println!("cargo xtask mutate --some {some} --seed {seed}");
    positions(patches.len(), some, seed).into_iter().filter_map(|index| patches.get(index).cloned()).collect()
}

fn positions(count: usize, some: usize, seed: u64) -> Vec<usize> {
    let stride = count.div_ceil(some.max(1)).max(1);
    let offset = usize::try_from(seed % stride as u64).unwrap_or(0);
    (0..count).skip(offset).step_by(stride).collect()
}

/// Days since 1970.
fn days() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / 86_400)
}

/// The workspace.
pub(crate) fn root() -> anyhow::Result<PathBuf> {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(xtask.parent().context("xtask has no parent directory")?.to_owned())
}

/// Where builds go.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// A copy of the code, and what is known of its tests.
pub(crate) struct Mutator {
    scratch: Scratch,
    log: PathBuf,
    /// Whether tests pass without any patch.
    known: BTreeMap<(Name, Environment), Without>,
}

/// Variables of a test.
type Environment = Vec<(String, String)>;

/// How a test ends without any patch.
#[derive(Clone, Debug)]
enum Without {
    Passes,
    Skips(String),
    Fails(&'static str),
}

impl Mutator {
    /// Copies the working tree.
    pub(crate) fn new(root: &Path) -> anyhow::Result<Self> {
        let folder = target(root).join("mutate");
        let scratch = Scratch::new(root, &folder)?;
        Ok(Self { scratch, log: folder.join("test.log"), known: BTreeMap::new() })
    }

    /// Puts a patch in, runs its test and takes it out again.
    pub(crate) fn try_one(&mut self, patch: &Patch, check_tests: bool) -> (Fate, Duration) {
        let start = Instant::now();
        let fate = self.fate(patch, check_tests).unwrap_or_else(|error| Fate::Error(format!("{error:#}")));
        (fate, start.elapsed())
    }

    fn fate(&mut self, patch: &Patch, check_tests: bool) -> anyhow::Result<Fate> {
        let suite = patch.check(&self.scratch.tree)?;
        if check_tests {
            match self.without(patch, suite)? {
                Without::Passes => {}
                Without::Skips(why) => return Ok(skipped(patch, why)),
                Without::Fails(how) => {
                    return Ok(Fate::Error(format!("without the mutation the test {how}")));
                }
            }
        }
        let ran = self.scratch.while_changed(
            &patch.files,
            || patch.apply(&self.scratch.tree),
            || self.build(patch, suite).and_then(|tests| self.run(&tests, patch)),
        )?;
        Ok(match ran {
            Ran::Failed => Fate::Caught,
            Ran::Passed => Fate::Uncaught,
            Ran::Skipped(why) => skipped(patch, why),
            Ran::Silent => Fate::Error(format!("the test did not end within {} s", AT_MOST.as_secs())),
        })
    }

    /// How the test ends as the code is.
    fn without(&mut self, patch: &Patch, suite: Suite) -> anyhow::Result<Without> {
        let key = (patch.caught_by.clone(), patch.with.clone());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let tests = self.build(patch, suite)?;
        let without = match self.run(&tests, patch)? {
            Ran::Passed => Without::Passes,
            Ran::Skipped(why) => Without::Skips(why),
            Ran::Failed => Without::Fails("fails too"),
            Ran::Silent => Without::Fails("does not end"),
        };
        self.known.insert(key, without.clone());
        Ok(without)
    }

    fn build(&self, patch: &Patch, suite: Suite) -> anyhow::Result<Executable> {
        build(&self.scratch.tree, Some(&self.scratch.target), &patch.caught_by.package, suite)
    }

    fn run(&self, tests: &Executable, patch: &Patch) -> anyhow::Result<Ran> {
        // Without a privilege the test must skip, not fail: a lack is no catch.
        let mut environment = vec![("NETLAB_TEST_REQUIRE".to_owned(), String::new())];
        environment.extend(patch.with.iter().cloned());
        Ok(tests.run(&patch.caught_by.test, &environment, &self.log, AT_MOST)?.ran)
    }
}

/// A test that skipped: allowed unless the machine is said to have what it needs.
fn skipped(patch: &Patch, why: String) -> Fate {
    let required = std::env::var("NETLAB_TEST_REQUIRE").unwrap_or_default();
    let has = |need: &String| required.split(',').any(|word| word.trim() == need);
    match patch.needs.as_slice() {
        [] => Fate::Error(format!("the test skips, but the patch says of no need: {why}")),
        needs if needs.iter().all(has) => {
            Fate::Error(format!("NETLAB_TEST_REQUIRE names the needs, but: {why}"))
        }
        _ => Fate::NotRun(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_applies_and_the_test_that_it_names_exists() {
        let root = root().expect("the workspace");
        let patches = patch::all(&root).expect("patches that can be read");
        let bad: Vec<String> = patches
            .iter()
            .filter_map(|patch| Some(format!("{}: {:#}", patch.name, patch.check(&root).err()?)))
            .collect();
        assert!(bad.is_empty(), "mutations that are out of date:\n{}", bad.join("\n"));
        assert!(patches.len() >= 16, "{} mutations", patches.len());
    }

    #[test]
    fn rotation_has_every_mutation_in_its_turn() {
        for (count, some) in [(24, 2), (23, 2), (5, 3), (1, 2), (7, 7)] {
            let mut had: Vec<usize> =
                (0..count as u64).flat_map(|seed| positions(count, some, seed)).collect();
            assert!((0..count as u64).all(|seed| positions(count, some, seed).len() <= some.max(1)));
            had.sort_unstable();
            had.dedup();
            assert_eq!(had, (0..count).collect::<Vec<_>>(), "{some} of {count}");
        }
    }
}
