//! Clients of another library in the same run, in place of zoolock's, for comparison: their kinds,
//! their phases, and their start.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use serde::Serialize;

use crate::Outcome;
use crate::kinds::Kind;
use crate::paths::{self, PATHS, Traffic, Use};
use crate::settings::TIMEOUT;

/// Another library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Peer {
    /// Apache Curator's recipes, as Debian has them
    Curator,
}

const CURATOR_SOURCES: &str = "../peers/torture";
/// The first names in its manifest what else it needs, all but the logger.
const CURATOR_JARS: &str = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-simple.jar";
const CURATOR_KINDS: [Kind; 5] =
    [Kind::Exclusive, Kind::Reentrant, Kind::ReadWrite, Kind::Semaphore, Kind::Multi];

impl Peer {
    /// Those that are named, or all that the library has.
    pub(crate) fn kinds(self, named: &[Kind]) -> Outcome<Vec<Kind>> {
        let Peer::Curator = self;
        match named.iter().find(|kind| !CURATOR_KINDS.contains(kind)) {
            Some(kind) => Err(format!("curator has nothing like {kind}").into()),
            None if named.is_empty() => Ok(CURATOR_KINDS.to_vec()),
            None => Ok(named.to_vec()),
        }
    }

    /// Compiles the client into a folder. The command that starts it goes on with the arguments
    /// that a copy of this program gets.
    pub(crate) fn build(self, folder: &Path) -> Outcome<Vec<OsString>> {
        let Peer::Curator = self;
        let classes = folder.join("classes");
        compile(&classes)?;
        let described: Vec<_> = (0..PATHS).map(describe).collect();
        let words = [
            // Also when the process is stopped and cannot notice that the coordinator is gone.
            "setpriv --pdeathsig KILL".to_owned(),
            java_tool("java").display().to_string(),
            "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1".to_owned(),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=off".to_owned(),
            format!("-cp {}:{CURATOR_JARS} CuratorClient", classes.display()),
            format!("--paths {}", described.join(",")),
            format!("--timeout-ms {}", TIMEOUT.as_millis()),
        ];
        let words = words.iter().flat_map(|words| words.split(' '));
        Ok(words.map(OsString::from).collect())
    }
}

fn compile(classes: &Path) -> Outcome<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(CURATOR_SOURCES);
    let sources = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut command = Command::new(java_tool("javac"));
    command.args(["-cp", CURATOR_JARS, "-d"]).arg(classes);
    command.args(sources.collect::<Result<Vec<_>, _>>()?);
    let hint = "tests/setup.sh --interop installs what it takes";
    let output = command.output().map_err(|error| format!("no Java compiler ({hint}): {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(format!("the client cannot be compiled ({hint}): {errors}").into())
        }
    }
}

/// In `JAVA_HOME`, or wherever the system finds it.
fn java_tool(name: &str) -> PathBuf {
    match env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        Some(home) => Path::new(&home).join("bin").join(name),
        None => name.into(),
    }
}

/// Name, use, capacity and traffic.
fn describe(path: usize) -> String {
    let at = paths::at(path);
    let what = match at.what {
        Use::Exclusive => "exclusive",
        Use::ReadWrite => "read-write",
        Use::Semaphore(_) => "semaphore",
        Use::Ephemeral => "ephemeral",
    };
    let traffic = match at.traffic {
        Traffic::Hot => "hot",
        Traffic::Usual => "usual",
        Traffic::Slow => "slow",
    };
    format!("{}:{what}:{}:{traffic}", at.name, at.what.capacity())
}
