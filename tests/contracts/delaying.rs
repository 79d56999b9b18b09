//! `LockOptions::lock_delay`: after a holder that was lost, the lock stays busy for a while.

use std::time::{Duration, Instant};

use zookeeper::{Acl, Permissions, ZooKeeper};
use zoolock::{
    Client, DistributedLock, DistributedRwLock, DistributedSemaphore, EphemeralLock, Error,
    LockOptions, Result,
};
use zoolock_test_support::{Op, Then, connect_string, fresh_path, shared_probe, wait_until};

use common::{
    SESSION, SOON, Task, Visitor, assert_cancelled, await_lost, await_nothing_left, behind_a_proxy,
    children, client, delete_node, exists,
};

const DELAY: Duration = Duration::from_millis(500);

fn delays() -> LockOptions {
    LockOptions::new().lock_delay(DELAY)
}

fn delayed(client: &Client, path: &str) -> DistributedLock {
    DistributedLock::with_options(client, path, delays()).unwrap()
}

fn record(path: &str) -> String {
    format!("{path}.lock-delay")
}

fn delete_record(path: &str) {
    shared_probe().unwrap().delete(&record(path)).unwrap();
}

/// Loses a hold of this path in some way, and returns when it was held last.
fn lose(path: &str) -> Instant {
    let client = client();
    let lock = delayed(&client, path);
    lock.lock().unwrap();
    delete_node(&lock.hold().unwrap());
    Instant::now()
}

#[test]
fn released_lock_delays_nobody() {
    let ([ours, others], path) = ([(); 2].map(|()| client()), fresh_path("delayed"));
    let (lock, rival) = (delayed(&ours, &path), delayed(&others, &path));
    for _ in 0..3 {
        for lock in [&lock, &rival] {
            let guard = lock.try_acquire().unwrap().expect("nobody was lost");
            assert!(exists(&record(&path)), "the record of the holder");
            guard.release().unwrap();
            assert!(!exists(&record(&path)), "the record of a released lock");
        }
    }
}

#[test]
fn record_goes_with_a_node_that_stays_for_longer() {
    let (client, path) = (client(), fresh_path("delayed"));
    let options = delays().hold_at_least(Duration::from_millis(300));
    let lock = DistributedLock::with_options(&client, &path, options).unwrap();
    lock.acquire().unwrap().release().unwrap();
    assert_eq!((exists(&record(&path)), children(&path).len()), (true, 1));
    wait_until("the record goes", SOON, || !exists(&record(&path)));
    assert!(children(&path).is_empty());
}

#[test]
fn next_holder_waits_after_every_kind_of_loss() {
    let end_of_a_session = |path: &str| {
        let (proxy, client) = behind_a_proxy(SESSION);
        let lock = delayed(&client, path);
        lock.lock().unwrap();
        assert_eq!(proxy.expire_sessions().unwrap(), 1);
        Instant::now()
    };
    let too_long = |path: &str| {
        let (client, time) = (client(), Duration::from_millis(50));
        let options = delays().hold_at_most(time);
        let lock = DistributedLock::with_options(&client, path, options).unwrap();
        let begun = Instant::now();
        lock.lock().unwrap();
        await_lost(&lock.hold().unwrap());
        await_nothing_left(&client);
        begun + time
    };
    let close = |path: &str| {
        let client = client();
        let lock = delayed(&client, path);
        lock.lock().unwrap();
        let begun = Instant::now();
        client.close().unwrap();
        begun
    };
    let losses = [
        ("its session", &end_of_a_session as &dyn Fn(&str) -> Instant),
        ("its time", &too_long),
        ("its client", &close),
        ("its node", &lose),
    ];
    let next = client();
    for (what, lose) in losses {
        let path = fresh_path("delayed");
        let lost = lose(&path);
        let lock = delayed(&next, &path);
        assert!(!lock.try_lock().unwrap(), "a try after the end of {what}");
        let guard = lock.acquire().unwrap();
        println!("{:?} after the end of {what}", lost.elapsed());
        assert!(lost.elapsed() >= DELAY, "{:?} after the end of {what}", lost.elapsed());
        guard.release().unwrap();
        assert!(lock.try_lock().unwrap(), "nobody was lost since");
        lock.unlock().unwrap();
        await_nothing_left(&next);
    }
}

#[test]
fn waiting_calls_are_granted_in_order_after_the_delay() {
    let ([ours, first, second], path) = ([(); 3].map(|()| client()), fresh_path("delayed"));
    let lock = delayed(&ours, &path);
    lock.lock().unwrap();
    let hold = lock.hold().unwrap();
    let [first, second] = [(&first, 2), (&second, 3)].map(|(client, queued)| {
        let visitor = Visitor::start(delayed(client, &path));
        wait_until("it queues", SOON, || children(&path).len() == queued);
        visitor
    });
    delete_node(&hold);
    let lost = Instant::now();
    let token = first.hold().fencing_token();
    assert!(lost.elapsed() >= DELAY && token > hold.fencing_token(), "{:?}", lost.elapsed());
    assert!(!second.is_in());
    first.leaves();
    assert!(second.hold().fencing_token() > token);
    second.leaves();
}

