//! Tests of the workspace, built and run one by one.
//!
//! Invariant: that a test failed is told only when it was built, ran, and said so itself; everything else that goes
//! wrong is an error.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// A test by the package that has it and its function's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    /// The package.
    pub(crate) package: String,
    /// The function, or the start of several.
    pub(crate) test: String,
}

/// Where tests of a package are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Suite {
    /// Beside the code.
    Library,
    /// The integration tests.
    Integration,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.package, self.test)
    }
}

impl Name {
    /// Finds the test's function.
    pub(crate) fn suite(&self, root: &Path) -> anyhow::Result<Suite> {
        let folder =
            folder(&self.package).with_context(|| format!("there is no package {}", self.package))?;
        let function = format!("fn {}", self.test);
        for (part, suite) in [("tests/it", Suite::Integration), ("src", Suite::Library)] {
            if mentions(&root.join(folder).join(part), &function)? {
                return Ok(suite);
            }
        }
        bail!("{} has no test {}", self.package, self.test)
    }

    /// The command that a person would type.
    pub(crate) fn command(&self, suite: Suite) -> String {
        let target = match suite {
            Suite::Library => "--lib",
            Suite::Integration => "--test it",
        };
        format!("cargo test -p {} {target} {} -- --nocapture", self.package, self.test)
    }
}

fn folder(package: &str) -> Option<&'static str> {
    Some(match package {
        "netlab" => "cli",
        "netlab-core" => "core",
        "netlab-lab" => "core/lab",
        "netlab-node" => "core/node",
        "netlab-plugin" => "core/plugin",
        "netlab-dnsdiag" => "dnsdiag",
        "netlab-ebpf" => "ebpf",
        "netlab-enforcer" => "enforcer",
        _ => return None,
    })
}

fn mentions(folder: &Path, words: &str) -> anyhow::Result<bool> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(false) };
    for entry in entries {
        let path = entry?.path();
        let found = if path.is_dir() {
            mentions(&path, words)?
        } else {
            path.extension().is_some_and(|extension| extension == "rs")
                && std::fs::read_to_string(&path)?.contains(words)
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A test executable.
#[derive(Clone, Debug)]
pub(crate) struct Executable {
    path: PathBuf,
    /// Where cargo would run it.
    directory: PathBuf,
}

/// Builds the tests of a package in a tree. What does not compile is an error.
pub(crate) fn build(
    tree: &Path,
    target: Option<&Path>,
    package: &str,
    suite: Suite,
) -> anyhow::Result<Executable> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["test", "--quiet", "--no-run", "--locked", "--message-format=json-render-diagnostics"])
        .args(["--package", package])
        .args(match suite {
            Suite::Library => &["--lib"][..],
            Suite::Integration => &["--test", "it"],
        })
        .current_dir(tree)
        .stdin(Stdio::null());
    if let Some(target) = target {
        // Few lines change between two builds, so the incremental cache earns its room here.
        cargo.env("CARGO_TARGET_DIR", target).env("CARGO_INCREMENTAL", "1");
    }
    let output = cargo.output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the tests of {package} do not compile:\n{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let mut artifacts = output.stdout.split(|byte| *byte == b'\n').filter_map(|line| {
        let message: serde_json::Value = serde_json::from_slice(line).ok()?;
        if message["profile"]["test"] != true {
            return None;
        }
        Some((message["executable"].as_str()?.to_owned(), message["manifest_path"].as_str()?.to_owned()))
    });
    let (path, manifest) =
        artifacts.next_back().with_context(|| format!("cargo built no tests of {package}"))?;
    let directory = Path::new(&manifest).parent().context("a manifest lies in a directory")?.to_owned();
    Ok(Executable { path: path.into(), directory })
}

/// How a run of tests ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// All passed.
    Passed,
    /// One says that this machine lacks something, and the others passed.
    Skipped(String),
    /// One failed.
    Failed,
    /// They did not end in time.
    Silent,
}

/// A run of tests with everything that it said.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) ran: Ran,
    pub(crate) output: String,
    pub(crate) time: Duration,
}

impl Executable {
    /// Every test in it that runs unasked, with its module.
    pub(crate) fn list(&self) -> anyhow::Result<Vec<String>> {
        let all = self.listed(&[])?;
        let ignored = self.listed(&["--ignored"])?;
        Ok(all.into_iter().filter(|test| !ignored.contains(test)).collect())
    }

    fn listed(&self, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
        let output = Command::new(&self.path)
            .args(["--list", "--format", "terse"])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", self.path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// Runs the tests with this name. That there is none is an error.
    pub(crate) fn run(
        &self,
        test: &str,
        environment: &[(String, String)],
        log: &Path,
        at_most: Duration,
    ) -> anyhow::Result<Run> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let start = Instant::now();
        let mut child = Command::new(&self.path)
            .args([test, "--nocapture"])
            .current_dir(&self.directory)
            .env("CARGO_MANIFEST_DIR", &self.directory)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot run {}", self.path.display()))?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if start.elapsed() > at_most {
                child.kill()?;
                child.wait()?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let output = String::from_utf8_lossy(&std::fs::read(log)?).into_owned();
        let time = start.elapsed();
        let result = output.lines().rev().find_map(|line| line.strip_prefix("test result: "));
        let ran = match (status, result) {
            (None, _) => Ran::Silent,
            (Some(status), Some(result)) if status.success() && result.starts_with("ok. 0 passed") => {
                bail!("no test is called {test}");
            }
            (Some(status), Some(_)) if status.success() => {
                match output.lines().find(|line| line.contains("skipped")) {
                    Some(line) => Ran::Skipped(line.to_owned()),
                    None => Ran::Passed,
                }
            }
            (Some(_), Some(result)) if result.starts_with("FAILED") => Ran::Failed,
            (Some(status), _) => bail!("{test} ended with {status} and told no result:\n{output}"),
        };
        Ok(Run { ran, output, time })
    }
}
