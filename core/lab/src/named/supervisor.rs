//! The process that holds a named lab.
//!
//! It is a fresh process (the command re-executes itself with a hidden subcommand and calls
//! [`supervise_on_stdin`]), so that entering a user namespace and blocking signals concern nobody else.
//!
//! Invariant: the lab is announced after it stands and its state file is locked; when the one who waits for the
//! announcement is gone, the supervisor ends instead. SIGTERM, SIGINT and SIGHUP end it in order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{MsgFlags, recv};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::protocol::{Answer, Lines, Request};
use super::state::{Claim, State, start_time};
use super::{Spec, check_name};
use crate::error::LabError;
use crate::place::Place;
use crate::topology::Lab;

/// How long connections may take to notice that the lab goes down.
const GRACE: Duration = Duration::from_secs(1);

/// Answers the operations that the supervisor does not know itself (it knows `status`, `netns` and `down`).
pub trait Handler: Send + Sync {
    /// Answers one request. It runs on a thread of the connection, so it may take its time; one that streams
    /// events ends when [`Reply::event`] fails or [`Reply::is_gone`].
    fn handle(
        &self,
        lab: &Lab,
        operation: &str,
        parameters: &Value,
        reply: &mut Reply<'_>,
    ) -> Result<Value, String>;
}

/// A handler of no operation: a lab without an enforcer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Handler for Nothing {
    fn handle(&self, _: &Lab, operation: &str, _: &Value, _: &mut Reply<'_>) -> Result<Value, String> {
        Err(format!("this lab does not know `{operation}`"))
    }
}

/// The way back to the one who asked.
#[derive(Debug)]
pub struct Reply<'a> {
    lines: &'a Lines,
}

impl Reply<'_> {
    /// Sends something before the result.
    pub fn event(&mut self, event: &Value) -> io::Result<()> {
        self.lines.send(&Answer::Event(event.clone()), &[])
    }

    /// True when nobody listens any more, or the lab goes down.
    pub fn is_gone(&self) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        matches!(recv(self.lines.stream().as_raw_fd(), &mut [0], flags), Ok(0))
    }

    /// Becomes readable when nobody listens any more, or the lab goes down: for a handler's own `poll`.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.lines.stream().as_fd()
    }
}

/// [`supervise`] on the socket that [`super::up`] makes the standard input.
pub fn supervise_on_stdin(
    furnish: impl FnOnce(&Lab, &Value) -> Result<Box<dyn Handler>, String>,
) -> Result<(), LabError> {
    let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(|source| LabError::State {
        action: "use",
        path: PathBuf::from("/dev/stdin"),
        source,
    })?;
    supervise(UnixStream::from(stdin), furnish)
}

/// Reads a [`Spec`] from the channel, builds the lab, lets `furnish` add to it (an enforcer, say), announces it
/// on the channel, and then serves it until a signal or `down`. What `furnish` returns is dropped before the lab.
///
/// An error before the announcement has been told to the one who waits ([`super::up`] returns it), so the process
/// can end without a word.
pub fn supervise(
    channel: UnixStream,
    furnish: impl FnOnce(&Lab, &Value) -> Result<Box<dyn Handler>, String>,
) -> Result<(), LabError> {
    let mut channel = Lines::new(channel);
    let outcome = raise(&mut channel, furnish).and_then(|raised| match detach(&raised) {
        Ok(()) => Ok(raised),
        Err(error) => {
            raised.lower();
            Err(error)
        }
    });
    let raised = match outcome {
        Ok(raised) => raised,
        Err(error) => {
            // Whoever waits wants the causes too; if nobody does, the error returned is all there is.
            let _ = channel.send(&Answer::Error(with_causes(&error)), &[]);
            return Err(error);
        }
    };
    let announced = channel.send(&Answer::Result(json!(raised.shared.state)), &[]);
    drop(channel);
    let served = match announced {
        // Interrupted while it waited: nobody wants this lab.
        Err(_) => Ok(()),
        Ok(()) => serve(&raised),
    };
    raised.lower();
    served
}

