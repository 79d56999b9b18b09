//! `tests/bugs.tsv` has a line for each bug. This generates the page `tests/bugs.md` from it, and checks that the tests
//! and mutants that the lines name exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

use crate::source::files;

/// The number of bugs, the worst ones, that the page shows.
const SHOWN: usize = 20;

/// The classes of bugs, worst first.
const CLASSES: [(&str, &str); 6] = [
    ("two-holders", "two holders, or two programs under one lock"),
    ("lost-write", "a lost or stale write"),
    ("hang", "a call that never returns or misses its deadline; a lock that no client can get"),
    ("left-behind", "something left behind"),
    ("wrong-report", "a wrong report"),
    ("other", "the rest: locks lost needlessly, excessive load, servers not found"),
];

const STATUS: [&str; 3] = ["fixed", "open", "removed"];

/// The targets that the column `found_now` names, each with its folder and the command that runs it.
const TARGETS: [(&str, &str, &str); 15] = [
    ("contracts", "tests/contracts", "cargo test --test contracts"),
    ("faults", "tests/faults", "cargo test --test faults"),
    ("ensembles", "tests/ensembles", "cargo test --test ensembles"),
    ("sequence_overflow", "tests/sequence_overflow", "cargo test --test sequence_overflow"),
    ("overload", "tests/overload", "cargo test --test overload"),
    ("programs", "tests/programs", "cargo test --test programs"),
    ("secured", "tests/secured", "cargo test -p zoolock-secured"),
    ("lib", "src", "cargo test --lib"),
    ("client", "zookeeper/src", "cargo test -p zoolock-zookeeper --all-features --lib"),
    ("client-it", "zookeeper/tests", "cargo test -p zoolock-zookeeper --all-features --test it"),
    ("servers", "zookeeper-testing/src", "cargo test -p zoolock-zookeeper-testing --lib"),
    (
        "servers-differential",
        "zookeeper-testing/tests",
        "cargo test -p zoolock-zookeeper-testing --test differential",
    ),
    ("cli", "cli", "cargo test -p zoolock-cli"),
    ("model", "tests/model", "cargo test -p zoolock-model"),
    ("interop", "tests/interop", "cargo test -p zoolock-interop"),
];

/// A line of `tests/bugs.tsv`.
struct Bug<'t> {
    number: usize,
    class: &'t str,
    status: &'t str,
    what: &'t str,
    found_by: &'t str,
    found_now: &'t str,
}

impl<'t> Bug<'t> {
    fn read(line: &'t str) -> Bug<'t> {
        let fields: Vec<_> = line.split('\t').collect();
        // The last three fields are for maintainers: the component, the commits, and the number of seeds.
        let [number, class, status, what, found_by, found_now, _, _, _] = fields[..] else {
            panic!("not nine fields: {line}");
        };
        let number = number.parse().unwrap_or_else(|_| panic!("not a number: {line}"));
        assert!(CLASSES.iter().any(|(name, _)| *name == class), "bug {number}: class `{class}`");
        assert!(STATUS.contains(&status), "bug {number}: status `{status}`");
        assert!(!what.is_empty() && !found_by.is_empty() && !found_now.is_empty(), "bug {number}");
        Bug { number, class, status, what, found_by, found_now }
    }

    fn row(&self) -> String {
        let Bug { number, what, found_by, found_now, .. } = self;
        let open = if self.status == "open" { "**open**: " } else { "" };
        format!("| {number} | {what} | {found_by} | {open}{found_now} |\n")
    }
}

fn read(text: &str) -> Vec<Bug<'_>> {
    text.lines().skip(1).map(Bug::read).collect()
}

#[test]
fn page_of_bugs_is_made_from_their_lines() {
    let folder = crate::root().join("tests");
    let source = fs::read_to_string(folder.join("bugs.tsv")).expect("the bugs");
    let (bugs, file) = (read(&source), folder.join("bugs.md"));
    let numbers: BTreeSet<_> = bugs.iter().map(|bug| bug.number).collect();
    assert!(numbers.into_iter().eq(1..=bugs.len()), "a number is missing or occurs twice");
    let page = page(&bugs);
    let Some(kept) = crate::unless_blessed(&file, &page) else { return };
    let bless = crate::BLESS;
    assert!(
        kept == page,
        "tests/bugs.md is not what tests/bugs.tsv makes: {bless}=1 cargo test -p zoolock-api"
    );
}

