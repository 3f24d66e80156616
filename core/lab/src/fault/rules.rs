//! Tables of nftables, one for each fault and place.
//!
//! Invariant: a fault's rules are in a table of their own, named after it, and are replaced and removed as a whole; no other
//! table is touched.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::error::LabError;
use crate::place::Place;
use crate::topology::Lab;

/// What tables are in, by place and fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    chains: BTreeMap<(Place, String), String>,
}

impl Tables {
    /// Has these tables in the lab and no others. What could not be done is still to be done the next time.
    pub fn set(&mut self, lab: &Lab, wanted: BTreeMap<(Place, String), String>) -> Result<(), LabError> {
        let gone = self.chains.iter().filter(|(key, chains)| wanted.get(*key) != Some(*chains));
        for key in gone.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            let table = name(&key.1);
            run(lab, &key.0, &format!("table inet {table} {{ }}\ndelete table inet {table}\n"))?;
            self.chains.remove(&key);
        }
        for (key, chains) in wanted {
            if self.chains.contains_key(&key) {
                continue;
            }
            run(lab, &key.0, &format!("table inet {} {{\n{chains}}}\n", name(&key.1)))?;
            self.chains.insert(key, chains);
        }
        Ok(())
    }
}

fn name(fault: &str) -> String {
    format!("netlab-fault-{fault}")
}

/// Gives `nft` at a place a file of commands, which it takes as a whole or not at all.
pub(super) fn run(lab: &Lab, place: &Place, commands: &str) -> Result<(), LabError> {
    let failed = |said: String| LabError::Proxy { place: place.clone(), command: "nft", said };
    let work = || -> std::io::Result<std::process::Output> {
        let mut child = Command::new("nft")
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that ends early says why itself.
            let _ = stdin.write_all(commands.as_bytes());
        }
        child.wait_with_output()
    };
    let output = lab
        .netns(place)?
        .run(work)
        .map_err(|source| LabError::Enter { place: place.clone(), source })?
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
