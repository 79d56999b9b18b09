//! The table of subjects: every kind of lock, and every option that changes what becomes of its nodes.
//! What all of them promise is tested by a contract, a function of one [`Subject`], that runs over the
//! table: a new kind or option is one more line of it.

use std::env;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    EphemeralLock, Hold, LockOptions, MultiLock,
};
use zoolock_test_support::wait_until;

use crate::object::{Object, OnePermit};
use crate::{SOON, children, exists};

/// Longer than any test takes.
const KEPT: Duration = Duration::from_secs(300);

/// Longer than a turn, and not so long that tests become slow.
const AT_LEAST: Duration = Duration::from_millis(200);

/// Rarer than the looks by which a [`Task`](crate::Task) sees that its thread is asleep.
const EVERY: Duration = Duration::from_millis(500);

/// Runs contracts over one subject only.
const ONLY: &str = "ZOOLOCK_SUBJECT";

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    pub name: &'static str,
    kind: Kind,
    option: Choice,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Exclusive,
    Reentrant,
    Write,
    Read,
    Single,
    Permit,
    Several,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Choice {
    Plain,
    Background,
    HandedOn,
    Kept,
    AtLeast,
    Observed,
}

const SUBJECTS: [Subject; 22] = {
    use Choice::{AtLeast, Background, HandedOn, Kept, Observed, Plain};
    use Kind::{Exclusive, Permit, Read, Reentrant, Several, Single, Write};
    const fn row(name: &'static str, kind: Kind, option: Choice) -> Subject {
        Subject { name, kind, option }
    }
    [
        row("exclusive", Exclusive, Plain),
        row("reentrant", Reentrant, Plain),
        row("write", Write, Plain),
        row("read", Read, Plain),
        row("single node", Single, Plain),
        row("permit", Permit, Plain),
        row("several", Several, Plain),
        row("exclusive, background_release", Exclusive, Background),
        row("reentrant, background_release", Reentrant, Background),
        row("read, background_release", Read, Background),
        row("single node, background_release", Single, Background),
        row("permit, background_release", Permit, Background),
        row("exclusive, local_handoffs", Exclusive, HandedOn),
        row("write, local_handoffs", Write, HandedOn),
        row("exclusive, keep_idle", Exclusive, Kept),
        row("write, keep_idle", Write, Kept),
        row("exclusive, hold_at_least", Exclusive, AtLeast),
        row("read, hold_at_least", Read, AtLeast),
        row("permit, hold_at_least", Permit, AtLeast),
        row("exclusive, observe_queue", Exclusive, Observed),
        row("read, observe_queue", Read, Observed),
        row("permit, observe_queue", Permit, Observed),
    ]
};

/// Runs a contract over every subject, all at once. Which one broke it is the name of the thread that
/// panics; with `ZOOLOCK_SUBJECT` set to a name, over that one alone.
pub fn every_subject(contract: impl Fn(Subject) + Sync) {
    every_subject_that(|_| true, contract);
}

/// [`every_subject`] that is such a one.
pub fn every_subject_that(is_one: impl Fn(Subject) -> bool, contract: impl Fn(Subject) + Sync) {
    let only = env::var(ONLY).ok();
    let chosen = |subject: &Subject| only.as_deref().is_none_or(|name| name == subject.name);
    let subjects: Vec<_> = SUBJECTS.into_iter().filter(|one| is_one(*one)).collect();
    assert!(!subjects.is_empty(), "no subject is such a one");
    let broken: Vec<_> = thread::scope(|scope| {
        let contract = &contract;
        let runs: Vec<_> = subjects
            .into_iter()
            .filter(chosen)
            .map(|subject| {
                let thread = thread::Builder::new().name(subject.name.to_owned());
                (subject.name, thread.spawn_scoped(scope, move || contract(subject)).unwrap())
            })
            .collect();
        let ended = runs.into_iter().map(|(name, run)| (name, run.join()));
        ended.filter_map(|(name, end)| end.is_err().then_some(name)).collect()
    });
    assert!(broken.is_empty(), "broken by {broken:?}");
}

impl Subject {
    /// An object of it.
    pub fn at(self, client: &Client, path: &str) -> Object {
        self.with(client, path, LockOptions::new())
    }

    /// The same with options beside its own.
    pub fn with(self, client: &Client, path: &str, options: LockOptions) -> Object {
        let options = match self.option {
            Choice::Plain => options,
            Choice::Background => options.background_release(true),
            Choice::HandedOn => options.local_handoffs(4),
            Choice::Kept => options.keep_idle(KEPT),
            Choice::AtLeast => options.hold_at_least(AT_LEAST),
            Choice::Observed => options.observe_queue(EVERY, |_| {}),
        };
        self.object(self.kind, client, path, options)
    }

    /// An object that it excludes and is excluded by: a writer for a reader, else one like it.
    pub fn rival(self, client: &Client, path: &str) -> Object {
        let kind = if self.kind == Kind::Read { Kind::Write } else { self.kind };
        self.object(kind, client, path, LockOptions::new())
    }

