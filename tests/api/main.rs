//! Compares the public API of the library and of its client with the lists in `tests/api.txt` and
//! `zookeeper*/tests/api.txt`, one line for each item, so that every change shows.
//!
//! The list is read from the source, not from the compiler, so that it takes a moment on every toolchain: from `lib.rs`
//! along its `pub` items. The source does not show auto traits (`Send`, `Sync`), so the compiler checks them below.

mod layers;
mod links;
mod list;
mod log_lines;
mod names;
mod print;
mod seam;
mod sections;
mod source;

use std::collections::BTreeSet;
use std::panic::{RefUnwindSafe, UnwindSafe};
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
fn public_api_matches_the_lists() {
    compare("zoolock", ".");
    compare("zoolock_zookeeper", "zookeeper");
    compare("zoolock_zookeeper_testing", "zookeeper-testing");
}

/// What is in the source of this package with what is in its list.
fn compare(name: &str, package: &str) {
    let root = root().join(package);
    let kept = root.join("tests/api.txt");
    let found = list::public_api(name, &root.join("src"));
    println!("{} public items", found.lines().count());
    if env::var_os(BLESS).is_some() {
        fs::write(&kept, &found).expect("write the list");
        return;
    }
    let list = kept.display();
    let kept = fs::read_to_string(&kept).unwrap_or_default();
    let [old, new] = [&kept, &found].map(|text| text.lines().collect::<BTreeSet<_>>());
    let gone = old.difference(&new).map(|line| format!("- {line}\n"));
    let change: String =
        gone.chain(new.difference(&old).map(|line| format!("+ {line}\n"))).collect();
    assert!(
        change.is_empty(),
        "the public API is not the one in {list}:\n{change}\
         If that is meant, write it into CHANGELOG.md and the list anew:\n\
         {BLESS}=1 cargo test -p zoolock-api"
    );
}

/// A service that catches panics of its handlers keeps its locks outside of them.
#[test]
fn all_types_except_thread_guards_are_send_and_may_cross_catch_unwind() {
    fn goes<T: Send + Sync + 'static>() {}
    fn unwinds<T: UnwindSafe + RefUnwindSafe>() {}
    fn both<T: Send + Sync + UnwindSafe + RefUnwindSafe + 'static>() {}
    both::<(Client, ClientBuilder, Acl, LockOptions)>();
    both::<(DistributedLock, DistributedReentrantLock, EphemeralLock)>();
    both::<(DistributedRwLock, ReadLock, WriteLock)>();
    both::<(DistributedSemaphore, Permits, MultiLock, LockId)>();
    both::<(Leadership, Term, Transaction)>();
    both::<(Guard, Hold, Contender, Error, Subscription)>();
    both::<(zookeeper::ZooKeeper, zookeeper::Builder, zookeeper::LeaseKeeper)>();
    both::<(zookeeper::Pending<()>, zookeeper::Watcher, zookeeper::Error)>();
    goes::<(HoldState, Box<dyn Lock>, Stats, ConnectionEvent)>();
    // That it is not `Send` is said, and tested, where it is declared.
    unwinds::<(ReentrantGuard, zoolock::Locker<'static>)>();
}
