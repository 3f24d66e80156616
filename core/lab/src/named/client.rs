//! The command's side: start a supervisor, talk to it, enter its lab, end it.
//!
//! Invariant: [`up`] returns when the lab stands or is gone; [`down`] returns when the supervisor is gone.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netlab_node::Netns;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::files::{File, Files};
use super::protocol::{Answer, Lines, Request};
use super::state::{Process, RunDir, State, start_time};
use super::{DNS, Spec, check_name};
use crate::dns::{Counts, Server};
use crate::error::LabError;
use crate::place::Place;

/// How long a supervisor may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(3);

/// Starts a supervisor and waits until its lab stands. `command` re-executes this program so that it calls
/// [`super::supervise_on_stdin`]; its standard input and output are taken care of here.
pub fn up(spec: &Spec, mut command: Command) -> Result<State, LabError> {
    check_name(&spec.name)?;
    spec.run_dir.prepare()?;
    // What killed ones left goes first, whatever their names.
    let _ = spec.run_dir.list();
    if let Ok(state) = spec.run_dir.find(&spec.name) {
        return Err(LabError::AlreadyUp { name: state.name, pid: state.pid });
    }
    let fail = |action: &str, error: io::Error| LabError::Supervisor {
        name: spec.name.clone(),
        reason: format!("cannot {action}: {error}"),
    };
    let (ours, theirs) = UnixStream::pair().map_err(|error| fail("make a channel", error))?;
    let mut child = command
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| fail("start the supervisor", error))?;
    // The command keeps the far end of the channel as long as it lives; without it, an end that dies shows.
    drop(command);
    let mut lines = Lines::new(ours);
    let answer = lines.send(spec, &[]).and_then(|()| lines.receive::<Answer>());
    match answer {
        Ok(Some(Answer::Result(state))) => {
            let state =
                serde_json::from_value(state).map_err(|error| fail("read the state", error.into()))?;
            // Whoever lives longer than the lab should not be left with a zombie.
            let _ = std::thread::Builder::new().spawn(move || child.wait());
            Ok(state)
        }
        Ok(Some(Answer::Error(reason))) => {
            let _ = child.wait();
            Err(LabError::Supervisor { name: spec.name.clone(), reason })
        }
        Ok(Some(Answer::Event(_)) | None) | Err(_) => {
            let _ = child.kill();
            let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
            let reason = format!("the supervisor ended before the lab stood ({status})");
            Err(LabError::Supervisor { name: spec.name.clone(), reason })
        }
    }
}

/// A connection to a lab's supervisor.
#[derive(Debug)]
pub struct Client {
    run_dir: RunDir,
    state: State,
    lines: Lines,
}

impl Client {
    /// Connects to a lab that is up.
    pub fn connect(run_dir: &RunDir, name: &str) -> Result<Self, LabError> {
        let state = run_dir.find(name)?;
        let path = run_dir.socket(name);
        let stream = UnixStream::connect(&path).map_err(|source| LabError::State {
            action: "connect to",
            path,
            source,
        })?;
        Ok(Self { run_dir: run_dir.clone(), state, lines: Lines::new(stream) })
    }

    /// What is known of the lab.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Asks for an operation and waits for its result.
    pub fn ask(&mut self, operation: &str, parameters: Value) -> Result<Value, LabError> {
        self.follow(operation, parameters, |_| true)
    }

    /// Asks for an operation and hands its events to `each` as they come, until the result or until `each` says
    /// false; then the result is null.
    pub fn follow(
        &mut self,
        operation: &str,
        parameters: Value,
        mut each: impl FnMut(Value) -> bool,
    ) -> Result<Value, LabError> {
        let request = Request { operation: operation.to_owned(), parameters };
        self.lines.send(&request, &[]).map_err(|error| self.lost(&error))?;
        loop {
            match self.lines.receive::<Answer>() {
                Ok(Some(Answer::Event(event))) => {
                    if !each(event) {
                        return Ok(Value::Null);
                    }
                }
                Ok(Some(Answer::Result(result))) => return Ok(result),
                Ok(Some(Answer::Error(reason))) => {
                    return Err(LabError::Supervisor { name: self.state.name.clone(), reason });
                }
                Ok(None) => return Err(self.lost(&io::ErrorKind::UnexpectedEof.into())),
                Err(error) => return Err(self.lost(&error)),
            }
        }
    }

