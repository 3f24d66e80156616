//! Files of a place: what a libc there reads about names.
//!
//! They lie in the lab's own directory; [`Files::mount`] puts them over the machine's for the calling process alone.
//! Invariant: nothing of the machine is changed. The mounts are in a mount namespace of their own and go with it; the
//! directory goes with the lab's state file.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::place::Place;
use crate::plan::naming;

/// A file that a libc reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum File {
    /// `/etc/resolv.conf`.
    ResolvConf,
    /// `/etc/hosts`.
    Hosts,
    /// `/etc/nsswitch.conf`, which glibc alone reads.
    Nsswitch,
}

impl File {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ResolvConf, Self::Hosts, Self::Nsswitch];

    /// Its name below `/etc`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ResolvConf => "resolv.conf",
            Self::Hosts => "hosts",
            Self::Nsswitch => "nsswitch.conf",
        }
    }
}

/// Where a libc would ask a cache of the machine's before it reads any file.
const CACHE: &str = "/var/run/nscd";

/// The files of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    directory: PathBuf,
}

impl Files {
    pub(super) fn at(directory: &Path, place: &Place) -> Self {
        Self { directory: directory.join(naming::namespace(place)) }
    }

    /// Where a file lies.
    pub fn path(&self, file: File) -> PathBuf {
        self.directory.join(file.name())
    }

    /// What a file says; `None` when there is none.
    pub fn read(&self, file: File) -> io::Result<Option<String>> {
        match fs::read_to_string(self.path(file)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a file in its place, so that who has it mounted sees the change.
    pub fn write(&self, file: File, text: &str) -> Result<(), LabError> {
        let path = self.path(file);
        let write = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o755).create(&self.directory)?;
            let mut open = OpenOptions::new();
            open.write(true).create(true).truncate(true).mode(0o644).open(&path)?.write_all(text.as_bytes())
        };
        write().map_err(|source| LabError::State { action: "write", path: path.clone(), source })
    }

    /// Puts the files over those of the machine, for the calling thread and what it starts. It must be the only thread of
    /// its process, or about to become another program.
    pub fn mount(&self) -> Result<(), LabError> {
        let fail = |action, path: &Path, source: io::Error| LabError::State {
            action,
            path: path.to_owned(),
            source,
        };
        let root = Path::new("/");
        unshare(CloneFlags::CLONE_NEWNS)
            .map_err(|errno| fail("have mounts of its own at", root, errno.into()))?;
        // What the machine unmounts may go here too; what is mounted here stays here.
        let private = MsFlags::MS_REC | MsFlags::MS_SLAVE;
        mount(None::<&str>, root, None::<&str>, private, None::<&str>)
            .map_err(|errno| fail("keep mounts apart at", root, errno.into()))?;
        for file in File::ALL {
            let (ours, theirs) = (self.path(file), Path::new("/etc").join(file.name()));
            if !ours.exists() {
                continue;
            }
            mount(Some(&ours), &theirs, None::<&str>, MsFlags::MS_BIND, None::<&str>)
                .map_err(|errno| fail("put the lab's file over", &theirs, errno.into()))?;
        }
        if Path::new(CACHE).exists() {
            mount(Some("none"), CACHE, Some("tmpfs"), MsFlags::MS_RDONLY, None::<&str>)
                .map_err(|errno| fail("hide", Path::new(CACHE), errno.into()))?;
        }
        Ok(())
    }
}
