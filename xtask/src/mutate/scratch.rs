//! A copy of the working tree, to break.
//!
//! Invariant: nothing is ever written outside the copy; a file of the copy is touched only when its content changes,
//! so cargo builds again only what a patch, or its going, has changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The copy.
pub(super) struct Scratch {
    source: PathBuf,
    /// The copy's root.
    pub(super) tree: PathBuf,
    /// Where it is built.
    pub(super) target: PathBuf,
}

impl Scratch {
    /// Brings the copy up to date with the working tree: what git tracks, and what it would.
    pub(super) fn new(source: &Path, folder: &Path) -> anyhow::Result<Self> {
        let (tree, target) = (folder.join("tree"), folder.join("target"));
        std::fs::create_dir_all(&tree).with_context(|| format!("cannot make {}", tree.display()))?;
        let scratch = Self { source: source.to_owned(), tree, target };
        let files = scratch.files()?;
        for file in &files {
            scratch.take(file)?;
        }
        scratch.prune(&scratch.tree, &files)?;
        Ok(scratch)
    }

    fn files(&self) -> anyhow::Result<BTreeSet<PathBuf>> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&self.source)
            .stdin(Stdio::null())
            .output()
            .context("cannot run git")?;
        if !output.status.success() {
            bail!("git does not list the files: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let text = String::from_utf8(output.stdout).context("a file's name is not UTF-8")?;
        let files = text.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
        Ok(files.filter(|file| self.source.join(file).is_file()).collect())
    }

    /// Makes one file what it is in the working tree.
    fn take(&self, file: &Path) -> anyhow::Result<()> {
        let (from, to) = (self.source.join(file), self.tree.join(file));
        let content = std::fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        if std::fs::read(&to).is_ok_and(|former| former == content) {
            return Ok(());
        }
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent)?;
        }
        write(&to, &content)
    }

    /// Does something while some files of the copy are changed by `change`. Somebody may work on the tree that was
    /// copied meanwhile: what comes back is what the copy had.
    pub(super) fn while_changed<T>(
        &self,
        files: &[PathBuf],
        change: impl FnOnce() -> anyhow::Result<()>,
        then: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let former: Vec<(PathBuf, Vec<u8>)> = files
            .iter()
            .map(|file| {
                let path = self.tree.join(file);
                let content =
                    std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                Ok((path, content))
            })
            .collect::<anyhow::Result<_>>()?;
        let done = change().and_then(|()| then());
        for (path, content) in former {
            write(&path, &content)?;
        }
        done
    }

    /// Removes what the working tree has no more.
    fn prune(&self, folder: &Path, files: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.prune(&path, files)?;
            } else if !files.contains(path.strip_prefix(&self.tree)?) {
                std::fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