    /// The way into a place of the lab.
    pub fn entry(&mut self, place: &Place) -> Result<Entry, LabError> {
        self.ask("netns", json!(place))?;
        let mut descriptors = self.lines.take_descriptors().into_iter();
        let Some(netns) = descriptors.next() else {
            return Err(self.lost(&io::Error::other("no descriptor came")));
        };
        let netns = Netns::from_fd(netns).map_err(|error| self.lost(&error))?;
        let files = self.run_dir.files(&self.state.name, place);
        Ok(Entry { place: place.clone(), netns, user: descriptors.next(), files })
    }

    /// The lab's DNS servers, with what they have counted; none unless the lab has DNS.
    pub fn dns(&mut self) -> Result<Vec<(Server, Counts)>, LabError> {
        let answer = self.ask(DNS, Value::Null)?;
        serde_json::from_value(answer).map_err(|error| self.lost(&error.into()))
    }

    fn lost(&self, error: &io::Error) -> LabError {
        LabError::Supervisor {
            name: self.state.name.clone(),
            reason: format!("the supervisor (pid {}) does not answer: {error}", self.state.pid),
        }
    }
}

/// The way into a place.
#[derive(Debug)]
pub struct Entry {
    place: Place,
    netns: Netns,
    user: Option<OwnedFd>,
    files: Files,
}

impl Entry {
    /// Its network namespace. That of a rootless lab can be used from inside its user namespace only.
    pub const fn netns(&self) -> &Netns {
        &self.netns
    }

    /// What a libc there reads about names. The files are there if the lab has DNS.
    pub const fn files(&self) -> &Files {
        &self.files
    }

    /// Becomes the command, inside the place and with its files. Returns only when that fails; then the calling thread may be in
    /// the lab already, and the process should end. For a rootless lab the process must have one thread.
    pub fn exec(self, command: &mut Command) -> LabError {
        let enter = || -> Result<(), netlab_node::NodeError> {
            if let Some(user) = &self.user
                && !is_own_user_namespace(user)
            {
                setns(user, CloneFlags::CLONE_NEWUSER).map_err(|errno| {
                    netlab_node::NodeError::UserNamespace { step: "the lab's own", source: errno.into() }
                })?;
            }
            self.netns.enter()
        };
        if let Err(source) = enter() {
            return LabError::Enter { place: self.place, source };
        }
        if File::ALL.into_iter().any(|file| self.files.path(file).exists())
            && let Err(error) = self.files.mount()
        {
            return error;
        }
        let source = command.exec();
        let action = format!("run {}", command.get_program().display());
        LabError::Socket { place: self.place, action, source }
    }
}

fn is_own_user_namespace(user: &OwnedFd) -> bool {
    let inode = |file: &fs::File| file.metadata().map(|metadata| (metadata.dev(), metadata.ino())).ok();
    let theirs = user.as_fd().try_clone_to_owned().ok().and_then(|file| inode(&file.into()));
    let ours = fs::File::open("/proc/self/ns/user").ok().and_then(|file| inode(&file));
    theirs.is_some() && theirs == ours
}

/// What [`down`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Down {
    /// Processes that still live in the lab's namespaces, and keep those alive until they end.
    pub left: Vec<Process>,
    /// The supervisor did not end by itself and was killed.
    pub killed: bool,
}

/// Ends a lab's supervisor, and with it the lab. Processes that were started in the lab are left alone and
/// reported.
pub fn down(run_dir: &RunDir, name: &str) -> Result<Down, LabError> {
    let _ = run_dir.list();
    let state = run_dir.find(name)?;
    // A supervisor that does not answer gets a signal instead.
    let asked = Client::connect(run_dir, name).and_then(|mut client| client.ask("down", Value::Null));
    let pid = Pid::from_raw(i32::try_from(state.pid).unwrap_or(i32::MAX));
    if asked.is_err() && is_running(&state) {
        let _ = kill(pid, Signal::SIGTERM);
    }
    let mut killed = false;
    let mut deadline = Instant::now() + PATIENCE;
    while is_running(&state) {
        if Instant::now() > deadline {
            if killed {
                let reason = format!("pid {} does not end", state.pid);
                return Err(LabError::Supervisor { name: name.to_owned(), reason });
            }
            let _ = kill(pid, Signal::SIGKILL);
            killed = true;
            deadline = Instant::now() + PATIENCE;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    if killed {
        // Removes what the supervisor could not.
        let _ = run_dir.find(name);
    }
    Ok(Down { left: state.processes(), killed })
}

/// True while the supervisor runs: the number and the start time are its own, and it is no zombie.
fn is_running(state: &State) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", state.pid)).unwrap_or_default();
    let is_zombie = stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'));
    !is_zombie && start_time(state.pid) == Some(state.started)
}
