//! Builds all mutants at once, in a copy of the tree in which a switch selects the active mutant.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::mutant::{Mutant, Sources};

/// The manifests of the packages that contain mutants.
const MANIFESTS: &[&str] = &[
    "Cargo.toml",
    "cli/Cargo.toml",
    "tests/simulation/zookeeper/Cargo.toml",
    "tests/simulation/zoolock/Cargo.toml",
    "zookeeper/Cargo.toml",
];

/// A copy of the tree, and the folder for its build output.
pub(crate) struct Tree {
    root: PathBuf,
    pub(crate) path: PathBuf,
    pub(crate) target: PathBuf,
}

/// The number of each mutant in the copy, by file and line.
type Lines = BTreeMap<(PathBuf, usize), usize>;

/// Returns the messages that cargo has printed.
pub(crate) fn messages(output: &Output) -> Vec<Value> {
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Tree {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), |dir| root.join(dir));
        let work = target.join("mutants");
        Tree { root: root.to_owned(), path: work.join("tree"), target: work.join("target") }
    }

    /// Copies the tree, inserts the mutants, and removes those that do not compile. Returns the removed ones' numbers.
    pub(crate) fn weave(
        &self,
        sources: &mut Sources,
        mutants: &[Mutant],
    ) -> Result<BTreeSet<usize>, String> {
        let mut out = BTreeSet::new();
        loop {
            let lines =
                self.copy(sources, mutants, &out).map_err(|error| format!("copy: {error}"))?;
            let bad = self.check(&lines)?;
            if bad.is_empty() {
                return Ok(out);
            }
            out.extend(bad);
        }
    }

    /// Writes the copy, and returns the mutants by file and line. Unchanged files keep their modification times.
    fn copy(
        &self,
        sources: &mut Sources,
        mutants: &[Mutant],
        out: &BTreeSet<usize>,
    ) -> io::Result<Lines> {
        let mut command = Command::new("git");
        command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = command.current_dir(&self.root).output()?.stdout;
        let listed = String::from_utf8(listed).map_err(io::Error::other)?;
        let (mut lines, mut wanted) = (Lines::new(), BTreeSet::new());
        fs::create_dir_all(&self.path)?;
        let copy = self.path.canonicalize()?;
        for file in listed.split_terminator('\0').filter(|file| self.root.join(file).is_file()) {
            let is_in =
                |(number, one): &(usize, &Mutant)| one.file == file && !out.contains(number);
            let inside: Vec<_> = mutants.iter().enumerate().filter(is_in).collect();
            let to = copy.join(file);
            let bytes = if !inside.is_empty() {
                let source = sources.get(&self.root, file).map_err(io::Error::other)?;
                let text = with_switches(&source.text, inside);
                lines.extend(switches(&text).map(|(line, number)| ((to.clone(), line), number)));
                text.into_bytes()
            } else if MANIFESTS.contains(&file) {
                self.with_dependency(&fs::read_to_string(self.root.join(file))?).into_bytes()
            } else {
                fs::read(self.root.join(file))?
            };
            if fs::read(&to).ok().as_deref() != Some(&bytes) {
                fs::create_dir_all(to.parent().unwrap_or(&copy))?;
                fs::write(&to, &bytes)?;
                fs::set_permissions(&to, fs::metadata(self.root.join(file))?.permissions())?;
            }
            wanted.insert(to);
        }
        remove_others(&copy, &wanted)?;
        Ok(lines)
    }

    fn with_dependency(&self, manifest: &str) -> String {
        let switch = self.path.join("tests/mutants/switch");
        let line =
            format!("mutants = {{ package = \"zoolock-mutants-switch\", path = {switch:?} }}");
        manifest.replacen("[dependencies]\n", &format!("[dependencies]\n{line}\n"), 1)
    }

    /// Compiles all packages that contain mutants, and returns the mutants that do not compile.
    fn check(&self, lines: &Lines) -> Result<BTreeSet<usize>, String> {
        let mut bad = BTreeSet::new();
        let real = ["zoolock-zookeeper", "zoolock", "zoolock-cli"].map(|name| ["--package", name]);
        let features = ["--features", "zoolock/metrics,zoolock/sasl,zoolock/tls,zoolock/testing"];
        let simulated = ["--package", "zoolock-simulated"];
        for packages in [[real.as_flattened(), &features].concat(), simulated.to_vec()] {
            let output = run(self.cargo("check").arg("--message-format=json").args(packages))?;
            if output.status.success() {
                continue;
            }
            let messages = messages(&output);
            let errors = messages.iter().map(|one| &one["message"]);
            let errors: Vec<_> = errors.filter(|message| message["level"] == "error").collect();
            let found = errors.iter().filter_map(|one| self.mutant(&one["spans"], lines));
            let found: Vec<_> = found.collect();
            if found.is_empty() {
                let said: String =
                    errors.iter().filter_map(|one| one["rendered"].as_str()).collect();
                let others = String::from_utf8_lossy(&output.stderr);
                return Err(format!("the copy does not compile: {said}{others}"));
            }
            bad.extend(found);
        }
        Ok(bad)
    }

    /// Returns the mutant at one of these places. Places that the compiler marks as primary come first. For code in a
    /// macro, the place where the macro is used counts.
    fn mutant(&self, spots: &Value, lines: &Lines) -> Option<usize> {
        let mut spots: Vec<_> = spots.as_array()?.iter().collect();
        spots.sort_by_key(|spot| spot["is_primary"] != true);
        spots.into_iter().find_map(|spot| self.in_spot(spot, lines))
    }

    fn in_spot(&self, spot: &Value, lines: &Lines) -> Option<usize> {
        // The packages of the simulation refer to the library's files by paths that contain `..`.
        let file = self.path.join(spot["file_name"].as_str()?).canonicalize().unwrap_or_default();
        let found = lines.get(&(file, spot["line_start"].as_u64()? as usize)).copied();
        found.or_else(|| self.in_spot(&spot["expansion"]["span"], lines))
    }

    /// Returns a cargo command that runs in the copy.
    pub(crate) fn cargo(&self, what: &str) -> Command {
        let mut command = Command::new("cargo");
        command.arg(what).current_dir(&self.path).env("CARGO_TARGET_DIR", &self.target);
        // Mutants leave code unused, and make comparisons that are always true, which the compiler would warn about.
        command.env("RUSTFLAGS", "--cap-lints=warn -Awarnings");
        // A build is faster after a similar one, because successive copies differ little.
        command.env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true");
        command
    }

    /// Builds the program that runs seeds, and returns its path.
    pub(crate) fn runner(&self) -> Result<PathBuf, String> {
        let mut command = self.cargo("build");
        command.args(["--quiet", "--release"]);
        command.args(["--package=zoolock-mutants-runner", "--package=zoolock-simulation"]);
        for package in ["simulated", "simulated-zookeeper", "simulation"] {
            let units = format!("profile.release.package.zoolock-{package}.codegen-units=16");
            command.args(["--config", &units]);
        }
        let output = run(&mut command)?;
        match output.status.success() {
            true => Ok(self.target.join("release/zoolock-mutants-runner")),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
}

pub(crate) fn run(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|error| format!("{:?}: {error}", command.get_program()))
}