fn page(bugs: &[Bug<'_>]) -> String {
    let counted = |key: fn(&Bug<'_>) -> String| {
        let mut counts = BTreeMap::new();
        for bug in bugs {
            *counts.entry(key(bug)).or_insert(0_usize) += 1;
        }
        counts
    };
    let (all, open) = (bugs.len(), bugs.iter().filter(|bug| bug.status == "open").count());
    let mut page = format!(
        "# Bugs that were found\n\n\
         [`bugs.tsv`](bugs.tsv) has a line for each bug found so far in the locks, the client or \
         the command, worst first. This page is generated from it by \
         `ZOOLOCK_BLESS=1 cargo test -p zoolock-api`. There are {all} bugs, and {open} of them are \
         open.\n\n\
         | class | bugs |\n|---|---:|\n"
    );
    let classes = counted(|bug| bug.class.to_owned());
    for (name, about) in CLASSES {
        let count = classes.get(name).unwrap_or(&0);
        let _ = writeln!(page, "| `{name}`: {about} | {count} |");
    }
    page += "\n| found by | bugs |\n|---|---:|\n";
    let mut found: Vec<_> = counted(|bug| bug.found_by.to_owned()).into_iter().collect();
    found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (by, count) in found {
        let _ = writeln!(page, "| {by} | {count} |");
    }
    page += "\nIn an attack, someone read the code and tried to break it with schedules. In a review, \
             someone read the code without that aim. A newcomer followed only the documentation, and \
             a user wrote a program.\n";
    let head = "\n| number | what a user saw | found by | found now by |\n|---:|---|---|---|\n";
    let _ = write!(page, "\n## The {SHOWN} worst\n{head}");
    page.extend(bugs.iter().take(SHOWN).map(Bug::row));
    let _ = write!(page, "\n## Others that are open\n{head}");
    let others = bugs.iter().skip(SHOWN).filter(|bug| bug.status == "open");
    page.extend(others.map(Bug::row));
    page += "\n## How to read a line\n\n\
             The fields of `bugs.tsv` are separated by tabs. `number` follows the order of \
             discovery; a new bug takes the next number, and its line goes where the bug belongs by \
             its class. `status` is `fixed`, `open`, or `removed` if the code with the bug was removed. \
             `commits` are those that introduced and fixed the bug. `seeds` counts how many \
             seeds the simulator runs until one detects the bug's mutant; only seeds that reach the \
             mutant are counted. `simulation` stands for the simulator, and `mutant x` for \
             `cargo run --release -p zoolock-mutants -- x`. A test is given as its target and its name:\n\n\
             | target | command |\n|---|---|\n";
    for (target, _, command) in TARGETS {
        let _ = writeln!(page, "| `{target} TEST` | `{command} TEST` |");
    }
    page
}

#[test]
fn tests_and_mutants_that_find_a_bug_exist() {
    let root = crate::root();
    let read_file = |path: &str| fs::read_to_string(root.join(path)).expect("a file");
    let source = read_file("tests/bugs.tsv");
    let mutants = read_file("tests/mutants/table.toml");
    let words = |folder| {
        let texts = files(&root.join(folder), "rs", &[]).into_iter();
        let texts = texts.map(|file| fs::read_to_string(file).expect("a source"));
        let words = |text: String| -> Vec<String> {
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        texts.flat_map(words).collect::<BTreeSet<_>>()
    };
    let known: BTreeMap<_, _> =
        TARGETS.iter().map(|(target, folder, _)| (*target, words(folder))).collect();
    let (mut named, mut missing) = (0, Vec::new());
    for bug in read(&source) {
        for quoted in bug.found_now.split('`').skip(1).step_by(2) {
            let Some((target, name)) = quoted.split_once(' ') else { continue };
            let function = name.rsplit("::").next().unwrap_or(name);
            let exists = match known.get(target) {
                Some(words) => words.contains(function),
                None if target == "mutant" => mutants.contains(&format!("name = \"{name}\"\n")),
                None => continue,
            };
            named += 1;
            if !exists {
                missing.push(format!("bug {}: there is no `{quoted}`", bug.number));
            }
        }
    }
    println!("{named} tests and mutants are named");
    assert!(named > 200, "the search no longer finds them");
    assert!(missing.is_empty(), "{missing:#?}");
}
