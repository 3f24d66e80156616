//! `cargo xtask soak`: everything that is random, again and again with other seeds, until the time is up; and every
//! mutation once.
//!
//! Invariant: a run is told by the one command that makes it again; what was not run is listed, never left out.

mod lane;
mod tally;

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::bail;

use self::lane::Lane;
use self::tally::Tally;
use crate::mutate::{Mutator, patch, print_fate, root, target};
use crate::tests_of::{Name, Suite, build};

/// `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How long; every test runs at least once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_080))]
    minutes: u64,
    /// The first seed, from which the others follow.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

/// A test that takes its worlds from `NETLAB_SEED`.
struct Leg {
    what: &'static str,
    package: &'static str,
    test: &'static str,
}

/// Those that are slow because they compute.
const COMPUTING: &[Leg] = &[
    Leg {
        what: "oracle = engine",
        package: "netlab-core",
        test: "the_engine_agrees_with_the_oracle_on_random_worlds",
    },
    Leg {
        what: "oracle = engine = test-run",
        package: "netlab-enforcer",
        test: "the_program_agrees_with_the_oracle_and_the_engine_on_random_worlds",
    },
    Leg { what: "Corefile, kubelet, resolv.conf", package: "netlab-dnsdiag", test: "no_text_is_too_much" },
    Leg { what: "damaged bundles", package: "netlab-dnsdiag", test: "damaged_bundles_are_refused_or_judged" },
    Leg {
        what: "changed DNS messages",
        package: "netlab-dnsdiag",
        test: "messages_that_were_changed_on_the_way_are_read_or_refused",
    },
    Leg { what: "resolv.conf of any bytes", package: "netlab-dnsdiag", test: "any_bytes_can_be_read" },
    Leg {
        what: "plans of any lookup",
        package: "netlab-dnsdiag",
        test: "plans_of_random_lookups_hold_together",
    },
    Leg {
        what: "plans of any file and name",
        package: "netlab-dnsdiag",
        test: "plans_of_anything_hold_together",
    },
    Leg {
        what: "changed dumps of Services",
        package: "netlab-core",
        test: "changed_dumps_are_read_or_refused_with_their_place",
    },
];

/// Those that are slow because they wait for packets.
const WAITING: &[Leg] = &[
    Leg {
        what: "oracle = engine = nft on the wire",
        package: "netlab-enforcer",
        test: "random_worlds_are_counted_by_nft_as_the_tables_say",
    },
    Leg {
        what: "oracle = engine = tc on the wire",
        package: "netlab-enforcer",
        test: "random_worlds_are_counted_by_tc_as_the_tables_say",
    },
    Leg {
        what: "plans = glibc, musl",
        package: "netlab-dnsdiag",
        test: "the_real_libraries_do_what_is_planned",
    },
];

/// Modules of the enforcer's tests that change policies under load.
const FLIPS: &str = "flip_";

/// Runs until the time is up.
#[expect(clippy::print_stdout, reason = "the summary is the product")]
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = root()?;
    let seed = arguments.seed.unwrap_or_else(now);
    println!("cargo xtask soak --minutes {} --seed {seed}", arguments.minutes);
    let core = build(&root, None, "netlab-core", Suite::Integration)?;
    let dnsdiag = build(&root, None, "netlab-dnsdiag", Suite::Integration)?;
    let enforcer = build(&root, None, "netlab-enforcer", Suite::Integration)?;
    let flips: Vec<Name> = enforcer
        .list()?
        .into_iter()
        .filter(|test| test.starts_with(FLIPS))
        .map(|test| Name { package: "netlab-enforcer".to_owned(), test })
        .collect();
    let log = target(&root).join("soak");
    std::fs::create_dir_all(&log)?;
    let tally = Mutex::new(Tally::default());
    let end = Instant::now() + Duration::from_secs(arguments.minutes * 60);
    let start = Instant::now();
    let mut lanes = [Lane::new(&log, "computing", seed), Lane::new(&log, "waiting", seed)];
    for (lane, legs) in lanes.iter_mut().zip([COMPUTING, WAITING]) {
        for leg in legs {
            let tests = match leg.package {
                "netlab-core" => &core,
                "netlab-dnsdiag" => &dnsdiag,
                _ => &enforcer,
            };
            lane.add(leg.what, Name { package: leg.package.to_owned(), test: leg.test.to_owned() }, tests);
        }
    }
    if flips.is_empty() {
        tally
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .not_run("flips under load: there is no such test");
    }
    for flip in flips {
        lanes[1].add("flips under load", flip, &enforcer);
    }
    let [mut computing, mut waiting] = lanes;
    std::thread::scope(|scope| {
        scope.spawn(|| waiting.run(end, &tally));
        computing.round(end, &tally);
        mutations(&root, end, &tally);
        computing.run(end, &tally);
    });
    let tally = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    println!("\n{} s of soak, seed {seed}\n{tally}", start.elapsed().as_secs());
    match tally.faults() {
        0 => Ok(()),
        faults => bail!("{faults} faults; each is told above with the command that shows it again"),
    }
}

/// Every mutation once, as long as there is time.
fn mutations(root: &Path, end: Instant, tally: &Mutex<Tally>) {
    let tell = |change: &dyn Fn(&mut Tally)| {
        change(&mut tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    };
    let mut mutator = match Mutator::new(root) {
        Ok(mutator) => mutator,
        Err(error) => return tell(&|tally| tally.fault(&format!("mutations: {error:#}"))),
    };
    let patches = match patch::all(root) {
        Ok(patches) => patches,
        Err(error) => return tell(&|tally| tally.fault(&format!("mutations: {error:#}"))),
    };
    let mut left_out: Vec<&str> = Vec::new();
    for patch in &patches {
        if Instant::now() >= end {
            left_out.push(&patch.name);
            continue;
        }
        let (fate, time) = mutator.try_one(patch, true);
        print_fate(patch, &fate, time);
        tell(&|tally| tally.mutation(patch, &fate));
    }
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        tell(&|tally| tally.not_run(&format!("{} mutations, no time was left: {names}", left_out.len())));
    }
}

fn now() -> u64 {
    let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    u64::try_from(nanoseconds % u128::from(u32::MAX)).unwrap_or(0)
}
