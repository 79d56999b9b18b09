//! What other clients can do: list contenders, verify a token, request that a hold is released, and break a hold.

use std::collections::BTreeSet;

use zoolock::{Contender, Error, Hold, LossReason, Result};

use super::Pair;
use common::*;

use crate::contenders::{client_called, is_as_the_server_says, look, znode};
use crate::revocation::{REVOKE, contender_of, ends, is_asked, is_not_asked};

#[test]
fn contenders_lists_holder_and_waiters_in_queue_order() {
    every_subject_that(Subject::is_one_lock, |subject| {
        let path = fresh_path("contenders");
        let [first, second, third, fourth] =
            ["first", "second", "third", "fourth"].map(client_called);
        assert_eq!(second.contenders(&path).unwrap(), []);
        let object = subject.at(&first, &path);
        object.lock().unwrap();
        // The turn node of a semaphore is deleted only after the grant.
        subject.await_nodes(&path, subject.nodes_of_one());
        let waiters = [(&second, 1), (&third, 2), (&fourth, 3)].map(|(client, number)| {
            let waiter = Task::spawn_blocked(visit(subject.rival(client, &path)));
            subject.await_nodes(&path, subject.nodes_with_waiters(number));
            waiter
        });

        let seen = look(subject.name, third.contenders(&path));
        for contender in &seen {
            is_as_the_server_says(contender);
            assert_eq!(contender.path, path);
            let number = (!contender.node.is_empty()).then(|| place(&contender.node).parse());
            assert_eq!(contender.sequence, number.map(Result::unwrap), "{contender:?}");
        }
        let [own, rivals] = subject.shown_as();
        let waiting = ["second", "third", "fourth"].map(|name| (false, rivals, Some(name)));
        let expected = [&[(true, own, Some("first"))][..], &waiting].concat();
        let all = if subject.queues() { 4 } else { 1 };
        let brief = seen.iter().map(|one| (one.holds, one.kind, one.identity.as_deref()));
        assert_eq!(brief.collect::<Vec<_>>(), expected[..all], "{}", subject.name);
        let hold = object.hold();
        assert_eq!(hold.fencing_token(), seen[0].token);
        assert!(seen[0].node.is_empty() || seen[0].node.ends_with(&hold.node()), "{hold:?}");
        assert!(seen.is_sorted_by(|a, b| a.token < b.token), "{seen:?}");
        if subject.queues() {
            let sessions: BTreeSet<_> = seen.iter().map(|one| one.session).collect();
            assert_eq!(sessions.len(), seen.len(), "{seen:?}");
        }

        object.unlock().unwrap();
        for waiter in &waiters {
            waiter.result("a waiter").unwrap();
        }
        drop(object);
        subject.await_nodes(&path, 0);
        assert_eq!(second.contenders(&path).unwrap(), []);
    });
}

#[test]
fn verify_token_accepts_only_a_holders_token() {
    every_subject(|subject| {
        let Pair { others, path, object, rival, .. } = Pair::of(subject, "verify", SESSION);
        let is_current = |path: &str, token: u64| others.verify_token(path, token).unwrap();
        assert!(!is_current(&path, 1), "{}: there is no such lock", subject.name);
        object.lock().unwrap();
        // While its turn node exists, a permit counts as not yet granted.
        subject.await_nodes(&path, subject.nodes_of_one());
        for hold in object.holds() {
            let token = hold.fencing_token();
            let stat = || format!("{:?}", shared_probe().unwrap().stat(hold.path()).unwrap());
            let before = stat();
            assert!(is_current(hold.path(), token), "{}: {hold:?}", subject.name);
            for other in [0, token - 1, token + 1, u64::MAX] {
                assert!(!is_current(hold.path(), other), "{}: {hold:?}, {other}", subject.name);
            }
            assert_eq!(stat(), before, "{}: verifying changed a node", subject.name);
        }
        let next = Visitor::start_asleep(rival);
        let before = object.hold();
        let at = before.path();
        for waiting in others.contenders(at).unwrap().iter().filter(|one| !one.holds) {
            assert!(!is_current(at, waiting.token), "{}: {waiting:?}", subject.name);
        }
        object.unlock().unwrap();
        let after = next.hold().fencing_token();
        println!("{}: {}, then {after}", subject.name, before.fencing_token());
        assert!(is_current(at, after), "{}", subject.name);
        assert!(!is_current(at, before.fencing_token()), "{}", subject.name);
        shared_probe().unwrap().delete(&subject.holding(&path)[0]).unwrap();
        assert!(!is_current(at, after), "{}: even if the owner has not detected it", subject.name);
        let lost = next.left();
        assert!(lost.as_ref().is_err_and(Error::is_lost), "{}: {lost:?}", subject.name);
    });
}