/// Each try sees that the delay has begun, and leaves.
#[test]
fn delay_goes_on_while_nobody_waits() {
    let (client, path) = (client(), fresh_path("delayed"));
    let lost = lose(&path);
    let lock = delayed(&client, &path);
    let mut tries = 0;
    wait_until("a try gets the lock", SOON, || {
        tries += 1;
        lock.try_lock().unwrap()
    });
    println!("{tries} tries in {:?}", lost.elapsed());
    assert!(lost.elapsed() >= DELAY && tries > 1, "{tries} tries, {:?}", lost.elapsed());
    lock.unlock().unwrap();
}

#[test]
fn call_that_ends_during_the_delay_leaves_nothing() {
    let (client, path) = (client(), fresh_path("delayed"));
    let options = LockOptions::new().lock_delay(SOON);
    let lock = DistributedLock::with_options(&client, &path, options).unwrap();
    lock.lock().unwrap();
    delete_node(&lock.hold().unwrap());
    assert!(lock.unlock().is_err());
    let tried = lock.try_lock_for(Duration::from_millis(50));
    // A slow server may not have answered by then.
    assert!(matches!(tried, Ok(false) | Err(Error::Disconnected { .. })), "{tried:?}");
    let waiting = lock.clone();
    let waiting = Task::spawn(move || waiting.lock());
    wait_until("it waits for the delay", SOON, || !children(&path).is_empty());
    lock.cancel_waiters();
    assert_cancelled(&waiting.result("a cancelled call"), &path);
    await_nothing_left(&client);
    assert_eq!(children(&path), Vec::<String>::new());
    delete_record(&path);
    lock.acquire().unwrap().release().unwrap();
}

#[test]
fn operator_ends_the_delay_by_deleting_the_record() {
    let (client, path) = (client(), fresh_path("delayed"));
    lose(&path);
    let lock = delayed(&client, &path);
    assert!(!lock.try_lock().unwrap());
    delete_record(&path);
    assert!(lock.try_lock().unwrap());
    lock.unlock().unwrap();
}

#[test]
fn foreign_node_in_place_of_the_record_is_named_and_kept() {
    let (client, path) = (client(), fresh_path("delayed"));
    let foreign = record(&path);
    shared_probe().unwrap().create(&foreign, b"an order", false, false).unwrap();
    let lock = delayed(&client, &path);
    let refused = lock.try_lock();
    println!("{refused:?}");
    assert!(matches!(&refused, Err(Error::InvalidPath { path, .. }) if *path == foreign));
    let (data, _) = shared_probe().unwrap().get(&foreign).unwrap().unwrap();
    assert_eq!(data, b"an order");
    await_nothing_left(&client);
}

#[test]
fn locks_without_a_lock_delay_refuse_it() {
    let (client, path) = (client(), fresh_path("delayed"));
    let is_refused = |what, lock: Result<()>| {
        println!("{what}: {lock:?}");
        matches!(lock, Err(Error::InvalidArgument { what: "lock_delay", .. }))
    };
    let rwlock = DistributedRwLock::with_options(&client, &path, delays()).map(drop);
    assert!(is_refused("a read-write lock", rwlock));
    let semaphore = DistributedSemaphore::with_options(&client, &path, 1, delays()).map(drop);
    assert!(is_refused("a semaphore", semaphore));
    let single = EphemeralLock::with_options(&client, &path, delays()).map(drop);
    assert!(is_refused("a single node", single));
    let long = LockOptions::new().lock_delay(Duration::from_secs(24 * 60 * 60 + 1));
    let long = DistributedLock::with_options(&client, &path, long).map(drop);
    assert!(is_refused("two days", long));
}

/// The release, and then the deletion in the background, are cut off before a server gets them.
#[test]
fn release_that_is_cut_off_again_and_again_delays_nobody() {
    let ((proxy, ours), others) = (behind_a_proxy(SESSION), client());
    let path = fresh_path("delayed");
    let options = LockOptions::new().lock_delay(SOON);
    let lock_of = |client| DistributedLock::with_options(client, &path, options.clone()).unwrap();
    let (lock, rival) = (lock_of(&ours), lock_of(&others));
    lock.lock().unwrap();
    let cuts = [1, 2].map(|nth| proxy.drop_request(Op::Multi, nth, Then::Cut));
    lock.unlock().unwrap();
    wait_until("the node goes", SOON, || children(&path).is_empty());
    println!("{:?}, {}", cuts, proxy.log().join("\n"));
    assert_eq!(ours.stats().sessions, 1);
    assert!(rival.try_lock().unwrap(), "a released lock delays");
    rival.unlock().unwrap();
    await_nothing_left(&ours);
}

