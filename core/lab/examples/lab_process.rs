//! A program with labs of its own, as small as it gets: what a command line has to do to embed them.
//!
//! `supervise` is the hidden subcommand that [`netlab_lab::named::up`] starts, `up` starts it (the order comes on
//! standard input), `exec` runs a command in a place of a lab, `send` sends packets in a rootless one. `die STEP` builds a lab, says what it has made so
//! far, and kills itself at that step: the tests look what is left then.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use netlab_lab::named::{self, Client, Handler, Reply, RunDir, Spec, supervise_on_stdin};
use netlab_lab::topology::Step;
use netlab_lab::traffic::{self, Packet, Wait, protocol};
use netlab_lab::{Lab, Place, Plan};
use serde_json::{Value, json};

/// Stands where an enforcer would.
struct Example {
    payload: Value,
}

impl Handler for Example {
    fn handle(
        &self,
        lab: &Lab,
        operation: &str,
        parameters: &Value,
        reply: &mut Reply<'_>,
    ) -> Result<Value, String> {
        match operation {
            "payload" => Ok(self.payload.clone()),
            "count" => Ok(json!(lab.host_interfaces().len())),
            "trace" => {
                for number in 0.. {
                    if reply.event(&json!({ "number": number, "of": parameters })).is_err() || reply.is_gone()
                    {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                Ok(Value::Null)
            }
            "hang" => loop {
                std::thread::park();
            },
            _ => Err(format!("no such operation: {operation}")),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["supervise"] => Ok(supervise_on_stdin(|_, payload| {
            if let Some(milliseconds) = payload.get("sleep").and_then(Value::as_u64) {
                std::thread::sleep(Duration::from_millis(milliseconds));
            }
            match payload.get("fail") {
                Some(reason) => Err(format!("told to fail: {reason}")),
                None => Ok(Box::new(Example { payload: payload.clone() })),
            }
        })?),
        ["up"] => {
            let spec: Spec = serde_json::from_reader(std::io::stdin())?;
            let mut supervisor = Command::new(std::env::current_exe()?);
            supervisor.arg("supervise");
            let state = named::up(&spec, supervisor)?;
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&state)?)?;
            Ok(())
        }
        ["exec", run_dir, name, place, program, arguments @ ..] => {
            let entry = Client::connect(&RunDir::at(run_dir), name)?.entry(&place.parse::<Place>()?)?;
            Err(entry.exec(Command::new(program).args(arguments)).into())
        }
        ["send"] => send(),
        ["die", step] => die(step.parse()?),
        _ => Err("usage: lab_process supervise | up | exec DIR NAME PLACE COMMAND… | send | die STEP".into()),
    }
}

fn send() -> Result<(), Box<dyn std::error::Error>> {
    let plan: Plan = serde_json::from_reader(std::io::stdin())?;
    netlab_lab::enter_user_namespace()?;
    let lab = Lab::build(&plan)?;
    let (from, to) = (Place::pod("shop", "web"), Place::pod("shop", "db"));
    for (source, destination) in plan.addresses_of(&from).iter().zip(plan.addresses_of(&to)) {
        let icmp = if source.is_ipv6() { protocol::ICMPV6 } else { protocol::ICMP };
        for protocol in [protocol::TCP, protocol::UDP, protocol::SCTP, icmp, 253] {
            let packet = Packet {
                from: from.clone(),
                to: to.clone(),
                source: *source,
                destination: *destination,
                protocol,
                port: 5432,
                source_port: None,
            };
            let sent = traffic::send(&lab, &packet, &Wait::for_at_most(Duration::from_secs(5)))?;
            writeln!(std::io::stdout(), "{source} -> {destination} protocol {protocol}: {sent}")?;
        }
    }
    Ok(())
}

fn die(at: usize) -> Result<(), Box<dyn std::error::Error>> {
    let plan: Plan = serde_json::from_reader(std::io::stdin())?;
    let mut number = 0;
    let mut observe = |step: Step| {
        if let Step::Namespace(_, inode) = step {
            // The reader may be gone; then there is nobody to tell.
            let _ = writeln!(std::io::stdout(), "{inode}");
        }
        if number == at {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
        }
        number += 1;
    };
    let lab = Lab::build_observed(&plan, &mut observe)?;
    writeln!(std::io::stdout(), "stands after {number} steps")?;
    let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
    drop(lab);
    Ok(())
}
