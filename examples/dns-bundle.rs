//! Was it DNS? A bundle, diagnosed in a few lines:
//!
//!     cargo run -p netlab-dnsdiag --example dns-bundle [DIR]
#![expect(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use std::path::PathBuf;

use netlab_dnsdiag::bundle;
use netlab_dnsdiag::check::Registry;
use netlab_dnsdiag::diagnose;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/dns-bundle");
    let directory = std::env::args_os().nth(1).map_or_else(|| PathBuf::from(shipped), PathBuf::from);

    let bundle = bundle::read(&directory)?;
    let diagnosis = diagnose(&bundle.target, &bundle.evidence, &Registry::default());

    let verdict = &diagnosis.verdict;
    println!("{}: {} ({})", verdict.class.as_str(), verdict.summary, verdict.id.unwrap_or("-"));
    for line in diagnosis.because.iter().chain(&diagnosis.fixes).chain(&diagnosis.verify) {
        println!("  {line}");
    }
    println!("  resting on {}", verdict.evidence.join(", "));
    Ok(())
}