/// Returns the text of a file in which each mutant's body, in one line, is inserted beside its function's own body.
fn with_switches(text: &str, mutants: Vec<(usize, &Mutant)>) -> String {
    let mut bodies = BTreeMap::<(usize, usize), Vec<(usize, &Mutant)>>::new();
    for (number, mutant) in mutants {
        bodies.entry((mutant.body.start, mutant.body.end)).or_default().push((number, mutant));
    }
    let mut woven = text.to_owned();
    for ((start, end), mutants) in bodies.into_iter().rev() {
        let mut body = String::from("{");
        for (number, mutant) in mutants {
            body += &format!("\nif {SWITCH}{number}) {}\nelse", mutant.text);
        }
        body += &format!(" {}\n}}", &text[start..end]);
        woven.replace_range(start..end, &body);
    }
    woven
}

const SWITCH: &str = "::mutants::is_on(";

/// Returns the numbers of the lines that contain mutants, counted from 1, with the numbers of the mutants.
fn switches(text: &str) -> impl Iterator<Item = (usize, usize)> {
    text.lines().enumerate().filter_map(|(line, text)| {
        let number = text.strip_prefix("if ")?.strip_prefix(SWITCH)?.split(')').next()?;
        Some((line + 1, number.parse().ok()?))
    })
}

/// Removes all files that are not wanted, because they are no longer in the tree.
fn remove_others(folder: &Path, wanted: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, wanted)?;
        } else if !wanted.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