/// A lab that stands and is published.
struct Raised {
    shared: Arc<Shared>,
    spec: Spec,
    _claim: Claim,
    lock: File,
    listener: UnixListener,
    signals: SignalFd,
    connections: Mutex<Vec<UnixStream>>,
}

/// What the connections' threads need.
struct Shared {
    // Dropped in this order: what was added to the lab goes before the lab.
    handler: Box<dyn Handler>,
    lab: Lab,
    user_namespace: Option<OwnedFd>,
    state: State,
}

fn raise(
    channel: &mut Lines,
    furnish: impl FnOnce(&Lab, &Value) -> Result<Box<dyn Handler>, String>,
) -> Result<Raised, LabError> {
    let spec: Spec = channel
        .receive()
        .map_err(|source| LabError::State { action: "read", path: PathBuf::from("the order"), source })?
        .ok_or_else(|| failure("", "nobody said what to build"))?;
    check_name(&spec.name)?;
    spec.run_dir.prepare()?;
    let fail = |action: &str, error: io::Error| failure(&spec.name, &format!("cannot {action}: {error}"));

    // A session of its own: Ctrl-C at the terminal is for the command, not for the lab.
    let _ = nix::unistd::setsid();
    let mut mask = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        mask.add(signal);
    }
    mask.thread_block().map_err(|errno| fail("block signals", errno.into()))?;
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC)
        .map_err(|errno| fail("watch signals", errno.into()))?;
    if let Ok(state) = spec.run_dir.find(&spec.name) {
        return Err(LabError::AlreadyUp { name: state.name, pid: state.pid });
    }
    // Before anything of the lab is there.
    let claim = spec.run_dir.claim(&spec.name)?;
    let mut user_namespace = None;
    if spec.rootless {
        netlab_node::userns::enter().map_err(|source| LabError::Build { place: Place::Fabric, source })?;
        let file =
            File::open("/proc/self/ns/user").map_err(|error| fail("hold the user namespace", error))?;
        user_namespace = Some(file.into());
    }
    // Two descriptors for each namespace while it is built, one after: the usual 1024 would do for 500 pods.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    // Changing credentials clears this, so it comes after the user namespace. The signal is blocked: it ends the
    // supervisor in `serve` if the announcement should still get through.
    let _ = set_pdeathsig(Signal::SIGTERM);
    let lab = Lab::build(&spec.plan)?;
    let handler = furnish(&lab, &spec.payload).map_err(|reason| failure(&spec.name, &reason))?;
    let _ = set_pdeathsig(None);

    let pid = std::process::id();
    let namespaces: BTreeMap<Place, u64> =
        lab.namespaces().iter().map(|(place, netns)| (place.clone(), netns.identity().inode)).collect();
    let nodes = plan_nodes(&spec);
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let state = State {
        name: spec.name.clone(),
        pid,
        started: start_time(pid).unwrap_or_default(),
        created,
        rootless: spec.rootless,
        namespaces,
        nodes,
    };
    let lock = spec.run_dir.publish(&state)?;
    let path = spec.run_dir.socket(&spec.name);
    // The lock is ours, so a socket of this name is a dead supervisor's.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).map_err(|source| {
        spec.run_dir.remove(&spec.name, &lock);
        LabError::State { action: "listen on", path, source }
    })?;
    let shared = Arc::new(Shared { handler, lab, user_namespace, state });
    Ok(Raised { shared, spec, _claim: claim, lock, listener, signals, connections: Mutex::new(Vec::new()) })
}

fn plan_nodes(spec: &Spec) -> BTreeMap<Place, String> {
    let places = spec.plan.places();
    let pods = places.keys().filter(|place| matches!(place, Place::Pod(_)));
    pods.filter_map(|place| Some(((*place).clone(), spec.plan.node_of(place)?.to_owned()))).collect()
}

/// Lets go of the terminal: a pipe that the command's output goes to must not stay open for the lab's life.
fn detach(raised: &Raised) -> Result<(), LabError> {
    let path = raised.spec.run_dir.log(&raised.spec.name);
    let attempt = || -> io::Result<()> {
        std::env::set_current_dir("/")?;
        let nowhere = File::options().read(true).write(true).open("/dev/null")?;
        let log = File::options().append(true).create(true).open(&path)?;
        nix::unistd::dup2_stdin(&nowhere)?;
        nix::unistd::dup2_stdout(&nowhere)?;
        nix::unistd::dup2_stderr(&log)?;
        Ok(())
    };
    attempt().map_err(|source| LabError::State { action: "log to", path: path.clone(), source })
}