/// The same with a call that waits, and finds itself in the record.
#[test]
fn record_without_an_answer_is_that_of_the_holder() {
    let ((proxy, ours), others) = (behind_a_proxy(SESSION), client());
    let path = fresh_path("delayed");
    let options = LockOptions::new().lock_delay(SOON);
    let lock_of = |client| DistributedLock::with_options(client, &path, options.clone()).unwrap();
    let (lock, rival) = (lock_of(&ours), lock_of(&others));
    rival.acquire().unwrap().release().unwrap();
    let cut = proxy.drop_answer(Op::Multi, 1, Then::Cut);
    lock.acquire().unwrap().release().unwrap();
    assert!(cut.fired());
    assert!(rival.try_lock().unwrap());
    rival.unlock().unwrap();
}

/// The session ends during the delay. The call queues again at once.
#[test]
fn call_whose_session_ends_during_the_delay_queues_again() {
    let ((proxy, ours), path) = (behind_a_proxy(SESSION), fresh_path("delayed"));
    let options = LockOptions::new().lock_delay(SOON);
    let lost = DistributedLock::with_options(&client(), &path, options.clone()).unwrap();
    lost.lock().unwrap();
    delete_node(&lost.hold().unwrap());
    let lock = DistributedLock::with_options(&ours, &path, options).unwrap();
    let waiting = lock.clone();
    let waiting = Task::spawn(move || waiting.lock());
    wait_until("it waits for the delay", SOON, || {
        children(&path).len() == 1
            && shared_probe().unwrap().get(&record(&path)).unwrap().unwrap().0.starts_with(b"lost")
    });
    let before = children(&path);
    assert_eq!(proxy.expire_sessions().unwrap(), 1);
    wait_until("it queues again", SOON / 4, || {
        let now = children(&path);
        !now.is_empty() && now != before
    });
    lock.cancel_waiters();
    assert_cancelled(&waiting.result("a cancelled call"), &path);
}

#[test]
fn release_in_the_background_before_the_close_delays_nobody() {
    let (others, path) = (client(), fresh_path("delayed"));
    let options = LockOptions::new().lock_delay(SOON);
    let rival = DistributedLock::with_options(&others, &path, options.clone()).unwrap();
    for _ in 0..20 {
        let ours = client();
        let options = options.clone().background_release(true);
        let lock = DistributedLock::with_options(&ours, &path, options).unwrap();
        lock.acquire().unwrap().release().unwrap();
        ours.close().unwrap();
        assert!(rival.try_lock().unwrap(), "a released lock delays");
        rival.unlock().unwrap();
    }
}

/// For a moment, nobody may delete nodes of the lock.
#[test]
fn record_stays_with_a_node_that_may_not_be_deleted() {
    let (proxy, ours) = behind_a_proxy(SESSION);
    let operator = ZooKeeper::connect(&connect_string(), SESSION).unwrap();
    let later = delays().hold_at_least(Duration::from_millis(300));
    for (options, is_told) in
        [(delays(), true), (delays().background_release(true), false), (later, false)]
    {
        let path = fresh_path("delayed");
        let lock = DistributedLock::with_options(&ours, &path, options).unwrap();
        let guard = lock.try_acquire().unwrap().expect("nobody has it");
        let allow = |what| {
            operator.set_acl(&path, &[Acl::new(what, "world", "anyone")], None).unwrap();
        };
        allow(Permissions::READ | Permissions::WRITE | Permissions::CREATE | Permissions::ADMIN);
        let refused = proxy.hold_answer(Op::Multi, 1);
        let releasing = Task::spawn(move || guard.release());
        assert!(refused.wait(SOON), "{:#?}", proxy.log());
        allow(Permissions::ALL);
        refused.release();
        let released = releasing.result("release()");
        println!("{released:?}");
        let is_denied = matches!(&released, Err(Error::Denied { path: denied }) if *denied == path);
        assert_eq!((is_denied, released.is_ok()), (is_told, !is_told));
        // The answer to this request is behind that to the release.
        ours.read(&path).unwrap();
        wait_until("nothing is deleted", SOON, || ours.stats().deleting == 0);
        assert_eq!((exists(&record(&path)), children(&path).len()), (true, 1));
    }
    operator.close().unwrap();
}

/// The client may create nodes beside the lock, and may not delete them.
#[test]
fn client_that_may_not_delete_the_record_is_refused() {
    let (root, boss) = (fresh_path("delayed"), shared_probe().unwrap());
    boss.add_auth("digest", b"boss:secret").unwrap();
    // All but DELETE.
    boss.create_with_acl(&root, b"", &[(31 & !8, "world", "anyone"), (31, "auth", "")]).unwrap();
    let path = format!("{root}/lock");
    let (ours, others) = (client(), client());
    let (lock, rival) = (delayed(&ours, &path), delayed(&others, &path));
    let released = lock.try_acquire().unwrap().expect("nobody has it").release();
    println!("{released:?}");
    assert!(matches!(&released, Err(Error::Denied { path: denied }) if *denied == record(&path)));
    assert!(!rival.try_lock().unwrap(), "the record stays");
    assert!(rival.try_lock_for(SOON).unwrap(), "it is free after the delay");
    assert!(matches!(rival.unlock(), Err(Error::Denied { .. })));
    assert!(children(&path).is_empty());
}
