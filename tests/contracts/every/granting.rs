//! What a grant provides: a hold, a node, a token and a name.

use std::collections::BTreeSet;
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, Hold, HoldState, Lock, LockOptions};

use super::{Pair, client};
use common::*;

/// Expects that the holds match the nodes on the server. Returns the highest of their tokens.
#[track_caller]
fn are_granted(subject: Subject, client: &Client, path: &str, holds: &[Hold], last: u64) -> u64 {
    let nodes = subject.holding(path);
    assert_eq!((holds.len(), nodes.len()), (subject.nodes_of_one(), holds.len()), "{nodes:?}");
    let one = |(hold, node): (&Hold, &String)| {
        let (valid_for, stat) = (hold.valid_for(), stat(node));
        println!("{}: {hold:?}, valid for {valid_for:?}, at {node}", subject.name);
        assert_eq!(hold.state(), HoldState::Held);
        assert!(hold.is_held() && hold.ended().try_recv().is_err_and(|told| told.is_empty()));
        assert!(!valid_for.is_zero() && valid_for <= client.session_timeout());
        assert!(node.starts_with(hold.path()) && node.ends_with(&hold.node()), "{hold:?}");
        assert_ne!(stat.ephemeral_owner, 0, "{node}");
        let token = hold.fencing_token();
        assert_eq!(token, stat.czxid as u64);
        assert!(token > last, "{token} after {last}");
        token
    };
    holds.iter().zip(&nodes).map(one).max().unwrap()
}

#[track_caller]
fn are_over(subject: Subject, path: &str, holds: &[Hold]) {
    for hold in holds {
        await_lost(hold);
        assert_eq!((hold.state(), hold.is_held()), (HoldState::Released, false));
        assert_eq!(hold.valid_for(), Duration::ZERO);
    }
    if subject.releases_in_the_background() {
        subject.await_nodes(path, 0);
    } else {
        assert!(subject.holding(path).is_empty(), "{:?}", subject.holding(path));
    }
}

#[test]
fn token_is_the_zxid_of_the_nodes_creation() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let Pair { ours, path, object, .. } = Pair::of(subject, "granted", SOON);
        assert!(!object.is_held() && object.holds().is_empty());
        let mut last = 0;
        for ask in Ask::each(SOON).into_iter().chain([Ask::Within(Duration::MAX.into())]) {
            assert!(object.enter(&ask).unwrap(), "{}, {ask:?}: it is free", subject.name);
            assert!(object.is_held());
            let holds = object.holds();
            last = are_granted(subject, &ours, &path, &holds, last);
            object.unlock().unwrap();
            assert!(!object.is_held() && object.holds().is_empty());
            are_over(subject, &path, &holds);

            let guard = object.guard(&ask).unwrap().expect("it is free");
            let holds = guard.holds.clone();
            last = are_granted(subject, &ours, &path, &holds, last);
            match ask.waits() {
                true => guard.release().unwrap(),
                false => drop(guard),
            }
            are_over(subject, &path, &holds);
        }
    });
}

fn data_of(node: &str) -> String {
    let (data, _) = shared_probe().unwrap().get(node).unwrap().expect("a node");
    String::from_utf8(data).expect("UTF-8")
}

/// Each create has a new id. It is part of the node's name, except for an `EphemeralLock`, which stores it in the data.
#[test]
fn node_has_curators_name_and_the_identity_as_data() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let path = fresh_path("named");
        let named = Client::builder(connect_string()).identity("the night shift, line 3 ✓");
        let (plain, named) = (client(), connected(named));
        let own = LockOptions::new().identity("the lock's own");
        let id = format!("{:?}", thread::current().id());
        let number = id.trim_start_matches("ThreadId(").trim_end_matches(')');
        let by_default = format!("/{}/{}#{number}", process::id(), subject.name);
        let makers = [
            (subject.at(&plain, &path), by_default.as_str()),
            (subject.at(&named, &path), "the night shift, line 3 ✓"),
            (subject.with(&named, &path, own), "the lock's own"),
        ];
        let mut ids = BTreeSet::new();
        for (object, maker) in &makers {
            object.lock().unwrap();
            for node in subject.holding(&path) {
                let (name, data) = (node.rsplit_once('/').unwrap().1, data_of(&node));
                println!("{node}: {data}");
                assert!(data.ends_with(maker), "{data}");
                let (text, behind) = match subject.marker() {
                    Some(marker) => (name.strip_prefix("_c_").unwrap(), format!("-{marker}")),
                    None => (&*data, " ".to_owned()),
                };
                let (id, rest) = text.split_at_checked(36).expect("an id");
                let is_hex = |byte| matches!(byte, b'-' | b'0'..=b'9' | b'a'..=b'f');
                assert!(id.split('-').map(str::len).eq([8, 4, 4, 4, 12]) && id.bytes().all(is_hex));
                let number = rest.strip_prefix(&*behind).expect(&behind);
                let is_number = number.len() == 10 && number.bytes().all(|b| b.is_ascii_digit());
                assert!(is_number || subject.marker().is_none(), "{number}");
                assert!(ids.insert(id.to_owned()), "{id} again: {ids:?}");
            }
            object.unlock().unwrap();
            // A read node that is still being deleted in the background does not exclude the next reader.
            subject.await_nodes(&path, 0);
        }
    });
}

#[test]
fn guard_of_any_lock_holds_it_until_its_drop() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let Pair { object, rival, .. } = Pair::of(subject, "any-lock", SOON);
        let boxed: Box<dyn Lock> = object.clone().into();
        let shared = Arc::new(&*object);
        let tokens = |holds: Vec<Hold>| -> Vec<_> {
            holds.iter().map(|hold| hold.fencing_token()).collect()
        };
        for lock in [&*object, &boxed, &&*boxed, &shared] as [&dyn Lock; 4] {
            assert_eq!((lock.path(), lock.id()), (object.path(), object.id()));
            for ask in 0..4 {
                let guard = match ask {
                    0 => lock.acquire().map(Some),
                    1 => lock.try_acquire(),
                    2 => lock.acquire_within(SOON),
                    _ => lock.acquire_within(Instant::now() + SOON),
                };
                let guard = guard.unwrap().expect("there is no other contender");
                assert!(lock.is_held() && object.is_held(), "{lock:?}");
                assert_eq!(tokens(guard.holds()), tokens(object.holds()));
                assert!((*rival).try_acquire().unwrap().is_none());
                match ask {
                    0 | 1 => guard.release().unwrap(),
                    2 => drop(guard),
                    _ => {
                        lock.unlock().unwrap();
                        assert!(guard.release().is_err(), "{}: released twice", subject.name);
                    }
                }
                assert!(!lock.is_held(), "{lock:?}");
            }
        }
    });
}
