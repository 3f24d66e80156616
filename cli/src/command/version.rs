//! `netlab version`.

use netlab_core::envelope::Envelope;
use netlab_ebpf::abi::ABI_VERSION;
use netlab_enforcer::object;
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::terminal::Terminal;

/// What this build is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the field names are the JSON's")]
struct Version {
    /// Of the command and its libraries.
    version: &'static str,
    /// Of the map layouts.
    abi_version: u32,
    /// SHA-256 of the eBPF object that is built in.
    object_sha256: String,
}

/// Prints the version.
pub(crate) fn run(terminal: &Terminal) -> Result<Exit, Failure> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        abi_version: ABI_VERSION,
        object_sha256: object::hash(),
    };
    terminal.answer(&Envelope::new("Version", &version, Vec::new()), |_| {
        format!(
            "netlab {}\nmap layout  {}\nobject      sha256 {}\n",
            version.version, version.abi_version, version.object_sha256
        )
    })?;
    Ok(Exit::Yes)
}
