//! What a packet costs in the kernel, as JSON for `cargo xtask bench datapath`: nanoseconds, every run.
//!
//! Invariant: everything happens in namespaces that die with the process. A figure of the program is net of the empty
//! classifier; one of traffic is the processor time of a whole packet.

mod figure;
mod packet;
mod site;
mod traffic;

use figure::{Failure, Row};

/// How many peers; each has a class of its own.
const PEERS: [u32; 4] = [1, 100, 10_000, 100_000];

#[expect(clippy::print_stdout, reason = "the figures are the product")]
fn main() -> Result<(), Failure> {
    // `cargo bench` says so; `cargo test --benches` does not, and measures nothing.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let mut rows: Vec<Row> = Vec::new();
    for peers in PEERS {
        rows.extend(packet::rows(peers)?);
    }
    rows.extend(packet::growth(&rows));
    rows.extend(packet::spread_over_peers()?);
    rows.extend(traffic::rows()?);
    println!("{}", serde_json::to_string_pretty(&rows)?);
    Ok(())
}
