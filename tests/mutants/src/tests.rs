//! Runs tests while a mutant is active.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::build::{Tree, messages, run};
use crate::process::{Process, Silence};

/// The time limit for a test. No test normally takes this long, but a mutant may make it wait forever.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program that runs tests.
pub(crate) struct Target {
    program: PathBuf,
    /// The folder of the program's package, in which cargo would run it.
    folder: PathBuf,
}

impl Target {
    /// Builds a target: `lib`, `contracts` or other tests of the library, `client`, `client-it`, `cli`, or `secured`.
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
        // The build also includes programs that the tests start.
        let messages = messages(&output);
        let test = messages.iter().find(|one| one["profile"]["test"] == true);
        let path = |what| Some(PathBuf::from(test?[what].as_str()?));
        let (Some(program), Some(manifest)) = (path("executable"), path("manifest_path")) else {
            return Err(format!("{name} has no tests"));
        };
        let folder = manifest.parent().map(PathBuf::from).unwrap_or_default();
        Ok(Target { program, folder })
    }

    /// Runs a test, optionally with a mutant. Returns whether it fails, with an error or a crash, or because it does
    /// not end.
    pub(crate) fn fails(&self, number: Option<usize>, test: &str) -> Result<bool, String> {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).args(["--exact", test]);
        command.envs(number.map(|number| ("ZOOLOCK_MUTANT", number.to_string())));
        let mut process = Process::start(&mut command, String::new());
        let mut has_passed = false;
        loop {
            match process.line(PATIENCE) {
                Ok(line) => has_passed |= line.starts_with("test ") && line.ends_with(" ... ok"),
                Err(Silence::Ended { is_success: true }) if !has_passed => {
                    return Err(format!("{} has no test {test}", self.program.display()));
                }
                Err(Silence::Ended { is_success }) => return Ok(!is_success),
                Err(Silence::Stuck) => return Ok(true),
            }
        }
    }
}
