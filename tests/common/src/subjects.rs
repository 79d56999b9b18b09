//! The table of subjects: every kind of lock, and every option that affects its nodes. A contract is a function of one
//! [`Subject`] and runs for all subjects. To cover a new kind or option, add a row.

use std::env;
use std::thread;
use std::time::Duration;

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    EphemeralLock, Hold, LockOptions, MultiLock,
};
use zoolock_test_support::wait_until;

use crate::holds::await_count;
use crate::object::{Object, OnePermit};
use crate::{SOON, children, exists};

/// Longer than it takes to acquire and release a lock, but short enough not to slow down the tests.
const AT_LEAST: Duration = Duration::from_millis(200);

/// A row of the table: a kind of lock, with or without an option.
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
    AtLeast,
}

const SUBJECTS: [Subject; 17] = {
    use Choice::{AtLeast, Background, HandedOn, Plain};
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
        row("exclusive, hold_at_least", Exclusive, AtLeast),
        row("read, hold_at_least", Read, AtLeast),
        row("permit, hold_at_least", Permit, AtLeast),
    ]
};

/// Runs a contract for all subjects at the same time, or only for the one named by `ZOOLOCK_SUBJECT`. If a contract
/// panics, the name of its thread shows the subject.
pub fn every_subject(contract: impl Fn(Subject) + Sync) {
    every_subject_that(|_| true, contract);
}

