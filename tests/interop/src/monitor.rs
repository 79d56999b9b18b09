//! Detects holders that hold a lock at the same time, by means of files and without any lock.
//!
//! A holder creates files in the directory `in` (one for each permit), lists that directory, and appends the list to
//! `log`. It removes its files before it releases the lock. If two holders are inside at the same time, the later one
//! lists a file of the other. An exclusive holder also reads the number in `counter` and writes it back incremented, in
//! two steps; if two of them were inside, the final number is too low.
//!
//! The peers do the same in their own languages. Only [`Monitor`] checks the log.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// How long a holder stays inside, so that a second one could be detected.
const STAY: Duration = Duration::from_millis(1);

/// The kind of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Exclusive.
    Lock,
    /// Exclusive.
    Write,
    /// Shared with other readers.
    Read,
    /// A permit of a semaphore.
    Permit,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Lock, Kind::Write, Kind::Read, Kind::Permit];

    fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn of(word: &str) -> Kind {
        let found = Kind::ALL.into_iter().find(|kind| kind.word() == word);
        found.unwrap_or_else(|| panic!("the monitor has no kind `{word}`"))
    }

    fn is_alone(self) -> bool {
        matches!(self, Kind::Lock | Kind::Write)
    }
}

/// One line of the log: a holder entered, and listed these files.
#[derive(Debug, Clone)]
pub struct Visit {
    /// The holder's name.
    pub who: String,
    /// The kind of its hold.
    pub kind: Kind,
    /// The holders inside at that moment, including this one, as a kind and a name for each file.
    pub seen: Vec<(Kind, String)>,
}

impl Visit {
    /// Parses `who kind file,file,..`, where each file is `kind.who.number`.
    fn parse(line: &str) -> Visit {
        let [who, kind, files] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("not a line of a monitor: `{line}`");
        };
        let seen = files.split(',').map(|file| {
            let (kind, who) = file.split_once('.').expect("a kind and a name");
            (Kind::of(kind), who.split('.').next().unwrap_or_default().to_owned())
        });
        Visit { who: who.to_owned(), kind: Kind::of(kind), seen: seen.collect() }
    }

    /// Returns whether a holder was inside that should have been excluded by this one, given this number of permits.
    fn is_overlap(&self, permits: usize) -> bool {
        let mut others = self.seen.iter().filter(|(_, who)| *who != self.who);
        match self.kind {
            Kind::Lock | Kind::Write => others.next().is_some(),
            Kind::Read => others.any(|(kind, _)| *kind != Kind::Read),
            Kind::Permit => self.seen.len() > permits,
        }
    }
}

/// A holder that is inside. Dropping this removes its files.
#[derive(Debug)]
pub struct Stay(Vec<PathBuf>);

impl Drop for Stay {
    fn drop(&mut self) {
        for file in &self.0 {
            // If the file is missing, the log reveals the problem as well.
            let _ = fs::remove_file(file);
        }
    }
}

/// Enters the monitor in this directory, and leaves it again.
pub fn visit(folder: &Path, kind: Kind, who: &str) -> io::Result<()> {
    enter(folder, kind, who, 1).map(drop)
}

fn enter(folder: &Path, kind: Kind, who: &str, count: usize) -> io::Result<Stay> {
    let mut stay = Stay(Vec::new());
    for number in 0..count {
        let file = folder.join(format!("in/{}.{who}.{number}", kind.word()));
        OpenOptions::new().write(true).create_new(true).open(&file)?;
        stay.0.push(file);
    }
    let mut seen = Vec::new();
    for entry in fs::read_dir(folder.join("in"))? {
        seen.push(entry?.file_name().to_string_lossy().into_owned());
    }
    let line = format!("{who} {} {}\n", kind.word(), seen.join(","));
    let mut log = OpenOptions::new().append(true).open(folder.join("log"))?;
    log.write_all(line.as_bytes())?;
    let counter = folder.join("counter");
    let count = kind.is_alone().then(|| read_counter(&counter)).transpose()?;
    thread::sleep(STAY);
    if let Some(count) = count {
        fs::write(&counter, (count + 1).to_string())?;
    }
    Ok(stay)
}

/// Reads the counter. If the file is empty, another holder is about to write it, so two of them are inside.
fn read_counter(file: &Path) -> io::Result<usize> {
    Ok(fs::read_to_string(file)?.trim().parse().unwrap_or(0))
}

/// The monitor of one test. Dropping it removes its directory.
#[derive(Debug)]
pub struct Monitor(TempDir);

impl Monitor {
    /// Creates a monitor with an empty log.
    #[expect(clippy::new_without_default, reason = "it makes files")]
    pub fn new() -> Monitor {
        let folder = tempfile::Builder::new().prefix("zoolock-monitor-").tempdir();
        let folder = folder.expect("a temporary directory");
        fs::create_dir(folder.path().join("in")).expect("a directory");
        fs::write(folder.path().join("log"), "").expect("a log");
        fs::write(folder.path().join("counter"), "0").expect("a counter");
        Monitor(folder)
    }

    /// Returns the monitor's directory, which the peers use as well.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Enters. Dropping the result leaves.
    pub fn enter(&self, kind: Kind, who: &str, count: usize) -> Stay {
        enter(self.folder(), kind, who, count).expect("the files of the monitor")
    }

    /// Returns the visits, in order.
    pub fn visits(&self) -> Vec<Visit> {
        let log = fs::read_to_string(self.folder().join("log")).expect("the log");
        log.lines().map(Visit::parse).collect()
    }

    /// Returns the holders' names in the order of their visits.
    pub fn order(&self) -> Vec<String> {
        self.visits().into_iter().map(|visit| visit.who).collect()
    }

    /// Returns the visits during which a holder was inside that should have been excluded.
    pub fn overlaps(&self, permits: usize) -> Vec<Visit> {
        let mut visits = self.visits();
        visits.retain(|visit| visit.is_overlap(permits));
        visits
    }

    /// Asserts that no two holders that exclude each other were inside at once, and that none is inside now.
    #[track_caller]
    pub fn assert_sound(&self, permits: usize) {
        let (visits, overlaps) = (self.visits(), self.overlaps(permits));
        assert!(overlaps.is_empty(), "inside together: {overlaps:?}");
        let alone = visits.iter().filter(|visit| visit.kind.is_alone()).count();
        let counted = read_counter(&self.folder().join("counter")).expect("the counter");
        assert_eq!(counted, alone, "the counter, and who was alone");
        let left = fs::read_dir(self.folder().join("in")).expect("the directory");
        assert_eq!(left.count(), 0, "somebody is still inside");
    }
}
