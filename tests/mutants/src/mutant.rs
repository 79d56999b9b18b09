//! Mutants: handwritten ones, from the table, and random ones, from cargo-mutants.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use crate::source::{Function, Source, in_one_line};

/// A mistake in the library: different code at one place in a function.
pub(crate) struct Mutant {
    pub(crate) name: String,
    pub(crate) file: String,
    /// The position of the function's body in its file.
    pub(crate) body: Range<usize>,
    /// The body that contains the mistake, in one line.
    pub(crate) text: String,
    /// What must detect the mutant: [`SIMULATION`], or a target of [`crate::tests`] and one of its tests. Empty for
    /// random mutants.
    pub(crate) killed_by: Vec<String>,
}

/// The value of `killed_by` for the seeds of the simulation.
pub(crate) const SIMULATION: &str = "simulation";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    mutant: Vec<Entry>,
}

/// A mutant as it is written in the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    /// For readers of the table only.
    #[serde(rename = "why")]
    _why: String,
    file: String,
    function: String,
    from: String,
    to: String,
    killed_by: Vec<String>,
}

/// The files that contain mutants.
#[derive(Default)]
pub(crate) struct Sources(BTreeMap<String, Source>);

impl Sources {
    pub(crate) fn get(&mut self, root: &Path, file: &str) -> Result<&Source, String> {
        if !self.0.contains_key(file) {
            let text =
                fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
            let source = Source::parse(text).map_err(|error| format!("{file}: {error}"))?;
            self.0.insert(file.to_owned(), source);
        }
        Ok(&self.0[file])
    }
}

/// Reads the table. If the code of any entry no longer exists, fails with a list of these entries.
pub(crate) fn of_table(root: &Path, sources: &mut Sources) -> Result<Vec<Mutant>, String> {
    let text = include_str!("../table.toml");
    let table: Table = toml::from_str(text).map_err(|error| format!("table.toml: {error}"))?;
    let (mut mutants, mut problems) = (Vec::<Mutant>::new(), Vec::new());
    for entry in table.mutant {
        let name = entry.name.clone();
        if mutants.iter().any(|other| other.name == name) {
            problems.push(format!("{name}: there are two of this name"));
        }
        match place(root, sources, entry) {
            Ok(mutant) => mutants.push(mutant),
            Err(problem) => problems.push(format!("{name}: {problem}")),
        }
    }
    if problems.is_empty() { Ok(mutants) } else { Err(problems.join("\n")) }
}

fn place(root: &Path, sources: &mut Sources, entry: Entry) -> Result<Mutant, String> {
    let Entry { name, file, function, from, to, killed_by, .. } = entry;
    let is_known = |killer: &String| killer == SIMULATION || killer.contains(' ');
    if killed_by.is_empty() || !killed_by.iter().all(is_known) {
        return Err(format!("neither '{SIMULATION}' nor a target and a test: {killed_by:?}"));
    }
    let source = sources.get(root, &file)?;
    let name_alone = function.rsplit(':').next();
    let is_named = |one: &&Function| Some(&*one.name) == name_alone;
    let places = source.functions.iter().filter(is_named);
    let places: Vec<_> = places.filter_map(|one| Some((one, source.find(one, &from)?))).collect();
    let [(function, at)] = &places[..] else {
        return Err(format!("the text is not exactly once in a {function} of {file}: {from}"));
    };
    if let Some(why) = function.unfit {
        return Err(format!("{} {why}", function.name));
    }
    let text = changed(source, function, at, &to).ok_or(format!("it is no Rust: {to}"))?;
    Ok(Mutant { name, file, body: function.body.clone(), text, killed_by })
}

/// Returns the body of a function with different code at one place.
fn changed(source: &Source, function: &Function, at: &Range<usize>, to: &str) -> Option<String> {
    let before = &source.text[function.body.start..at.start];
    in_one_line(&format!("{before} {to} {}", &source.text[at.end..function.body.end]))
}

/// Chooses random mutants from cargo-mutants' list, but none in functions that cannot contain a switch.
pub(crate) fn of_cargo_mutants(
    root: &Path,
    sources: &mut Sources,
    number: usize,
    seed: u64,
) -> Result<Vec<Mutant>, String> {
    let mut command = Command::new("cargo");
    let arguments = "mutants --list --json --package=zoolock --package=zoolock-zookeeper";
    command.args(arguments.split(' '));
    let output = command.current_dir(root).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!(
            "cargo-mutants is wanted (cargo install --locked cargo-mutants): {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let mut listed: Vec<Value> =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    fastrand::Rng::with_seed(seed).shuffle(&mut listed);
    let mut mutants = Vec::new();
    for one in listed {
        let text = |what: &str| one[what].as_str().unwrap_or_default().to_owned();
        let (name, file, replacement) = (text("name"), text("file"), text("replacement"));
        let source = sources.get(root, &file)?;
        let offset = |what: &str| {
            let number = |part: &str| one["span"][what][part].as_u64().unwrap_or(1) as usize;
            source.offset(number("line"), number("column"))
        };
        let at = offset("start")..offset("end");
        let is_around = |one: &&Function| one.body.start <= at.start && at.end <= one.body.end;
        let function = source.functions.iter().find(is_around).filter(|one| one.unfit.is_none());
        let Some((function, text)) =
            function.and_then(|one| Some((one, changed(source, one, &at, &replacement)?)))
        else {
            continue;
        };
        let (body, killed_by) = (function.body.clone(), Vec::new());
        mutants.push(Mutant { name, file, body, text, killed_by });
        if mutants.len() == number {
            break;
        }
    }
    Ok(mutants)
}