    fn object(self, kind: Kind, client: &Client, path: &str, options: LockOptions) -> Object {
        macro_rules! object {
            ($lock:expr) => {{
                let lock = $lock;
                let waiting = lock.clone();
                Object {
                    guards: Arc::new(lock.clone()),
                    lock: Arc::new(lock),
                    cancel: Arc::new(move || waiting.cancel_waiters()),
                    path: path.into(),
                }
            }};
        }
        let rw =
            |options| DistributedRwLock::with_options(client, path, options).expect("a good path");
        match kind {
            Kind::Exclusive => {
                object!(DistributedLock::with_options(client, path, options).expect("a good path"))
            }
            Kind::Reentrant => {
                object!(
                    DistributedReentrantLock::with_options(client, path, options)
                        .expect("a good path")
                )
            }
            Kind::Write => object!(rw(options).write_lock()),
            Kind::Read => object!(rw(options).read_lock()),
            Kind::Single => {
                object!(EphemeralLock::with_options(client, path, options).expect("a good path"))
            }
            Kind::Permit => {
                let semaphore = DistributedSemaphore::with_options(client, path, 1, options);
                let semaphore = semaphore.expect("a good path");
                let waiting = semaphore.clone();
                Object {
                    guards: Arc::new(semaphore.clone()),
                    lock: Arc::new(OnePermit::of(semaphore)),
                    cancel: Arc::new(move || waiting.cancel_waiters()),
                    path: path.into(),
                }
            }
            Kind::Several => {
                let member = |name| {
                    let path = format!("{path}/{name}");
                    DistributedLock::with_options(client, path, options.clone())
                        .expect("a good path")
                };
                let (a, b) = (member("a"), member("b"));
                let both = MultiLock::new([a.clone().into(), b.clone().into()]).expect("two paths");
                let cancel = move || {
                    a.cancel_waiters();
                    b.cancel_waiters();
                };
                let both = Arc::new(both);
                Object {
                    guards: both.clone(),
                    lock: both,
                    cancel: Arc::new(cancel),
                    path: path.into(),
                }
            }
        }
    }

    /// Those who wait come in in the order of their arrival, each by a node of its own.
    pub fn queues(self) -> bool {
        self.kind != Kind::Single
    }

    /// A hold belongs to the thread that made it, and to nobody else.
    pub fn is_a_threads(self) -> bool {
        matches!(self.kind, Kind::Reentrant | Kind::Write | Kind::Read)
    }

    /// Only one is in at a time, also of its like.
    pub fn is_exclusive(self) -> bool {
        self.kind != Kind::Read
    }

    /// One hold of one node.
    pub fn is_one_lock(self) -> bool {
        self.kind != Kind::Several
    }

    /// With its unlock its nodes go, before that returns unless it [releases in the
    /// background](Self::releases_in_the_background).
    pub fn goes_with_its_unlock(self) -> bool {
        self.option != Choice::Kept && self.is_free_with_its_unlock()
    }

    /// Whoever asks for it behind its unlock gets it: at once, or as soon as a kept node has been given back.
    ///
    /// With `hold_at_least`, the nodes stay until the time is over. This is the one reason why a contract excludes
    /// that option: it tries again at once, looks for nodes that have gone, counts requests, or sets the time itself.
    pub fn is_free_with_its_unlock(self) -> bool {
        self.option != Choice::AtLeast
    }

    pub fn releases_in_the_background(self) -> bool {
        self.option == Choice::Background
    }

    /// No option but the defaults.
    pub fn is_plain(self) -> bool {
        self.option == Choice::Plain
    }

    /// The nodes that hold, by their full paths, sorted. A semaphore has others for those who wait.
    pub fn holding(self, path: &str) -> Vec<String> {
        match self.kind {
            Kind::Permit => below(&format!("{path}/leases")),
            _ => self.nodes(path),
        }
    }

    /// All nodes of contenders at a path, by their full paths, sorted. For a while after a grant of permits
    /// their turn is among them, which is given back in the background.
    pub fn nodes(self, path: &str) -> Vec<String> {
        match self.kind {
            Kind::Single if exists(path) => vec![path.to_owned()],
            Kind::Single => Vec::new(),
            Kind::Permit => {
                [below(&format!("{path}/leases")), below(&format!("{path}/locks"))].concat()
            }
            Kind::Several => [below(&format!("{path}/a")), below(&format!("{path}/b"))].concat(),
            _ => below(path),
        }
    }

    /// Waits until this many [`nodes`](Self::nodes) are there.
    #[track_caller]
    pub fn await_nodes(self, path: &str, count: usize) -> Vec<String> {
        let mut nodes = Vec::new();
        wait_until(&format!("{}: {count} nodes at {path}", self.name), SOON, || {
            nodes = self.nodes(path);
            nodes.len() == count
        });
        nodes
    }

    /// How many nodes one has that holds.
    pub fn nodes_of_one(self) -> usize {
        if self.kind == Kind::Several { 2 } else { 1 }
    }

