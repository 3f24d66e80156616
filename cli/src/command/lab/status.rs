//! `netlab lab status`: which labs are up, and who lives in them.

use netlab_core::envelope::Envelope;
use netlab_lab::Place;
use netlab_lab::named::State;
use serde::Serialize;

use crate::args::lab::Which;
use crate::command::lab::{failure, run_dir};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::table::Table;
use crate::output::terminal::Terminal;

/// The answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    labs: Vec<LabLine>,
}

/// A lab.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LabLine {
    name: String,
    pid: u32,
    /// In seconds since 1970.
    created: u64,
    nodes: Vec<String>,
    pods: Vec<String>,
    processes: Vec<ProcessLine>,
}

/// A process that lives in a lab.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProcessLine {
    pid: u32,
    command: String,
    place: String,
}

/// Lists.
pub(crate) fn run(args: &Which, terminal: &Terminal) -> Result<Exit, Failure> {
    let run_dir = run_dir();
    let states = match &args.lab {
        Some(name) => run_dir.find(name).map(|state| vec![state]),
        None => run_dir.list(),
    };
    let states = states.map_err(|error| failure(&error, &run_dir))?;
    let answer = Answer { labs: states.iter().map(LabLine::from).collect() };
    let detailed = args.lab.is_some();
    terminal.answer(&Envelope::new("Labs", &answer, Vec::new()), |_| render(&answer, detailed))?;
    Ok(Exit::Yes)
}

impl From<&State> for LabLine {
    fn from(state: &State) -> Self {
        let (mut nodes, mut pods) = (Vec::new(), Vec::new());
        for place in state.namespaces.keys() {
            match place {
                Place::Node(name) => nodes.push(name.clone()),
                Place::Pod(key) => pods.push(key.to_string()),
                Place::Fabric => {}
            }
        }
        let processes = state.processes().into_iter().map(|process| ProcessLine {
            pid: process.pid,
            command: process.command,
            place: process.place.to_string(),
        });
        Self {
            name: state.name.clone(),
            pid: state.pid,
            created: state.created,
            nodes,
            pods,
            processes: processes.collect(),
        }
    }
}

fn render(answer: &Answer, detailed: bool) -> String {
    if answer.labs.is_empty() {
        return "no lab is up\n".to_owned();
    }
    let mut table = Table::new(["LAB", "PID", "NODES", "PODS", "PROCESSES"]);
    for lab in &answer.labs {
        let numbers = [lab.nodes.len(), lab.pods.len(), lab.processes.len()].map(|number| number.to_string());
        table.row([lab.name.clone(), lab.pid.to_string()].into_iter().chain(numbers));
    }
    let mut text = table.finish();
    for lab in answer.labs.iter().filter(|_| detailed) {
        text += "\n";
        let mut places = Table::new(["PLACE", "PROCESSES"]);
        let all = lab.nodes.iter().map(|node| format!("node/{node}")).chain(lab.pods.iter().cloned());
        for place in all {
            let within = |process: &&ProcessLine| process.place.trim_start_matches("pod/") == place;
            let processes: Vec<String> = lab
                .processes
                .iter()
                .filter(within)
                .map(|process| format!("{} ({})", process.command, process.pid))
                .collect();
            places.row([place, processes.join(", ")]);
        }
        text += &places.finish();
    }
    text
}
