//! Runs tests with a mutant.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use crate::build::{Tree, run};
use crate::process::{Process, Silence};

/// Targets whose tests notice what the simulation does not, the quick ones first.
pub(crate) const ALL: [&str; 5] = ["lib", "client", "contracts", "client-it", "faults"];

/// No test takes as long as this; a mutant may make one wait for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program that runs tests.
pub(crate) struct Target {
    name: String,
    program: PathBuf,
    /// The folder of its package, where cargo runs it.
    folder: PathBuf,
}

/// A message of cargo.
#[derive(Deserialize)]
struct Built {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Target {
    /// Builds a target: `lib`, `contracts` and other tests of the library, `client`, `client-it`, or `cli`.
    pub(crate) fn build(tree: &Tree, name: &str) -> Result<Target, String> {
        let (package, kind) = match name {
            "lib" => ("zoolock", "--lib".to_owned()),
            "client" => ("zoolock-zookeeper", "--lib".to_owned()),
            "cli" => ("zoolock-cli", "--test=cli".to_owned()),
            _ => match name.strip_prefix("client-") {
                Some(test) => ("zoolock-zookeeper", format!("--test={test}")),
                None => ("zoolock", format!("--test={name}")),
            },
        };
        let mut command = tree.cargo("test");
        command.args(["--no-run", "--message-format=json", "--package", package, &kind]);
        let output = run(&mut command)?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let messages = String::from_utf8_lossy(&output.stdout).into_owned();
        let built = messages.lines().filter_map(|line| serde_json::from_str::<Built>(line).ok());
        // A program that a test starts is built, too.
        let mut tests =
            built.filter(|one| one.profile.as_ref().is_some_and(|profile| profile.test));
        let test = tests.find_map(|one| Some((one.executable?, one.manifest_path?)));
        let (program, manifest) = test.ok_or(format!("{name} has no tests"))?;
        let folder = manifest.parent().map(PathBuf::from).unwrap_or_default();
        Ok(Target { name: name.to_owned(), program, folder })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder);
        command
    }

    /// Returns the mutants that are reached by the tests, which have to pass without one.
    pub(crate) fn reached(&self, tree: &Tree) -> Result<BTreeSet<usize>, String> {
        let file = tree.target.join("reached");
        let _ = fs::remove_file(&file);
        let mut command = self.command();
        command.env("ZOOLOCK_REACHED", &file);
        if let Some(what) = self.failing(command)? {
            return Err(format!("without a mutant: {what}"));
        }
        let text = fs::read_to_string(&file).unwrap_or_default();
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Runs one test or all, with a mutant or without. Returns what fails first.
    pub(crate) fn run(
        &self,
        number: Option<usize>,
        test: Option<&str>,
    ) -> Result<Option<String>, String> {
        let mut command = self.command();
        if let Some(number) = number {
            command.env("ZOOLOCK_MUTANT", number.to_string());
        }
        command.args(test.map(|test| ["--exact", test]).into_iter().flatten());
        self.failing(command)
    }

    fn failing(&self, mut command: Command) -> Result<Option<String>, String> {
        let mut process = Process::start(&mut command, String::new());
        let (mut passed, mut last) = (0, String::new());
        loop {
            match process.line(PATIENCE) {
                Ok(line) => {
                    let test = line.strip_prefix("test ").unwrap_or_default();
                    if let Some(test) = test.strip_suffix(" ... FAILED") {
                        return Ok(Some(format!("{} {test}", self.name)));
                    }
                    passed += usize::from(test.ends_with(" ... ok"));
                    last = line;
                }
                Err(Silence::Ended { is_success: true }) if passed == 0 => {
                    return Err(format!("{} has no such test: {command:?}", self.name));
                }
                Err(Silence::Ended { is_success: true }) => return Ok(None),
                Err(Silence::Ended { is_success: false }) => {
                    return Ok(Some(format!("{}, which crashes: {last}", self.name)));
                }
                Err(Silence::Stuck) => {
                    return Ok(Some(format!("{}, which does not end: {last}", self.name)));
                }
            }
        }
    }
}
