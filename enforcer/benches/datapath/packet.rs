//! The program alone, by test run (`BPF_PROG_TEST_RUN`): "one peer" is the same packet again and again, its keys in the
//! processor's caches; "random peers" is one run each for packets of peers far apart.

use std::net::IpAddr;

use netlab_core::policy::frame::{Tuple, opening};
use netlab_ebpf::abi::Direction;
use netlab_enforcer::Datapath;
use netlab_enforcer::backend::tc::TcBackend;
use netlab_plugin::contract::Backend as _;

use crate::figure::{Failure, Row, median};
use crate::site::{CLOSED, DB, OPEN, OPTIONS, Site, peer};

const RUNS: usize = 7;
/// Packets of one run where each is another one.
const SINGLE: u32 = 2_000;
const TCP: u8 = 6;
/// Offset of the flags in a TCP header, and the flag of a segment within a connection.
const FLAGS: usize = 13;
const ACK: u8 = 0x10;

/// Promised nanoseconds: pods without policies, known flows, denied new flows with their event, allowed new flows.
const OPEN_POD: f64 = 15.0;
const KNOWN: [f64; 2] = [50.0, 70.0];
const DENIED: f64 = 160.0;
const ALLOWED: [f64; 2] = [450.0, 700.0];
/// Promised ratios: 100,000 peers to 1, and random ones of 60,000 to those of 10,000.
const GROWTH: f64 = 1.15;
const SPREAD: f64 = 1.3;

/// What is measured again for every number of peers, by family.
const CASES: [&str; 3] = ["known flow", "denied new flow, with its event", "allowed new flow"];

fn family(ipv6: bool) -> &'static str {
    if ipv6 { "IPv6" } else { "IPv4" }
}

fn part(peers: u32) -> String {
    format!("one packet in the program, {peers} {}", if peers == 1 { "peer" } else { "peers" })
}

/// A TCP SYN from a peer to `db`.
fn syn(index: u32, ipv6: bool, source_port: u16, destination_port: u16) -> Vec<u8> {
    let (source, destination): (IpAddr, IpAddr) =
        if ipv6 { (peer(index).1.into(), DB.1.into()) } else { (peer(index).0.into(), DB.0.into()) };
    let tuple = Tuple { source, destination, protocol: TCP, source_port, destination_port };
    // Both ends have one family.
    opening(&tuple).unwrap_or_default()
}

/// The same as a segment within a connection.
fn within(mut frame: Vec<u8>, ipv6: bool) -> Vec<u8> {
    if let Some(flags) = frame.get_mut(14 + if ipv6 { 40 } else { 20 } + FLAGS) {
        *flags = ACK;
    }
    frame
}

/// Some peer of so many, far from the one before.
fn scattered(step: u32, peers: u32) -> u32 {
    step.wrapping_mul(2_654_435_761) % peers
}

/// A program on tables for so many peers, and what a test run costs without it.
struct Bench<'a> {
    kernel: &'a mut Datapath,
    peers: u32,
    db: u32,
    web: u32,
    /// Of many runs in one call, and of one.
    nothing: [f64; 2],
    source_port: u16,
}

impl Bench<'_> {
    fn row(&self, what: String, runs: Vec<f64>, target: Option<f64>) -> Row {
        Row { part: part(self.peers), what, unit: "ns", runs, target }
    }

    /// One packet again and again.
    fn again(
        &mut self,
        direction: Direction,
        interface: u32,
        frame: &[u8],
        times: u32,
    ) -> Result<Vec<f64>, Failure> {
        (0..RUNS)
            .map(|_| {
                self.kernel.events().drain();
                let nanoseconds = self.kernel.time(direction, frame, interface, self.web, times)?;
                Ok((f64::from(nanoseconds) - self.nothing[0]).max(0.0))
            })
            .collect()
    }

    /// Packets that differ, each once; the median of each run.
    fn once(&mut self, mut frame: impl FnMut(u32) -> Vec<u8>) -> Result<Vec<f64>, Failure> {
        let mut runs = Vec::new();
        for run in 0..RUNS {
            let mut all = Vec::new();
            for step in 0..SINGLE {
                let frame = frame(u32::try_from(run)? * SINGLE + step);
                all.push(f64::from(self.kernel.time(Direction::Ingress, &frame, self.db, self.web, 1)?));
            }
            self.kernel.events().drain();
            runs.push((median(all) - self.nothing[1]).max(0.0));
        }
        Ok(runs)
    }

    fn next_port(&mut self) -> u16 {
        self.source_port = self.source_port.checked_add(1).unwrap_or(1024);
        self.source_port
    }

    /// Opens flows that the next packets belong to.
    fn open(&mut self, count: u32, ipv6: bool) -> Result<(), Failure> {
        self.kernel.state().forget_flows()?;
        for index in 0..count {
            let run = self.kernel.test_run(
                Direction::Ingress,
                &syn(index, ipv6, 40_000, OPEN),
                self.db,
                self.web,
            )?;
            if !run.allow {
                return Err(format!("peer {index} should be allowed").into());
            }
        }
        Ok(())
    }

    /// The three cases from the same peer.
    fn one_peer(&mut self, ipv6: bool) -> Result<Vec<Row>, Failure> {
        let target = usize::from(ipv6);
        self.open(1, ipv6)?;
        let known =
            self.again(Direction::Ingress, self.db, &within(syn(0, ipv6, 40_000, OPEN), ipv6), 200_000)?;
        let denied = self.again(Direction::Ingress, self.db, &syn(0, ipv6, 40_000, CLOSED), 40_000)?;
        let mut port = self.next_port();
        let allowed = self.once(|_| {
            port = port.checked_add(1).unwrap_or(1024);
            syn(0, ipv6, port, OPEN)
        })?;
        let targets = [KNOWN[target], DENIED, ALLOWED[target]];
        let rows = CASES.into_iter().zip([known, denied, allowed]).zip(targets);
        Ok(rows
            .map(|((case, runs), target)| {
                self.row(format!("{case}, {}, one peer", family(ipv6)), runs, Some(target))
            })
            .collect())
    }

    /// The three cases from peers far apart.
    fn random_peers(&mut self, ipv6: bool) -> Result<Vec<Row>, Failure> {
        let peers = self.peers;
        let flows = peers.min(50_000);
        self.open(flows, ipv6)?;
        let known = self.once(|step| within(syn(scattered(step, flows), ipv6, 40_000, OPEN), ipv6))?;
        let denied = self.once(|step| syn(scattered(step, peers), ipv6, 40_000, CLOSED))?;
        let mut port = self.next_port();
        let allowed = self.once(|step| {
            port = port.checked_add(1).unwrap_or(1024);
            syn(scattered(step, peers), ipv6, port, OPEN)
        })?;
        let rows = CASES.into_iter().zip([known, denied, allowed]);
        Ok(rows
            .map(|(case, runs)| self.row(format!("{case}, {}, random peers", family(ipv6)), runs, None))
            .collect())
    }
}

