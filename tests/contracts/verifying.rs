//! `Client::verify_token`, for third parties, beyond the contracts in `every`.

use zoolock::{DistributedRwLock, Error, Hold};
use zoolock_test_support::{Op, fresh_path, shared_probe};

use common::semaphore::{semaphore, waiting_with_the_turn};
use common::{SESSION, client, client_of, in_time, lock_of, owner, shared_proxy};

fn token(hold: &Hold) -> u64 {
    hold.fencing_token()
}

#[test]
fn the_token_of_any_reader_or_permit_is_current_and_of_nobody_who_waits() {
    let [own, others, stranger] = [client(), client(), client()];
    let is_current = |path: &str, token| stranger.verify_token(path, token).unwrap();
    let path = fresh_path("verify-readers");
    let reads = [&own, &others].map(|client| {
        let lock = DistributedRwLock::new(client, &path).unwrap();
        lock.read_lock().acquire().unwrap()
    });
    let tokens = reads.each_ref().map(|read| token(read));
    assert!(tokens.iter().all(|&token| is_current(&path, token)));
    for (read, token) in reads.into_iter().zip(tokens) {
        read.release().unwrap();
        assert!(!is_current(&path, token));
    }
    let path = fresh_path("verify-permits");
    let own = semaphore(&own, &path, 3);
    let permits = own.acquire(2).unwrap();
    let waiting = waiting_with_the_turn(&own, 2);
    let tokens: Vec<_> = permits.holds().iter().map(token).collect();
    let seen = others.contenders(&path).unwrap();
    assert!(seen.len() > 2, "{seen:?}");
    for contender in &seen {
        let permit = tokens.contains(&contender.token);
        assert_eq!(is_current(&path, contender.token), permit, "{contender:?}");
    }
    permits.release().unwrap();
    waiting.result("the other permits").unwrap().release().unwrap();
    assert!(!tokens.iter().any(|&token| is_current(&path, token)));
}

#[test]
fn it_takes_the_permission_to_read_and_changes_nothing() {
    let (owner, path) = (owner(), fresh_path("verify-owned"));
    let held = lock_of(&owner, &path).acquire().unwrap();
    // Newer servers show the stat of a node to those only who may read it.
    let probe = shared_probe().unwrap();
    probe.add_auth("digest", b"owner:secret").unwrap();
    let stat = || format!("{:?}", probe.stat(&path).unwrap());
    let before = stat();
    assert!(owner.verify_token(&path, token(&held)).unwrap());
    let refused = client().verify_token(&path, token(&held));
    assert!(matches!(refused, Err(Error::Denied { .. })), "{refused:?}");
    assert_eq!(stat(), before);
}

#[test]
fn it_asks_the_leader_first_and_gives_up_in_a_third_of_the_session_timeout() {
    let (proxy, path) = (shared_proxy(), fresh_path("verify-silent"));
    let held = lock_of(&client(), &path).acquire().unwrap();
    let asking = client_of(&proxy.connect_string(), SESSION);
    let writes = proxy.requests(Op::SetData);
    assert!(asking.verify_token(&path, token(&held)).unwrap());
    assert!(proxy.requests(Op::SetData) > writes);
    let lost = proxy.hold_request(Op::SetData, 1);
    let answer =
        in_time("without an answer", SESSION / 2, || asking.verify_token(&path, token(&held)));
    assert!(lost.fired());
    assert!(matches!(answer, Err(Error::Disconnected { .. })), "{answer:?}");
    lost.release();
    asking.close().unwrap();
    let closed = asking.verify_token(&path, 1);
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
    let invalid = client().verify_token("not/absolute", 1);
    assert!(matches!(invalid, Err(Error::InvalidPath { .. })), "{invalid:?}");
}
