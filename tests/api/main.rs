//! Compares the public API of the library and of its client with the lists in `tests/api.txt` and
//! `zookeeper*/tests/api.txt`. Lists have one line for each item, so every change is visible in a diff.
//!
//! The API is read from the source and not from the compiler, so it takes only a moment and works with every toolchain:
//! the list starts at `lib.rs` and follows `pub` items. Auto traits (`Send`, `Sync`) do not appear in the source, so
//! assertions below make the compiler check them.

mod bugs;
mod layers;
mod links;
mod list;
mod log_lines;
mod names;
mod pictures;
mod print;
mod registry;
mod sections;
mod source;
mod system;

use std::collections::BTreeSet;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};
use std::{env, fs};

use zoolock::{
    Acl, Busy, CancelToken, Client, ClientBuilder, Contender, DistributedLock,
    DistributedReentrantLock, DistributedRwLock, DistributedSemaphore, EphemeralLock, Error, Guard,
    Hold, HoldState, Leadership, Lock, LockGuard, LockId, LockOptions, MultiGuard, MultiLock,
    ReadLock, Stats, Subscription, Term, Transaction, Wait, WriteLock,
};

const BLESS: &str = "ZOOLOCK_BLESS";

/// The folder of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a folder").to_owned()
}

/// Returns what a generated file contains, or, if files are to be generated, writes `found` and returns `None`.
fn unless_blessed(file: &Path, found: &str) -> Option<String> {
    if env::var_os(BLESS).is_some() {
        fs::write(file, found).expect("write the file");
        return None;
    }
    Some(fs::read_to_string(file).unwrap_or_default())
}

#[test]
fn public_api_matches_the_lists() {
    compare("zoolock", ".");
    compare("zoolock_zookeeper", "zookeeper");
    compare("zoolock_zookeeper_testing", "zookeeper-testing");
}

/// Compares the public items in this package's source with its list.
fn compare(name: &str, package: &str) {
    let root = root().join(package);
    let kept = root.join("tests/api.txt");
    let found = list::public_api(name, &root.join("src"));
    println!("{} public items", found.lines().count());
    let list = kept.display();
    let Some(kept) = unless_blessed(&kept, &found) else { return };
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

#[test]
fn all_types_except_thread_guards_may_go_to_other_threads() {
    fn goes<T: Send + Sync + 'static>() {}
    fn both<T: Send + Sync + UnwindSafe + RefUnwindSafe + 'static>() {}
    goes::<(Client, ClientBuilder, Acl, LockOptions)>();
    goes::<(DistributedLock, DistributedReentrantLock, EphemeralLock)>();
    goes::<(DistributedRwLock, ReadLock, WriteLock)>();
    goes::<(DistributedSemaphore, MultiLock, LockId)>();
    goes::<(Leadership, Term, Transaction)>();
    goes::<(Guard, MultiGuard, LockGuard<&'static dyn Lock>, Hold, Contender, Error, Subscription)>(
    );
    goes::<(HoldState, Box<dyn Lock>, Stats, Wait, CancelToken, Busy)>();
    // A service that catches panics of its handlers shares its client with them, so the client must be unwind safe.
    both::<(zookeeper::ZooKeeper, zookeeper::Builder, zookeeper::LeaseKeeper)>();
    both::<(zookeeper::Pending<()>, zookeeper::Watcher, zookeeper::Error)>();
}
