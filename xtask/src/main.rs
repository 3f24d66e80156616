//! `cargo xtask`: tasks for who works on netlab, never for who uses it.
//!
//! One variant of [`Task`] and one file per task. Nothing that ships depends on this crate.

use clap::{Parser, Subcommand};

mod bench;
mod bpf;
mod corefiles;
mod dns_peers;
mod docs;
mod mutate;
mod peers;
mod soak;
mod tests_of;

#[derive(Parser)]
#[command(name = "xtask", about = "Tasks for who works on netlab")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure what the documents promise.
    Bench(bench::Arguments),
    /// Build the BPF object and put it where the enforcer embeds it, or check that it is current.
    Bpf(bpf::Arguments),
    /// Ask a real CoreDNS again what it makes of the recorded Corefiles.
    Corefiles,
    /// Compare real DNS servers and resolvers with the lab's server, the models and the diagnosis.
    DnsPeers(dns_peers::Arguments),
    /// Write the pages of docs that are generated, or check that they are current.
    Docs(docs::Arguments),
    /// Put known faults into a copy of the code, one at a time, and want each caught by a test.
    Mutate(mutate::Arguments),
    /// Let a real kube-proxy write its rules, and read them back.
    Peers(peers::Arguments),
    /// Everything that is random, again and again with other seeds, and every mutation once.
    Soak(soak::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Bpf(arguments) => bpf::run(&arguments),
        Task::Corefiles => corefiles::run(),
        Task::DnsPeers(arguments) => dns_peers::run(&arguments),
        Task::Docs(arguments) => docs::run(&arguments),
        Task::Mutate(arguments) => mutate::run(&arguments),
        Task::Peers(arguments) => peers::run(&arguments),
        Task::Soak(arguments) => soak::run(&arguments),
    }
}