fn serve(raised: &Raised) -> Result<(), LabError> {
    loop {
        let mut descriptors = [
            PollFd::new(raised.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(raised.listener.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut descriptors, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(failure(&raised.spec.name, &format!("cannot wait: {errno}"))),
        }
        let ready = |at: usize| descriptors.get(at).and_then(PollFd::any).unwrap_or(false);
        if ready(0) {
            return Ok(());
        }
        if ready(1)
            && let Ok((stream, _)) = raised.listener.accept()
        {
            if let Ok(copy) = stream.try_clone() {
                let mut connections = raised.connections.lock().unwrap_or_else(PoisonError::into_inner);
                connections.retain(|old| !is_closed(old));
                connections.push(copy);
            }
            let shared = Arc::clone(&raised.shared);
            // A thread that cannot be started closes its connection, which the other side understands.
            let _ = thread::Builder::new()
                .name("connection".to_owned())
                .spawn(move || converse(&shared, Lines::new(stream)));
        }
    }
}

fn is_closed(stream: &UnixStream) -> bool {
    let mut descriptors = [PollFd::new(stream.as_fd(), PollFlags::POLLHUP)];
    poll(&mut descriptors, PollTimeout::ZERO).is_ok_and(|count| count > 0)
        && descriptors.iter().any(|fd| fd.revents().is_some_and(|events| events.contains(PollFlags::POLLHUP)))
}

fn converse(shared: &Shared, mut lines: Lines) {
    while let Ok(Some(request)) = lines.receive::<Request>() {
        let sent = match request.operation.as_str() {
            "status" => lines.send(&Answer::Result(json!(shared.state)), &[]),
            "netns" => give_namespace(shared, &request.parameters, &lines),
            "down" => {
                let sent = lines.send(&Answer::Result(Value::Null), &[]);
                let _ = kill(Pid::this(), Signal::SIGTERM);
                sent
            }
            operation => {
                let mut reply = Reply { lines: &lines };
                let answer = shared.handler.handle(&shared.lab, operation, &request.parameters, &mut reply);
                lines.send(&answer.map_or_else(Answer::Error, Answer::Result), &[])
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

fn give_namespace(shared: &Shared, parameters: &Value, lines: &Lines) -> io::Result<()> {
    let place = serde_json::from_value::<Place>(parameters.clone()).map_err(|error| error.to_string());
    let netns = place.and_then(|place| shared.lab.netns(&place).map_err(|error| error.to_string()));
    match netns {
        Ok(netns) => {
            let mut descriptors = vec![netns.as_fd()];
            descriptors.extend(shared.user_namespace.as_ref().map(AsFd::as_fd));
            lines.send(&Answer::Result(json!({ "inode": netns.identity().inode })), &descriptors)
        }
        Err(error) => lines.send(&Answer::Error(error), &[]),
    }
}

impl Raised {
    /// Takes the lab down: files first, so that nobody finds a lab that is going.
    fn lower(self) {
        self.spec.run_dir.remove(&self.spec.name, &self.lock);
        drop(self.listener);
        for connection in self.connections.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // Only what comes in: an answer under way may still get out, and the far side sees the end of the
            // supervisor as the end of the connection.
            let _ = connection.shutdown(Shutdown::Read);
        }
        let deadline = Instant::now() + GRACE;
        let mut shared = self.shared;
        loop {
            match Arc::try_unwrap(shared) {
                Ok(owned) => return drop(owned),
                Err(busy) if Instant::now() < deadline => {
                    shared = busy;
                    thread::sleep(Duration::from_millis(2));
                }
                // A handler that does not end: the end of the process ends it.
                Err(_) => return,
            }
        }
    }
}

fn failure(name: &str, reason: &str) -> LabError {
    LabError::Supervisor { name: name.to_owned(), reason: reason.to_owned() }
}

/// An error and its causes on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
