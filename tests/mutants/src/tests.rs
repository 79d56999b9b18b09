//! Runs tests with a mutant.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::build::{Tree, messages, run};
use crate::process::{Process, Silence, map_all};

/// Targets whose tests notice what the simulation does not, the quick ones first.
pub(crate) const ALL: [&str; 6] = ["lib", "client", "contracts", "client-it", "secured", "faults"];

/// No test takes as long as this; a mutant may make one wait for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// What fails first in a run of tests, if anything does, or why they cannot run.
type Run = Result<Option<String>, String>;

/// A program that runs tests.
pub(crate) struct Target {
    name: String,
    program: PathBuf,
    /// The folder of its package, where cargo runs it.
    folder: PathBuf,
}

impl Target {
    /// Builds a target: `lib`, `contracts` and other tests of the library, `client`, `client-it`, `cli`, or `secured`.
    pub(crate) fn build(tree: &Tree, name: &str) -> Result<Target, String> {
        let (package, kind) = match name {
            "lib" => ("zoolock", "--lib".to_owned()),
            "client" => ("zoolock-zookeeper", "--lib".to_owned()),
            "cli" => ("zoolock-cli", "--test=cli".to_owned()),
            "secured" => ("zoolock-secured", "--test=secured".to_owned()),
            _ => match name.strip_prefix("client-") {
                Some(test) => ("zoolock-zookeeper", format!("--test={test}")),
                None => ("zoolock", format!("--test={name}")),
            },
        };
        let mut command = tree.cargo("test");
        command.args(["--no-run", "--message-format=json", "--all-features"]);
        command.args(["--package", package, &kind]);
        let output = run(&mut command)?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        // A program that a test starts is built, too.
        let messages = messages(&output);
        let test = messages.iter().find(|one| one["profile"]["test"] == true);
        let path = |what| Some(PathBuf::from(test?[what].as_str()?));
        let (Some(program), Some(manifest)) = (path("executable"), path("manifest_path")) else {
            return Err(format!("{name} has no tests"));
        };
        let folder = manifest.parent().map(PathBuf::from).unwrap_or_default();
        Ok(Target { name: name.to_owned(), program, folder })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder);
        command
    }

    /// Returns the tests that reach each mutant. One that fails without a mutant is told of, and left out.
    pub(crate) fn reaching(
        &self,
        tree: &Tree,
        mutants: usize,
        jobs: usize,
    ) -> Result<Vec<Vec<String>>, String> {
        let listed = run(self.command().args(["--list", "--format=terse"]))?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let tests: Vec<_> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
        let reached = map_all(jobs, &tests, |test| {
            let file = tree.target.join(format!("reached by {test}").replace("::", " "));
            let mut command = self.command();
            let ran = self.failing(command.env("ZOOLOCK_REACHED", &file).args(["--exact", test]));
            let text = fs::read_to_string(&file).unwrap_or_default();
            let _ = fs::remove_file(&file);
            match ran {
                // A test may have several processes.
                Ok(None) => text.lines().filter_map(|line| line.parse().ok()).collect(),
                Ok(Some(what)) | Err(what) => {
                    println!("without a mutant: {what}");
                    BTreeSet::<usize>::new()
                }
            }
        });
        let mut found = vec![Vec::new(); mutants];
        for (test, reached) in tests.into_iter().zip(reached) {
            reached.into_iter().for_each(|number| found[number].push(test.to_owned()));
        }
        Ok(found)
    }

    /// Runs these tests, with a mutant or without. Returns what fails first.
    pub(crate) fn run(&self, number: Option<usize>, tests: &[impl AsRef<OsStr>]) -> Run {
        let mut command = self.command();
        if let Some(number) = number {
            command.env("ZOOLOCK_MUTANT", number.to_string());
        }
        self.failing(command.arg("--exact").args(tests))
    }

    /// Runs these tests with a mutant, and what fails once more, alone: a busy machine makes tests fail, too.
    pub(crate) fn kill(&self, number: usize, tests: &[String]) -> Run {
        let mut left = tests.to_vec();
        while !left.is_empty()
            && let Some(what) = self.run(Some(number), &left)?
        {
            let failed = what.strip_prefix(&self.name).and_then(|what| what.strip_prefix(' '));
            match failed.map(str::to_owned) {
                Some(test) if self.run(Some(number), &[&test])?.is_none() => {
                    left.retain(|one| *one != test);
                }
                _ => return Ok(Some(what)),
            }
        }
        Ok(None)
    }

    fn failing(&self, command: &mut Command) -> Run {
        let mut process = Process::start(command, String::new());
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
