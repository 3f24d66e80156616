//! A fault of the code as a patch file: what it breaks, which test catches it, and the difference itself.
//!
//! Invariant: a file that lacks a field is refused, never taken for one without it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::tests_of::{Name, Suite};

/// One patch.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    /// The file's name without its end.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What it breaks, in words.
    pub(crate) breaks: String,
    /// The test that must fail.
    pub(crate) caught_by: Name,
    /// Environment variables of that test.
    pub(crate) with: Vec<(String, String)>,
    /// What the test needs of the machine, as `NETLAB_TEST_REQUIRE` names it.
    pub(crate) needs: Vec<String>,
    /// The files that it changes, from the root.
    pub(crate) files: Vec<PathBuf>,
}

/// Every patch, by name.
pub(crate) fn all(root: &Path) -> anyhow::Result<Vec<Patch>> {
    let folder = root.join("xtask/mutations");
    let mut patches = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            let text = std::fs::read_to_string(&path)?;
            let patch =
                Patch::parse(&path, &text).with_context(|| format!("{} is no patch", path.display()))?;
            patches.push(patch);
        }
    }
    patches.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(patches)
}

impl Patch {
    fn parse(path: &Path, text: &str) -> anyhow::Result<Self> {
        let (head, difference) = text.split_once("\n\n").context("no empty line ends its head")?;
        let field = |name: &str| {
            let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.map(str::trim)
        };
        for line in head.lines() {
            let known = ["breaks: ", "caught-by: ", "with: ", "needs: "];
            if !known.iter().any(|name| line.starts_with(name)) {
                bail!("the line {line:?} of its head is not known");
            }
        }
        let caught_by = field("caught-by").context("no `caught-by: PACKAGE TEST`")?;
        let (package, test) = caught_by.split_once(' ').context("`caught-by:` wants PACKAGE TEST")?;
        let with = field("with").unwrap_or_default().split_whitespace();
        let with = with.map(|pair| pair.split_once('=').context("`with:` wants NAME=VALUE"));
        let with = with.map(|pair| pair.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let files = difference.lines().filter_map(|line| line.strip_prefix("+++ b/")).map(PathBuf::from);
        let files: Vec<PathBuf> = files.collect();
        if files.is_empty() {
            bail!("it changes no file");
        }
        Ok(Self {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            path: path.to_owned(),
            breaks: field("breaks").context("no `breaks: …`")?.to_owned(),
            caught_by: Name { package: package.to_owned(), test: test.to_owned() },
            with: with.collect::<Result<_, _>>()?,
            needs: field("needs")
                .unwrap_or_default()
                .split(',')
                .map(str::trim)
                .map(str::to_owned)
                .filter(|need| !need.is_empty())
                .collect(),
            files,
        })
    }

    /// Whether it still fits a tree, and its test is there.
    pub(crate) fn check(&self, root: &Path) -> anyhow::Result<Suite> {
        self.git(root, &["--check"])?;
        self.caught_by.suite(root)
    }

    /// Puts it into a tree.
    pub(crate) fn apply(&self, root: &Path) -> anyhow::Result<()> {
        self.git(root, &[])
    }

    fn git(&self, tree: &Path, arguments: &[&str]) -> anyhow::Result<()> {
        // Without this git would look for a repository above a copy, and take the paths for that one's.
        let ceiling = tree.parent().unwrap_or(tree);
        let output = Command::new("git")
            .args(["apply", "-C1", "--whitespace=nowarn"])
            .args(arguments)
            .arg(&self.path)
            .current_dir(tree)
            .env("GIT_CEILING_DIRECTORIES", ceiling)
            .stdin(Stdio::null())
            .output()
            .context("cannot run git")?;
        if !output.status.success() {
            bail!("{} does not apply: {}", self.name, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }
}
