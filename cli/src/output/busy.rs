//! A line on the terminal while something takes longer than a second.
//!
//! Invariant: it is written to standard error alone, only if that is a terminal, and is gone before anything else is
//! written there.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long nothing is said, and how often the line is renewed.
const PATIENCE: Duration = Duration::from_secs(1);

/// True while the line stands on the terminal.
static LINE: AtomicBool = AtomicBool::new(false);

/// Takes the line away, for whoever wants to write there; it comes back when it is renewed.
pub(super) fn clear() {
    if LINE.swap(false, Ordering::AcqRel) {
        let _ = write!(io::stderr(), "\r\u{1b}[K");
    }
}

/// Something that is under way.
#[derive(Debug)]
pub(crate) struct Busy {
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Busy {
    /// Begins to wait.
    pub(super) fn new(what: &'static str, shown: bool) -> Self {
        if !shown {
            return Self { thread: None };
        }
        let (done, is_done) = mpsc::channel::<()>();
        let since = Instant::now();
        let wait = move || {
            while is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                // A terminal that went away is nobody to talk to.
                let _ = write!(io::stderr(), "\r{what}: {} s\u{1b}[K", since.elapsed().as_secs());
                LINE.store(true, Ordering::Release);
            }
            clear();
        };
        // Without a thread there is no line, and the answer is the same.
        let thread = std::thread::Builder::new().name("busy".to_owned()).spawn(wait);
        Self { thread: thread.ok().map(|thread| (done, thread)) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.thread.take() {
            drop(done);
            let _ = thread.join();
        }
    }
}
