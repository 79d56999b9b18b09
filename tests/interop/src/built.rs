//! Compiles programs on demand, and keeps them in the project's `target/interop`.
//!
//! A temporary directory would not do, because some test runners start a new process for each test.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

/// The folder in the project for programs that the tests compile and that `tests/setup.sh --interop` installs.
const PLACE: &str = include_str!("../place");

/// Returns the path of the folder `PLACE`.
pub(crate) fn place() -> PathBuf {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    project.join(PLACE.trim())
}

/// Returns a folder with the files that `compile` has made from `inputs`, in this run or in an earlier one.
///
/// If two processes compile at the same time, the result of the process that finishes second is discarded.
pub(crate) fn built(
    what: &str,
    inputs: &[&Path],
    compile: impl FnOnce(&Path) -> Command,
) -> PathBuf {
    let folder = place().join(format!("{what}-{:016x}", fingerprint(inputs)));
    if folder.is_dir() {
        return folder;
    }
    fs::create_dir_all(place()).expect("the place for what is built");
    let fresh = tempfile::tempdir_in(place()).expect("a temporary directory");
    let mut command = compile(fresh.path());
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    if let Err(error) = fs::rename(fresh.path(), &folder) {
        assert!(folder.is_dir(), "{}: {error}", folder.display());
    }
    folder
}

/// Returns a hash of the names and contents of the files.
fn fingerprint(inputs: &[&Path]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for input in inputs {
        let real = input.canonicalize().expect("a file to build from");
        let about = real.metadata().expect("a file to build from");
        let changed = about.modified().ok();
        let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        (real, about.len(), changed).hash(&mut hasher);
    }
    hasher.finish()
}
