//! Who holds a lock and who waits for it, as somebody sees it who looks from outside.

mod identities;
mod others;
mod queues;
mod refusals;
mod semaphores;

use std::time::{Duration, SystemTime};

use zoolock::{Client, Contender, Kind, Result};
use zoolock_test_support::connect_string;

use common::{SESSION, stat};

const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// Prints them, for whoever reads a failed test.
#[track_caller]
pub(crate) fn look(what: &str, seen: Result<Vec<Contender>>) -> Vec<Contender> {
    let seen = seen.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    println!("{what}: {} contenders", seen.len());
    for contender in seen.iter().take(12) {
        println!("  {contender:?}");
    }
    seen
}

/// A client that its nodes name.
pub(crate) fn client_called(identity: &str) -> Client {
    let builder = Client::builder(&connect_string()).session_timeout(SESSION);
    builder.identity(identity).connect().unwrap()
}

fn since_epoch(contender: &Contender) -> u128 {
    let since = contender.since.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_millis()
}

/// The full path of its node.
pub(crate) fn znode(contender: &Contender) -> String {
    match contender.node.as_str() {
        "" => contender.path.clone(),
        node => format!("{}/{node}", contender.path),
    }
}

/// The token is that of the node itself, so not for a read under a write.
#[track_caller]
pub(crate) fn is_as_the_server_says(contender: &Contender) {
    let stat = stat(&znode(contender));
    let said = (stat.czxid as u64, stat.ephemeral_owner, stat.ctime as u128);
    let seen = (contender.token, contender.session, since_epoch(contender));
    assert_eq!(seen, said, "token, session, since of {contender:?}");
    assert_ne!(contender.session, 0);
    let now = SystemTime::now();
    let age = now.duration_since(contender.since).unwrap_or_default();
    assert!(age < Duration::from_secs(60), "{age:?}: {contender:?}");
    assert!(contender.since < now + Duration::from_secs(1), "{contender:?}");
}

fn kinds(contenders: &[Contender]) -> Vec<Kind> {
    contenders.iter().map(|contender| contender.kind).collect()
}

fn holding(contenders: &[Contender]) -> Vec<bool> {
    contenders.iter().map(|contender| contender.holds).collect()
}

fn nodes(contenders: &[Contender]) -> Vec<&str> {
    let nodes = contenders.iter().map(|contender| contender.node.as_str());
    nodes.collect()
}

fn identities(contenders: &[Contender]) -> Vec<Option<&str>> {
    let all = contenders.iter();
    all.map(|contender| contender.identity.as_deref()).collect()
}
