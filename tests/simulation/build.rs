//! Finds the events that the simulation has to reach, so that they need not be listed by hand: the probes of the
//! library and the client, the simulation's own counts, and the variants of some enums.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let mut probes = Found::new();
    for (folder, name) in [("../../src", "src"), ("../../zookeeper/src", "zookeeper/src")] {
        for file in sources(Path::new(folder)) {
            let text = read(&file);
            let place = format!("{name}{}", &file.display().to_string()[folder.len()..]);
            for (at, what) in behind(&text, "sys::reached") {
                let place = format!("{place}:{}", line(&text, at));
                if let Some(other) = probes.insert(what.to_owned(), place.clone()) {
                    panic!("two probes have the name {what:?}: {other} and {place}");
                }
            }
        }
    }
    let mut counted = Found::new();
    for file in sources(Path::new("src")) {
        let text = read(&file);
        for (at, what) in behind(&text, "count(").into_iter().chain(behind(&text, "=> \"")) {
            let class = what.split_once(": ").map_or("", |(class, _)| class);
            if !class.is_empty() && class.bytes().all(|byte| byte.is_ascii_lowercase()) {
                let place = format!("{}:{}", file.display(), line(&text, at));
                counted.insert(what.to_owned(), format!("tests/simulation/{place}"));
            }
        }
    }
    for (class, file, name) in ENUMS {
        let text = read(&Path::new("../..").join(file));
        for (at, variant) in variants(&text, &format!("enum {name} {{")) {
            counted.insert(format!("{class}: {variant}"), format!("{file}:{}", line(&text, at)));
        }
    }
    let tables = [table("PROBES", &probes), table("COUNTED", &counted)].concat();
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(PathBuf::from(out).join("found.rs"), tables).expect("the tables can be written");
}

/// Enums whose variants are counted. For each: the prefix of its counts, its file, and its name.
const ENUMS: &[(&str, &str, &str)] = &[
    ("error", "src/base/error.rs", "Error"),
    ("fault", "tests/simulation/src/plan.rs", "FaultKind"),
    ("fault", "tests/simulation/src/plan.rs", "FrameFault"),
    ("kind", "tests/simulation/src/plan.rs", "Kind"),
    ("call", "tests/simulation/src/plan.rs", "What"),
    ("operation", "tests/simulation/src/plan.rs", "Operation"),
    ("raw", "tests/simulation/src/raw.rs", "How"),
    ("raw", "tests/simulation/src/raw/watches.rs", "WatchKind"),
];

/// The names that were found, each with the file in which it was found.
type Found = BTreeMap<String, String>;

fn table(name: &str, found: &Found) -> String {
    let mut table = format!("const {name}: &[(&str, &str)] = &[\n");
    for (what, place) in found {
        writeln!(table, "    ({what:?}, {place:?}),").expect("a string takes it");
    }
    table + "];\n"
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn line(text: &str, at: usize) -> usize {
    text[..at].lines().count().max(1)
}

/// Returns the first string after each occurrence of `call`. Skips comments, and calls without a string literal.
fn behind<'a>(text: &'a str, call: &str) -> Vec<(usize, &'a str)> {
    let is_code = |at: usize| {
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let end = text[at..].find(';').map_or(text.len(), |end| at + end);
        !text[start..at].trim_start().starts_with("//") && text[at..end].contains('"')
    };
    let calls = text.match_indices(call).filter(|(at, _)| is_code(*at));
    calls.map(|(at, _)| (at, literal(&text[at..]))).collect()
}

/// Returns the first string in a text. Quotes in strings need not be handled, because no such string contains any.
fn literal(text: &str) -> &str {
    text.split('"').nth(1).unwrap_or_default()
}

/// Returns the variants of the enum whose declaration begins with `enumeration`.
fn variants<'a>(text: &'a str, enumeration: &str) -> Vec<(usize, &'a str)> {
    let start = text.find(enumeration).expect("an enum");
    let end = start + text[start..].find("\n}").expect("its end");
    let lines = text[start..end].match_indices("\n    ");
    let variant = |(at, indent): (usize, &str)| {
        let at = start + at + indent.len();
        let name = text[at..end].split(|c: char| !c.is_ascii_alphanumeric()).next()?;
        name.starts_with(|c: char| c.is_ascii_uppercase()).then_some((at, name))
    };
    lines.filter_map(variant).collect()
}
