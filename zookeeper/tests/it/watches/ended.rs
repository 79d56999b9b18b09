//! Watches end with the session, and whoever has set one hears of that.

use std::collections::HashSet;

use zoolock_test_support::connect_string;
use zoolock_zookeeper::{EventType, SessionEventKind, WatchedEvent, Watcher};

use super::{EXISTS, GET_CHILDREN, GET_DATA, Read, event, heard};
use crate::util::{SESSION, SOON, Stage, client_of};

/// Watches on three nodes, and what their ends look like.
fn three(stage: &Stage, watcher: &Watcher) -> HashSet<WatchedEvent> {
    let reads: [(&str, Read); 3] = [("none", EXISTS), ("", GET_DATA), ("/zookeeper", GET_CHILDREN)];
    let at = |name: &str| match name {
        "none" => stage.path(name),
        "" => stage.root.clone(),
        other => other.to_owned(),
    };
    for (name, read) in reads {
        read(&stage.client, &at(name), watcher).unwrap();
    }
    reads.iter().map(|(name, _)| event(EventType::WatchEnded, &at(name))).collect()
}

#[test]
fn an_expired_session_ends_each_watch_once() {
    let stage = Stage::new("ended", SESSION);
    let (watcher, events) = Watcher::channel();
    let wanted = three(&stage, &watcher);
    // Two ways to be told of one node are told once.
    GET_CHILDREN(&stage.client, &stage.root, &watcher).unwrap();
    assert_eq!(stage.proxy.expire_sessions().unwrap(), 1);
    stage.told.until(SessionEventKind::Connected);
    let told = heard(&stage.client, &events);
    println!("{told:?}");
    assert_eq!(told.len(), 3);
    assert_eq!(told.into_iter().collect::<HashSet<_>>(), wanted);
    stage.probe().set(&stage.root, b"").unwrap();
    assert_eq!(heard(&stage.client, &events), []);
    // The same watcher hears of the new session, too.
    GET_DATA(&stage.client, &stage.root, &watcher).unwrap();
    stage.probe().set(&stage.root, b"").unwrap();
    let told = heard(&stage.client, &events);
    assert_eq!(told, [event(EventType::NodeDataChanged, &stage.root)]);
}

#[test]
fn a_client_that_is_closed_ends_each_watch_once() {
    let stage = Stage::new("ended", SESSION);
    let (watcher, events) = Watcher::channel();
    let wanted = three(&stage, &watcher);
    stage.client.close().unwrap();
    let told: Vec<_> = events.try_iter().collect();
    println!("{told:?}");
    assert_eq!(told.len(), 3);
    assert_eq!(told.into_iter().collect::<HashSet<_>>(), wanted);
    stage.client.close().unwrap();
    assert_eq!(events.try_iter().count(), 0);
}

#[test]
fn a_client_that_is_dropped_ends_its_watches() {
    let client = client_of(&connect_string(), SESSION);
    let (watcher, events) = Watcher::channel();
    GET_CHILDREN(&client, "/zookeeper", &watcher).unwrap();
    drop(client);
    let told = events.recv_timeout(SOON).unwrap();
    println!("{told:?}");
    assert_eq!(told, event(EventType::WatchEnded, "/zookeeper"));
}