    /// How many nodes there are when one holds and so many wait. Of these the first shows the permit
    /// that it wants.
    pub fn nodes_with_waiters(self, waiters: usize) -> usize {
        let shown = usize::from(self.kind == Kind::Permit && waiters > 0);
        self.nodes_of_one() + if self.queues() { waiters + shown } else { 0 }
    }

    /// An object that holds is in use until its unlock, and no other call of it goes to the servers. Of
    /// permits and of reads there may be many.
    pub fn is_in_use_until_unlocked(self) -> bool {
        !matches!(self.kind, Kind::Permit | Kind::Read)
    }

    /// A fresh path that says which subject it is of.
    pub fn path_in(self, above: &str) -> String {
        let name: String = self.name.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
        format!("{above}/{name}")
    }

    /// What its nodes are called between their id and their number; a single node has neither.
    pub fn marker(self) -> Option<&'static str> {
        match self.kind {
            Kind::Single => None,
            Kind::Write => Some("__WRIT__"),
            Kind::Read => Some("__READ__"),
            Kind::Permit => Some("lease-"),
            _ => Some("lock-"),
        }
    }

    /// The full path of the node of one of its holds.
    pub fn node_of(self, hold: &Hold) -> String {
        match self.kind {
            Kind::Single => hold.path().to_owned(),
            Kind::Permit => format!("{}/leases/{}", hold.path(), hold.node()),
            _ => format!("{}/{}", hold.path(), hold.node()),
        }
    }

    /// Its nodes are in a directory, which is the lock's path.
    pub fn has_a_directory(self) -> bool {
        !matches!(self.kind, Kind::Single | Kind::Permit | Kind::Several)
    }

    /// Its guard is a hold of the object, not a hold of its own.
    pub fn guards_the_object(self) -> bool {
        self.is_one_lock() && self.kind != Kind::Permit
    }

    /// The threads that share an object wait in this process, one behind the other.
    pub fn has_a_first_level(self) -> bool {
        !matches!(self.kind, Kind::Read | Kind::Several)
    }

    /// What it takes to come in and leave with nobody there: creates, deletions, lists and reads. A
    /// semaphore's turn is a node of its own, and each of several is taken and released alone.
    pub fn cost_of_a_cycle(self) -> [u64; 4] {
        match self.kind {
            Kind::Permit | Kind::Several => [2, 2, 0, 0],
            _ => [1, 1, 0, 0],
        }
    }

    /// The same where the numbers do not tell yet that nobody is there. From the second one on, which comes
    /// right behind the first, the directory is watched.
    pub fn cost_of_the_first_cycles(self) -> [[u64; 4]; 2] {
        let [creates, deletions, ..] = self.cost_of_a_cycle();
        let lists = if self.kind == Kind::Single { 0 } else { creates };
        [[creates, deletions, lists, 0], [creates, deletions, lists, lists]]
    }

    /// Who only tries looks before it makes a node, but where making it tells.
    pub fn cost_of_a_try(self) -> [u64; 4] {
        let [creates, deletions, lists, reads] = self.cost_of_a_cycle();
        match self.kind {
            Kind::Single => [creates, deletions, lists, reads],
            // It does not wait for its turn.
            Kind::Permit => [1, 1, 1, 0],
            _ => [creates, deletions, creates, reads],
        }
    }

    /// A list of who is there; of a single node, a create that is refused, and a look.
    pub fn cost_of_a_refusal(self) -> [u64; 4] {
        match self.kind {
            Kind::Single => [1, 0, 0, 1],
            _ => [0, 0, 1, 0],
        }
    }

    /// Waits until so many calls of these clients wait behind one that holds.
    pub fn await_waiting(self, path: &str, clients: &[&Client], count: usize) {
        let waiting = || match self.kind {
            Kind::Single => clients.iter().map(|client| client.stats().waiting).sum(),
            Kind::Permit => children(&format!("{path}/locks")).len(),
            Kind::Several => children(&format!("{path}/a")).len() - 1,
            _ => children(path).len() - 1,
        };
        wait_until(&format!("{}: {count} wait at {path}", self.name), SOON, || waiting() == count);
    }

    /// An unlock may leave it to the next thread of the process, if an option says so.
    pub fn may_be_left(self) -> bool {
        !matches!(self.kind, Kind::Read | Kind::Single | Kind::Permit)
    }

    /// What it and its rival are to those who look from outside.
    pub fn shown_as(self) -> [zoolock::Kind; 2] {
        match self.kind {
            Kind::Write => [zoolock::Kind::Write; 2],
            Kind::Read => [zoolock::Kind::Read, zoolock::Kind::Write],
            Kind::Permit => [zoolock::Kind::Permit; 2],
            _ => [zoolock::Kind::Exclusive; 2],
        }
    }
}

fn below(directory: &str) -> Vec<String> {
    children(directory).into_iter().map(|node| format!("{directory}/{node}")).collect()
}
