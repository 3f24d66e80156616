//! A network namespace held by a file descriptor.
//!
//! Invariant: a [`Netns`] has no name and no mount, so the kernel frees it when the last descriptor, process or
//! socket in it is gone, whatever way this process ends. The caller's own namespace never changes: namespaces
//! belong to threads, and whatever runs inside one runs on a thread that ends with the work.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, getsockopt, socket};
use nix::sys::stat::Mode;
use nix::sys::statfs::{FsType, fstatfs};
use nix::{getsockopt_impl, libc, sockopt_impl};

use crate::NodeError;

sockopt_impl!(
    /// `SO_NETNS_COOKIE`, which nix has no name for.
    NetnsCookie,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_NETNS_COOKIE,
    u64
);

/// Where a thread finds its own namespace; `/proc/self` would name the main thread's.
const OWN: &str = "/proc/thread-self/ns/net";

/// `NSFS_MAGIC` of `include/uapi/linux/magic.h`: the file system of namespaces.
const NSFS_MAGIC: FsType = FsType(0x6e73_6673);

/// What tells two namespaces apart: the device and inode of their nsfs file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetnsIdentity {
    /// `st_dev` of nsfs.
    pub device: u64,
    /// `st_ino`, the number in `net:[…]`.
    pub inode: u64,
}

impl std::fmt::Display for NetnsIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "net:[{}]", self.inode)
    }
}

/// A network namespace, kept alive by this value.
#[derive(Debug)]
pub struct Netns {
    file: OwnedFd,
    identity: NetnsIdentity,
}

impl Netns {
    /// A fresh namespace, in which only `lo` exists and is down. Needs `CAP_SYS_ADMIN` in the user namespace.
    pub fn create() -> Result<Self, NodeError> {
        Self::create_with(|| ()).map(|(netns, ())| netns)
    }

    /// A fresh namespace, and what `work` gives when it runs inside before anybody else can: one thread does
    /// both, which halves the cost of making a namespace and then opening a socket in it.
    pub fn create_with<T: Send>(work: impl FnOnce() -> T + Send) -> Result<(Self, T), NodeError> {
        on_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|errno| NodeError::CreateNamespace { source: errno.into() })?;
            Ok((Self::current()?, work()))
        })
    }

    /// The namespace of the calling thread.
    pub fn current() -> Result<Self, NodeError> {
        Self::from_path(OWN)
    }

    /// The namespace of a process. Needs the right to trace it (`PTRACE_MODE_READ`).
    pub fn from_pid(pid: u32) -> Result<Self, NodeError> {
        Self::from_path(format!("/proc/{pid}/ns/net"))
    }

    /// The namespace that a file names: `/proc/PID/ns/net`, `/run/netns/NAME`.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, NodeError> {
        let path = path.as_ref();
        let open = || {
            // A FIFO would wait for a writer.
            let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
            let file = nix::fcntl::open(path, flags, Mode::empty())?;
            if fstatfs(&file)?.filesystem_type() != NSFS_MAGIC {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no namespace"));
            }
            Self::from_fd(file)
        };
        open().map_err(|source| NodeError::OpenNamespace { path: path.to_owned(), source })
    }

    /// The namespace behind a descriptor, for instance one that a socket passed on.
    pub fn from_fd(file: OwnedFd) -> io::Result<Self> {
        let file = File::from(file);
        let metadata = file.metadata()?;
        let identity = NetnsIdentity { device: metadata.dev(), inode: metadata.ino() };
        Ok(Self { file: file.into(), identity })
    }

    /// A second handle on the same namespace.
    pub fn try_clone(&self) -> Result<Self, NodeError> {
        let file = self.file.try_clone().map_err(|source| NodeError::OpenNamespace {
            path: PathBuf::from(self.identity.to_string()),
            source,
        })?;
        Ok(Self { file, identity: self.identity })
    }

    /// Device and inode.
    pub const fn identity(&self) -> NetnsIdentity {
        self.identity
    }

    /// What no other namespace has as long as the machine runs (`SO_NETNS_COOKIE`, `net/core/net_namespace.c`). The
    /// inode tells only the namespaces of one moment apart: it is given anew as soon as its namespace is gone.
    pub fn cookie(&self) -> Result<u64, NodeError> {
        let read = || {
            let socket = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
            getsockopt(&socket, NetnsCookie)
        };
        self.run(read)?
            .map_err(|errno| NodeError::EnterNamespace { inode: self.identity.inode, source: errno.into() })
    }

    /// Runs `work` inside the namespace, on a thread of its own, and waits for it. A panic in `work` goes on in
    /// the caller. Processes that `work` starts live in the namespace; sockets that it opens stay there.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NodeError> {
        on_thread(|| {
            self.enter()?;
            Ok(work())
        })
    }

    /// Moves the calling *thread* into the namespace for good: for a process that is about to `exec`.
    pub fn enter(&self) -> Result<(), NodeError> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| NodeError::EnterNamespace { inode: self.identity.inode, source: errno.into() })
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Netns {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.file.as_raw_fd()
    }
}

/// Runs `work` on a fresh thread that ends with it.
fn on_thread<T: Send>(work: impl FnOnce() -> Result<T, NodeError> + Send) -> Result<T, NodeError> {
    thread::scope(|scope| {
        let handle = thread::Builder::new()
            .name("netns".to_owned())
            .spawn_scoped(scope, work)
            .map_err(|source| NodeError::Thread { source })?;
        handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