/// Like [`every_subject`], for the subjects that satisfy `is_one`.
pub fn every_subject_that(is_one: impl Fn(Subject) -> bool, contract: impl Fn(Subject) + Sync) {
    let only = env::var("ZOOLOCK_SUBJECT").ok();
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
    #[track_caller]
    pub fn named(name: &str) -> Subject {
        let found = SUBJECTS.into_iter().find(|subject| subject.name == name);
        found.unwrap_or_else(|| panic!("the table has no `{name}`"))
    }

    pub fn at(self, client: &Client, path: &str) -> Object {
        self.with(client, path, LockOptions::new())
    }

    /// Creates an object with these options and the subject's own option.
    pub fn with(self, client: &Client, path: &str, options: LockOptions) -> Object {
        let options = match self.option {
            Choice::Plain => options,
            Choice::Background => options.background_release(true),
            Choice::HandedOn => options.local_handoffs(4),
            Choice::AtLeast => options.hold_at_least(AT_LEAST),
        };
        self.object(self.kind, client, path, options)
    }

    /// Creates an object that excludes this subject: for a reader, a writer.
    pub fn rival(self, client: &Client, path: &str) -> Object {
        let kind = if self.kind == Kind::Read { Kind::Write } else { self.kind };
        self.object(kind, client, path, LockOptions::new())
    }

    fn object(self, kind: Kind, client: &Client, path: &str, options: LockOptions) -> Object {
        // Creates a lock of type `$lock`, or the side `$side` of a read-write lock.
        macro_rules! object {
            ($lock:ty $(, $side:ident)?) => {{
                let made = <$lock>::with_options(client, path, options).expect("a good path");
                let lock = made$(.$side())?;
                Object::new(lock.clone(), lock)
            }};
        }
        match kind {
            Kind::Exclusive => object!(DistributedLock),
            Kind::Reentrant => object!(DistributedReentrantLock),
            Kind::Write => object!(DistributedRwLock, writer),
            Kind::Read => object!(DistributedRwLock, reader),
            Kind::Single => object!(EphemeralLock),
            Kind::Permit => {
                let semaphore = DistributedSemaphore::with_options(client, path, 1, options);
                let semaphore = semaphore.expect("a good path");
                Object::new(OnePermit::of(semaphore.clone()), semaphore)
            }
            Kind::Several => {
                let members = ["a", "b"].map(|name| {
                    let path = format!("{path}/{name}");
                    let lock = DistributedLock::with_options(client, path, options.clone());
                    lock.expect("a good path")
                });
                let both = MultiLock::new(members.map(Into::into)).expect("two paths");
                Object::new(both.clone(), both)
            }
        }
    }

    /// Returns whether waiters are granted in the order of arrival, each with its own node.
    pub fn queues(self) -> bool {
        self.kind != Kind::Single
    }

    /// Returns whether a hold belongs to the thread that acquired it.
    pub fn is_a_threads(self) -> bool {
        matches!(self.kind, Kind::Reentrant | Kind::Write | Kind::Read)
    }

    /// Returns whether two objects of this subject exclude each other.
    pub fn is_exclusive(self) -> bool {
        self.kind != Kind::Read
    }

    /// Returns whether an object has a single hold with a single node.
    pub fn is_one_lock(self) -> bool {
        self.kind != Kind::Several
    }

    /// Returns whether the nodes are deleted because of the unlock: before it returns, or [in the
    /// background](Self::releases_in_the_background).
    ///
    /// With `hold_at_least`, they are kept until the minimum time is over. Contracts leave this option out only for
    /// that reason: they lock again immediately, expect no nodes, count requests or times, or set a time themselves.
    pub fn goes_with_its_unlock(self) -> bool {
        self.option != Choice::AtLeast
    }

    pub fn releases_in_the_background(self) -> bool {
        self.option == Choice::Background
    }

    pub fn is_plain(self) -> bool {
        self.option == Choice::Plain
    }

    /// Returns the full paths of the holders' nodes, sorted. A semaphore's waiters have other nodes.
    pub fn holding(self, path: &str) -> Vec<String> {
        let mut nodes = self.nodes(path);
        if self.kind == Kind::Permit {
            nodes.retain(|node| node.starts_with(&format!("{path}/leases/")));
        }
        nodes
    }

    /// Returns the full paths of all contenders' nodes, sorted. After permits have been granted, this includes the turn
    /// node until it has been deleted in the background.
    pub fn nodes(self, path: &str) -> Vec<String> {
        match self.kind {
            Kind::Single if exists(path) => vec![path.to_owned()],
            Kind::Single => Vec::new(),
            Kind::Permit => below([format!("{path}/leases"), format!("{path}/locks")]),
            Kind::Several => below([format!("{path}/a"), format!("{path}/b")]),
            _ => below([path.to_owned()]),
        }
    }

    /// Waits until there are `count` [`nodes`](Self::nodes).
    pub fn await_nodes(self, path: &str, count: usize) -> Vec<String> {
        await_count(path, count, || self.nodes(path))
    }

    pub fn nodes_of_one(self) -> usize {
        if self.kind == Kind::Several { 2 } else { 1 }
    }

    /// Returns the number of nodes of one holder and this many waiters. A semaphore's first waiter also has the node of
    /// a permit.
    pub fn nodes_with_waiters(self, waiters: usize) -> usize {
        let shown = usize::from(self.kind == Kind::Permit && waiters > 0);
        self.nodes_of_one() + if self.queues() { waiters + shown } else { 0 }
    }

    /// Returns the path below `above` that is named after the subject.
    pub fn path_in(self, above: &str) -> String {
        let name: String = self.name.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
        format!("{above}/{name}")
    }

    /// Returns the part of a node's name between its id and its number, or `None` for an `EphemeralLock`.
    pub fn marker(self) -> Option<&'static str> {
        match self.kind {
            Kind::Single => None,
            Kind::Write => Some("__WRIT__"),
            Kind::Read => Some("__READ__"),
            Kind::Permit => Some("lease-"),
            _ => Some("lock-"),
        }
    }

    /// Returns the full path of a hold's node.
    pub fn node_of(self, hold: &Hold) -> String {
        match self.kind {
            Kind::Single => hold.path().to_owned(),
            Kind::Permit => format!("{}/leases/{}", hold.path(), hold.node()),
            _ => format!("{}/{}", hold.path(), hold.node()),
        }
    }

    /// Returns whether the lock's path is the directory of the contenders' nodes.
    pub fn has_a_directory(self) -> bool {
        !matches!(self.kind, Kind::Single | Kind::Permit | Kind::Several)
    }

    /// Returns whether a guard and the object share one hold.
    pub fn guards_the_object(self) -> bool {
        self.is_one_lock() && self.kind != Kind::Permit
    }

    /// Returns whether threads that share an object queue in the process.
    pub fn has_a_first_level(self) -> bool {
        !matches!(self.kind, Kind::Read | Kind::Several)
    }

    /// Returns the numbers of creates, deletions, lists, reads and transactions for three cases: lock and unlock
    /// without rivals, `try_lock` and unlock, and a refused `try_lock`. A transaction creates the directory with a
    /// node, and another one deletes both. `try_lock` lists first. A semaphore also has a turn node, for which
    /// `try_lock` does not wait.
    pub fn costs(self) -> [[u64; 5]; 3] {
        match self.kind {
            // The result of the create shows whether the lock was free, and a read shows who holds it.
            Kind::Single => [[0, 1, 0, 0, 1], [0, 1, 0, 0, 1], [0, 0, 0, 1, 1]],
            Kind::Permit => [[0, 0, 0, 0, 4], [0, 0, 1, 0, 2], [0, 0, 1, 0, 0]],
            Kind::Several => [[0, 0, 0, 0, 4], [0, 0, 2, 0, 4], [0, 0, 1, 0, 0]],
            _ => [[0, 0, 0, 0, 2], [0, 0, 1, 0, 2], [0, 0, 1, 0, 0]],
        }
    }

    /// Waits until `count` calls of these clients wait behind a holder.
    pub fn await_waiting(self, path: &str, clients: &[&Client], count: usize) {
        let waiting = || match self.kind {
            Kind::Single => clients.iter().map(|client| client.stats().waiting).sum(),
            Kind::Permit => children(&format!("{path}/locks")).len(),
            Kind::Several => children(&format!("{path}/a")).len() - 1,
            _ => children(path).len() - 1,
        };
        wait_until(&format!("{}: {count} wait at {path}", self.name), SOON, || waiting() == count);
    }

    /// Returns the kinds that `contenders` shows for the subject and for its rival.
    pub fn shown_as(self) -> [zoolock::LockKind; 2] {
        match self.kind {
            Kind::Write => [zoolock::LockKind::Write; 2],
            Kind::Read => [zoolock::LockKind::Read, zoolock::LockKind::Write],
            Kind::Permit => [zoolock::LockKind::Semaphore; 2],
            Kind::Single => [zoolock::LockKind::Ephemeral; 2],
            _ => [zoolock::LockKind::Exclusive; 2],
        }
    }
}

fn below(directories: impl IntoIterator<Item = String>) -> Vec<String> {
    let nodes = |directory: String| {
        let nodes = children(&directory).into_iter();
        nodes.map(move |node| format!("{directory}/{node}"))
    };
    directories.into_iter().flat_map(nodes).collect()
}
