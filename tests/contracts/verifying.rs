//! Whose token is it? Asked by third parties, of locks of every type.

use zoolock::{DistributedRwLock, DistributedSemaphore, EphemeralLock, Error, Hold};
use zoolock_test_support::{Op, fresh_path, shared_probe};

use common::{SESSION, SOON, Task, client, client_of, in_time, lock_of, owner, shared_proxy};

/// What a client that has nothing to do with the lock is told.
#[track_caller]
fn is_current(path: &str, token: u64) -> bool {
    let answer = client().verify(path, token).unwrap();
    println!("{path} {token}: {answer}");
    answer
}

fn token(hold: &Hold) -> u64 {
    hold.fencing_token().unwrap()
}

#[test]
fn the_token_of_any_reader_or_permit_or_of_a_single_node_is_current() {
    let clients = [client(), client()];
    let path = fresh_path("verify-readers");
    let locks = clients.each_ref().map(|client| DistributedRwLock::new(client, &path).unwrap());
    let reads = locks.each_ref().map(|lock| lock.read_lock().acquire().unwrap());
    let tokens = reads.each_ref().map(|read| token(read));
    assert!(tokens.iter().all(|&token| is_current(&path, token)));
    for (read, token) in reads.into_iter().zip(tokens) {
        read.release().unwrap();
        assert!(!is_current(&path, token));
    }

    // The read goes on with the write's token.
    let write = locks[0].write_lock().acquire().unwrap();
    let read = locks[0].read_lock().acquire().unwrap();
    let shared = token(&write);
    assert_eq!(token(&read), shared);
    write.release().unwrap();
    assert!(is_current(&path, shared));
    read.release().unwrap();
    assert!(!is_current(&path, shared));

    let path = fresh_path("verify-permits");
    let semaphore = DistributedSemaphore::new(&clients[0], &path, 3).unwrap();
    let permits = semaphore.acquire(2).unwrap();
    let waiting = Task::spawn_blocked(move || semaphore.acquire(2));
    let tokens: Vec<_> = permits.holds().iter().map(token).collect();
    let seen = clients[1].contenders(&path).unwrap();
    for contender in &seen {
        let permit = tokens.contains(&contender.token);
        assert_eq!(is_current(&path, contender.token), permit, "{contender:?}");
    }
    assert!(seen.len() > 2, "{seen:?}");
    permits.release().unwrap();
    waiting.result("the other permits").unwrap().release().unwrap();
    assert!(!tokens.iter().any(|&token| is_current(&path, token)));

    let path = fresh_path("verify-single");
    let single = EphemeralLock::new(&clients[0], &path).unwrap();
    let held = single.acquire().unwrap();
    let of_it = token(&held);
    assert!(is_current(&path, of_it) && !is_current(&path, of_it + 1));
    held.release().unwrap();
    assert!(!is_current(&path, of_it));
}

#[test]
fn it_takes_the_permission_to_read_and_changes_nothing() {
    let path = fresh_path("verify-owned");
    let owner = owner();
    let held = lock_of(&owner, &path).acquire().unwrap();
    let of_it = token(&held);
    assert!(owner.verify(&path, of_it).unwrap());
    let stranger = client();
    let refused = stranger.verify(&path, of_it);
    assert!(matches!(refused, Err(Error::Denied { .. })), "{refused:?}");
    held.release().unwrap();

    let probe = shared_probe().unwrap();
    let path = fresh_path("verify-unchanged");
    let held = lock_of(&stranger, &path).acquire().unwrap();
    let before = probe.stat(&path).unwrap().unwrap();
    assert!(is_current(&path, token(&held)));
    let after = probe.stat(&path).unwrap().unwrap();
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
}

#[test]
fn it_asks_the_leader_first_and_gives_up_in_a_third_of_the_session_timeout() {
    let (proxy, path) = (shared_proxy(), fresh_path("verify-silent"));
    let held = lock_of(&client(), &path).acquire().unwrap();
    let asking = client_of(&proxy.connect_string(), SESSION);
    let writes = proxy.requests(Op::SetData);
    assert!(asking.verify(&path, token(&held)).unwrap());
    assert_eq!(proxy.requests(Op::SetData), writes + 1);
    let lost = proxy.hold_request(Op::SetData, 1);
    let answer = in_time("without an answer", SESSION / 3 + SOON / 60, || {
        asking.verify(&path, token(&held))
    });
    assert!(lost.fired());
    assert!(matches!(answer, Err(Error::Disconnected { .. })), "{answer:?}");
    lost.release();
    asking.close().unwrap();
    let closed = asking.verify(&path, 1);
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
    let invalid = client().verify("not/absolute", 1);
    assert!(matches!(invalid, Err(Error::InvalidPath { .. })), "{invalid:?}");
}