/// Puts tables for so many peers into the kernel and measures on them.
fn on_tables(
    peers: u32,
    measure: impl FnOnce(&mut Bench<'_>) -> Result<Vec<Row>, Failure> + Send,
) -> Result<Vec<Row>, Failure> {
    let site = Site::new()?;
    let mut backend = TcBackend::load(site.node()?.try_clone()?, &OPTIONS).map_err(|error| error.message)?;
    backend.apply(&site.change(peers)?).map_err(|error| error.message)?;
    let (db, web) = (site.interface("db")?, site.interface("web")?);
    site.node()?.run(|| {
        let frame = syn(0, false, 40_000, OPEN);
        let many = (0..RUNS).map(|_| Datapath::time_nothing(&frame, 200_000).map(f64::from));
        let single = (0..SINGLE).map(|_| Datapath::time_nothing(&frame, 1).map(f64::from));
        let nothing = [median(many.collect::<Result<_, _>>()?), median(single.collect::<Result<_, _>>()?)];
        measure(&mut Bench { kernel: backend.datapath_mut(), peers, db, web, nothing, source_port: 1024 })
    })?
}

/// All cases for so many peers.
pub(crate) fn rows(peers: u32) -> Result<Vec<Row>, Failure> {
    on_tables(peers, |bench| {
        let mut rows = Vec::new();
        if peers == 1 {
            let web = bench.web;
            let to = {
                let (source, destination) = (IpAddr::from(DB.0), IpAddr::from(peer(0).0));
                opening(&Tuple {
                    source,
                    destination,
                    protocol: TCP,
                    source_port: 40_000,
                    destination_port: OPEN,
                })
            };
            let to = bench.again(Direction::Ingress, web, &to.unwrap_or_default(), 200_000)?;
            let from = bench.again(Direction::Egress, web, &syn(0, false, 40_000, OPEN), 200_000)?;
            rows.push(bench.row("to a pod without policies".to_owned(), to, Some(OPEN_POD)));
            rows.push(bench.row("from a pod without policies".to_owned(), from, Some(OPEN_POD)));
        }
        for ipv6 in [false, true] {
            rows.extend(bench.one_peer(ipv6)?);
        }
        if peers > 1 {
            for ipv6 in [false, true] {
                rows.extend(bench.random_peers(ipv6)?);
            }
        }
        Ok(rows)
    })
}

/// How the figures of one peer's packets grow from the fewest peers to the most.
pub(crate) fn growth(rows: &[Row]) -> Vec<Row> {
    let [fewest, .., most] = crate::PEERS;
    let of = |peers: u32, what: &str| {
        rows.iter().find(|row| row.part == part(peers) && row.what == what).map(Row::median)
    };
    let first = part(fewest);
    rows.iter()
        .filter(|row| row.part == first && row.what.ends_with("one peer"))
        .filter_map(|row| {
            let ratio = of(most, &row.what)? / row.median().max(1.0);
            Some(Row {
                part: format!("ratio of {most} peers to {fewest}"),
                what: row.what.clone(),
                unit: "x",
                runs: vec![ratio],
                target: Some(GROWTH),
            })
        })
        .collect()
}

/// How packets of random peers fare among 60,000 against 10,000.
pub(crate) fn spread_over_peers() -> Result<Vec<Row>, Failure> {
    let (fewer, more) = (
        on_tables(10_000, |bench| bench.random_peers(false))?,
        on_tables(60_000, |bench| bench.random_peers(false))?,
    );
    let ratios = more.iter().zip(&fewer).map(|(more, fewer)| Row {
        part: "ratio of random peers among 60000 to 10000".to_owned(),
        what: more.what.clone(),
        unit: "x",
        runs: vec![more.median() / fewer.median().max(1.0)],
        target: Some(SPREAD),
    });
    Ok(ratios.collect())
}