#[test]
fn verify_token_asks_the_leader_within_a_third_of_the_timeout() {
    let (proxy, path) = (shared_proxy(), fresh_path("verify-silent"));
    let held = lock_of(&client(), &path).acquire().unwrap();
    let asking = client_of(&proxy.connect_string(), SESSION);
    let verify = || asking.verify_token(&path, held.fencing_token());
    let writes = proxy.requests(Op::SetData);
    assert!(verify().unwrap());
    assert!(proxy.requests(Op::SetData) > writes);
    let lost = proxy.hold_request(Op::SetData, 1);
    let answer = in_time("without an answer", SESSION / 2, verify);
    assert!(lost.fired());
    assert!(matches!(answer, Err(Error::Disconnected { .. })), "{answer:?}");
}

#[test]
fn revoke_reaches_its_hold_whenever_the_hold_listens() {
    every_subject_that(Subject::queues, |subject| {
        for listens_before in [true, false] {
            let Pair { others, path, object, .. } = Pair::of(subject, "revoke", SESSION);
            object.lock().unwrap();
            if subject.is_a_threads() {
                object.lock().unwrap();
            }
            let (holds, what) = (object.holds(), subject.name);
            let meant: Vec<_> = holds.iter().map(|hold| contender_of(&others, hold)).collect();
            let channel = |hold: &Hold| hold.revocation().unwrap().clone();
            if listens_before {
                holds.iter().map(channel).for_each(|asked| is_not_asked(&asked, what));
            }
            for (index, hold) in holds.iter().enumerate() {
                others.revoke(&meant[index]).unwrap();
                // A listener that is added after the request receives it as well. All listeners share one channel.
                is_asked(hold.revocation().unwrap(), what);
                is_not_asked(&channel(&hold.clone()), what);
                shared_probe().unwrap().set(&znode(&meant[index]), REVOKE).unwrap();
                is_asked(hold.revocation().unwrap(), what);
                if listens_before {
                    let later = holds[index + 1..].iter().map(channel);
                    later.for_each(|asked| is_not_asked(&asked, what));
                }
                assert!(hold.is_held(), "{what}: it is up to the holder");
                let answered = || contender_of(&others, hold).identity == meant[index].identity;
                wait_until("its identity is there again", SOON, answered);
            }
            let listening: Vec<_> = holds.iter().map(channel).collect();
            if subject.is_a_threads() {
                object.unlock().unwrap();
                listening.iter().for_each(|asked| is_not_asked(asked, what));
            }
            object.unlock().unwrap();
            listening.iter().for_each(|asked| ends(asked, what));
            for hold in &holds {
                let late = hold.revocation();
                assert!(matches!(late, Err(Error::NotHeld { .. })), "{what}: {late:?}");
            }
            drop(object);
            subject.await_nodes(&path, 0);
            meant.iter().for_each(|one| is_over(&others.revoke(one), one));
        }
    });
}

/// Expects an error which reports that the contender's hold is over.
#[track_caller]
fn is_over(answer: &Result<()>, contender: &Contender) {
    let is_it = matches!(answer, Err(Error::NotHeld { path, .. }) if *path == contender.path);
    assert!(is_it, "{contender:?}: {answer:?}");
}

#[test]
fn break_lock_ends_exactly_the_named_hold() {
    every_subject_that(Subject::queues, |subject| {
        let Pair { others, path, object, .. } = Pair::of(subject, "break", SESSION);
        object.lock().unwrap();
        subject.await_nodes(&path, subject.nodes_of_one());
        let holds = object.holds();
        let meant: Vec<_> = holds.iter().map(|hold| contender_of(&others, hold)).collect();
        meant.iter().for_each(|contender| others.break_lock(contender).unwrap());
        for hold in &holds {
            await_lost(hold);
            assert_lost(&hold.revocation(), hold.path(), LossReason::NodeDeleted);
        }
        assert!(object.unlock().is_err_and(|error| error.is_lost()), "{}", subject.name);
        object.lock().unwrap();
        meant.iter().for_each(|one| is_over(&others.break_lock(one), one));
        assert!(object.holds().iter().all(zoolock::Hold::is_held), "{}", subject.name);
        object.unlock().unwrap();
    });
}
