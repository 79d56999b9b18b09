//! Compares the public API of the library and of its client with the lists in `tests/api.txt` and
//! `zookeeper*/tests/api.txt`, one line for each item, so that every change shows.
//!
//! The list is read from the source, not from the compiler, so that it takes a moment on every
//! toolchain: from `lib.rs` along its `pub` items. The source does not show auto traits (`Send`,
//! `Sync`), so the compiler checks them below.

mod expand;
mod layers;
mod links;
mod list;
mod log_lines;
mod names;
mod print;
mod seam;
mod sections;
mod source;

use std::panic::{RefUnwindSafe, UnwindSafe};

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use zoolock::{
    Acl, Client, ClientBuilder, ConnectionEvent, Contender, DistributedLock,
    DistributedReentrantLock, DistributedRwLock, DistributedSemaphore, EphemeralLock, Error, Guard,
    Hold, HoldState, Leadership, Lock, LockId, LockOptions, MultiLock, Permits, ReadLock,
    ReentrantGuard, Stats, Subscription, Term, Transaction, WriteLock,
};

const BLESS: &str = "ZOOLOCK_BLESS";

/// The folder of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a folder").to_owned()
}

#[test]
fn public_api_matches_the_list() {
    compare(".");
}

#[test]
fn public_api_of_the_client_matches_the_list() {
    compare("zookeeper");
}

#[test]
fn public_api_of_the_servers_for_tests_matches_the_list() {
    compare("zookeeper-testing");
}

/// What is in the source of this package with what is in its list.
fn compare(package: &str) {
    let root = root().join(package);
    let kept = root.join("tests/api.txt");
    let found = list::public_api(&root.join("src"));
    println!("{} public items", found.lines().count());
    if env::var_os(BLESS).is_some() {
        fs::write(&kept, &found).expect("write the list");
        return;
    }
    let list = kept.display();
    let kept = fs::read_to_string(&kept).unwrap_or_default();
    let (old, new) = (lines(&kept), lines(&found));
    let mut change = String::new();
    for line in old.union(&new) {
        match (old.contains(line), new.contains(line)) {
            (true, false) => writeln!(change, "- {line}"),
            (false, true) => writeln!(change, "+ {line}"),
            _ => Ok(()),
        }
        .expect("a string takes what it is given");
    }
    assert!(
        change.is_empty(),
        "the public API is not the one in {list}:\n{change}\
         If that is meant, write it into CHANGELOG.md and the list anew:\n\
         {BLESS}=1 cargo test -p zoolock-api"
    );
}

fn lines(text: &str) -> BTreeSet<&str> {
    text.lines().collect()
}

#[test]
fn all_types_except_thread_guards_are_send() {
    fn goes<T: Send + Sync + 'static>() {}
    fn is_seen<T: Sync + 'static>() {}
    goes::<(Client, ClientBuilder, Acl, LockOptions)>();
    goes::<(DistributedLock, DistributedReentrantLock, EphemeralLock)>();
    goes::<(DistributedRwLock, ReadLock, WriteLock)>();
    goes::<(DistributedSemaphore, Permits, MultiLock, LockId)>();
    goes::<(Leadership, Term, Transaction)>();
    goes::<(Guard, Hold, HoldState, Contender, Error, Box<dyn Lock>)>();
    goes::<(Stats, ConnectionEvent, Subscription)>();
    goes::<(zookeeper::ZooKeeper, zookeeper::Builder, zookeeper::LeaseKeeper)>();
    goes::<(zookeeper::Pending<()>, zookeeper::Watcher, zookeeper::Error)>();
    // That it is not `Send` is said, and tested, where it is declared.
    is_seen::<ReentrantGuard>();
}

/// A service that catches panics of its handlers keeps its locks outside of them.
#[test]
fn all_types_may_cross_catch_unwind() {
    fn unwinds<T: UnwindSafe + RefUnwindSafe>() {}
    unwinds::<(Client, ClientBuilder, Acl, LockOptions)>();
    unwinds::<(DistributedLock, DistributedReentrantLock, EphemeralLock)>();
    unwinds::<(DistributedRwLock, ReadLock, WriteLock)>();
    unwinds::<(DistributedSemaphore, Permits, MultiLock, LockId)>();
    unwinds::<(Leadership, Term, Transaction)>();
    unwinds::<(Guard, ReentrantGuard, zoolock::Locker<'static>, Hold)>();
    unwinds::<(Contender, Error, Subscription)>();
    unwinds::<(zookeeper::ZooKeeper, zookeeper::Builder, zookeeper::LeaseKeeper)>();
    unwinds::<(zookeeper::Pending<()>, zookeeper::Watcher, zookeeper::Error)>();
}
