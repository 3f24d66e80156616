//! `netlab version`.

use netlab_core::envelope::Envelope;
use netlab_ebpf::abi::ABI_VERSION;
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::terminal::Terminal;

/// What this build is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    /// Of the command and its libraries.
    version: &'static str,
    /// Of the map layouts.
    abi_version: u32,
}

/// Prints the version.
pub(crate) fn run(terminal: &Terminal) -> Result<Exit, Failure> {
    let version = Version { version: env!("CARGO_PKG_VERSION"), abi_version: ABI_VERSION };
    terminal.answer(&Envelope::new("Version", &version, Vec::new()), |_| {
        format!("netlab {}\nmap layout {}\n", version.version, version.abi_version)
    })?;
    Ok(Exit::Yes)
}
