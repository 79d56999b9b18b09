//! Who holds a lock and who waits for it, as somebody sees it who looks from outside.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use zoolock::{
    Client, Contender, DistributedLock, DistributedReentrantLock, DistributedRwLock,
    DistributedSemaphore, EphemeralLock, Error, Hold, Kind, LockOptions, Result,
};
use zoolock_test_support::{
    Direction, Op, Probe, Server, Stat, connect_string, fresh_path, shared_probe, wait_until,
};

use crate::faults::{await_moved, lock_of, place};
use crate::lock::core::{Exclusive, await_nodes, hold_of};
use crate::util::{SESSION, SOON, Task, children, client, client_of, in_time, shared_proxy};

const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";
const HEX: &str = "0123456789abcdef0123456789abcdef";

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
fn client_called(identity: &str) -> Client {
    let builder = Client::builder(&connect_string()).session_timeout(SESSION);
    builder.identity(identity).connect().unwrap()
}

fn stat(path: &str) -> Stat {
    let found = shared_probe().unwrap().stat(path).unwrap();
    found.unwrap_or_else(|| panic!("{path} does not exist"))
}

fn since_epoch(contender: &Contender) -> u128 {
    let since = contender.since.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_millis()
}

/// What the server says of a node that has not moved.
#[track_caller]
fn is_as_the_server_says(contender: &Contender) {
    let node = match contender.node.as_str() {
        "" => contender.path.clone(),
        node => format!("{}/{node}", contender.path),
    };
    let stat = stat(&node);
    let said = (stat.czxid as u64, stat.ephemeral_owner, stat.ctime as u128);
    let seen = (contender.token, contender.session, since_epoch(contender));
    assert_eq!(seen, said, "token, session, since of {contender:?}");
    assert_ne!(contender.session, 0);
    let now = SystemTime::now();
    let age = now.duration_since(contender.since).unwrap_or_default();
    assert!(age < Duration::from_secs(60), "{age:?}: {contender:?}");
    assert!(
        contender.since < now + Duration::from_secs(1),
        "{contender:?}"
    );
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

/// The children of a directory in the order of their sequences.
fn in_order(path: &str) -> Vec<String> {
    let mut nodes = children(path);
    nodes.sort_by_key(|node| place(node).to_owned());
    nodes
}

/// Locks and unlocks on a thread of its own; returns when its node is there.
fn queued<L: Exclusive>(client: &Client, path: &str) -> Task<Result<()>> {
    let before = children(path).len();
    let lock = L::at(client, path);
    let task = Task::spawn(move || lock.lock().and_then(|()| lock.unlock()));
    await_nodes(path, before + 1);
    task
}

// ---- who is shown, and in which order

fn shows_the_queue<L: Exclusive>(contenders: impl Fn(&L) -> Result<Vec<Contender>>) {
    let (first, second) = (client(), client_called("second"));
    let path = fresh_path("queue");
    let holder = L::at(&first, &path);
    assert_eq!(contenders(&holder).unwrap(), []);
    holder.lock().unwrap();
    let waiters = [&second, &first, &second].map(|client| queued::<L>(client, &path));

    let seen = look("by the lock", contenders(&holder));
    assert_eq!(seen, second.contenders(&path).unwrap(), "by the client");
    assert_eq!(nodes(&seen), in_order(&path));
    assert_eq!(holding(&seen), [true, false, false, false]);
    assert_eq!(kinds(&seen), [Kind::Exclusive; 4]);
    seen.iter().for_each(is_as_the_server_says);
    for contender in &seen {
        assert_eq!(contender.path, path);
        let digits: i64 = place(&contender.node).parse().unwrap();
        assert_eq!(contender.sequence, Some(digits));
    }
    let hold = hold_of(&holder);
    assert_eq!(hold.node(), seen[0].node);
    assert_eq!(hold.fencing_token().unwrap(), seen[0].token);
    assert_ne!(seen[0].session, seen[1].session);
    assert_eq!(seen[0].session, seen[2].session, "one client");
    // `<host>/<process>/<thread>`; the host may be anything.
    let own = seen[0].identity.as_deref().unwrap();
    let thread = thread::current().name().unwrap().to_owned();
    let tail = format!("/{}/{thread}", process::id());
    assert!(
        own.ends_with(&tail) && own.len() > tail.len(),
        "{own:?}, {tail:?}"
    );
    assert_eq!(seen[1].identity.as_deref(), Some("second"));

    holder.unlock().unwrap();
    for waiter in waiters {
        waiter.result("a waiter").unwrap();
    }
    assert_eq!(contenders(&holder).unwrap(), []);
}

#[test]
fn a_lock_shows_its_queue_in_order() {
    shows_the_queue(DistributedLock::contenders);
}

#[test]
fn a_reentrant_lock_shows_its_queue_in_order() {
    shows_the_queue(DistributedReentrantLock::contenders);
}

#[test]
fn a_nested_hold_and_local_waiters_are_one_contender() {
    let client = client();
    let path = fresh_path("nested");
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    lock.lock().unwrap();
    let other = lock.clone();
    let waiter = Task::spawn(move || other.lock().and_then(|()| other.unlock()));
    let seen = look("two entries and a local waiter", lock.contenders());
    assert_eq!(holding(&seen), [true]);
    lock.unlock().unwrap();
    assert_eq!(lock.contenders().unwrap(), seen);
    lock.unlock().unwrap();
    waiter.result("the local waiter").unwrap();
}

#[test]
fn a_read_under_its_write_has_its_place_and_its_token_and_both_hold() {
    let (own, others) = (client_called("own"), client_called("others"));
    let path = fresh_path("rw");
    let lock = DistributedRwLock::new(&own, &path).unwrap();
    let write = lock.write_lock().acquire().unwrap();
    let waits = |read: bool| {
        let before = children(&path).len();
        let lock = DistributedRwLock::new(&others, &path).unwrap();
        let task = Task::spawn(move || match read {
            true => lock.read_lock().acquire()?.release(),
            false => lock.write_lock().acquire()?.release(),
        });
        await_nodes(&path, before + 1);
        task
    };
    let waiters = [waits(true), waits(false), waits(true)];
    let token = write.fencing_token().unwrap();
    let read = lock.read_lock().acquire().unwrap();

    let seen = look("write, read under it", lock.read_lock().contenders());
    assert_eq!(seen, lock.write_lock().contenders().unwrap());
    assert_eq!(seen, others.contenders(&path).unwrap());
    assert_eq!(holding(&seen), [true, true, false, false, false]);
    assert_eq!(seen[0].sequence, seen[1].sequence, "one place");
    let places: Vec<_> = seen.iter().map(|c| c.sequence.unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(read.fencing_token().unwrap(), token);
    for hold in [&*write, &*read] {
        let own = seen.iter().find(|c| c.node == hold.node()).unwrap();
        assert_eq!((own.token, own.holds), (token, true), "{own:?}");
        assert_eq!(own.identity.as_deref(), Some("own"));
    }
    let shown = |hold: &Hold| seen.iter().find(|c| c.node == hold.node()).unwrap().kind;
    assert_eq!((shown(&write), shown(&read)), (Kind::Write, Kind::Read));
    assert_eq!(kinds(&seen)[2..], [Kind::Read, Kind::Write, Kind::Read]);

    write.release().unwrap();
    let seen = look("after the write", others.contenders(&path));
    // The reader behind the write enters, and leaves, by itself.
    assert_eq!((seen[0].kind, seen[0].holds), (Kind::Read, true));
    let writer = seen.iter().find(|c| c.kind == Kind::Write).unwrap();
    assert!(
        !writer.holds && !seen.last().unwrap().holds,
        "behind the read"
    );
    read.release().unwrap();
    for waiter in waiters {
        waiter.result("a waiter").unwrap();
    }
}

#[test]
fn a_read_under_a_write_whose_token_nobody_asked_for_is_shown_with_it_too() {
    let client = client();
    let lock = DistributedRwLock::new(&client, fresh_path("rw-token")).unwrap();
    let write = lock.write_lock().acquire().unwrap();
    let read = lock.read_lock().acquire().unwrap();
    let seen = look("write, read under it", lock.read_lock().contenders());
    let tokens: Vec<_> = seen.iter().map(|contender| contender.token).collect();
    let holds = [&write, &read].map(|hold| hold.fencing_token().unwrap());
    println!("shown {tokens:?}, held {holds:?}");
    assert_eq!(tokens, holds);
}

#[test]
fn readers_hold_together_and_a_plain_lock_beside_them_waits() {
    let clients = [client(), client()];
    let path = fresh_path("readers");
    let locks = clients.each_ref().map(|client| {
        let lock = DistributedRwLock::new(client, &path).unwrap();
        lock.read_lock()
    });
    let reads = locks.each_ref().map(|lock| lock.acquire().unwrap());
    let waiter = queued::<DistributedLock>(&clients[0], &path);
    let seen = look("two reads, one exclusive", clients[1].contenders(&path));
    assert_eq!(holding(&seen), [true, true, false]);
    assert_eq!(kinds(&seen), [Kind::Read, Kind::Read, Kind::Exclusive]);
    for (read, contender) in reads.iter().zip(&seen) {
        assert_eq!(read.fencing_token().unwrap(), contender.token);
    }
    for read in reads {
        read.release().unwrap();
    }
    waiter.result("the waiter").unwrap();
}

#[test]
fn a_single_node_lock_shows_its_holder_only() {
    let (own, other) = (client_called("two words"), client());
    let path = fresh_path("single");
    let lock = EphemeralLock::new(&own, &path).unwrap();
    assert_eq!(lock.contenders().unwrap(), []);
    let guard = lock.acquire().unwrap();
    let waiting = EphemeralLock::new(&other, &path).unwrap();
    let waits = waiting.clone();
    let waiter = Task::spawn(move || waits.acquire()?.release());
    wait_until("the waiter has a seat", SOON, || other.stats().seats == 1);
    let seen = look("single", waiting.contenders());
    assert_eq!(seen, own.contenders(&path).unwrap());
    let [holder] = &seen[..] else {
        panic!("{seen:?}")
    };
    is_as_the_server_says(holder);
    assert_eq!((&*holder.path, &*holder.node), (&*path, ""));
    assert_eq!((holder.kind, holder.sequence), (Kind::Exclusive, None));
    assert!(holder.holds);
    assert_eq!(holder.identity.as_deref(), Some("two words"));
    assert_eq!(holder.token, guard.fencing_token().unwrap());
    guard.release().unwrap();
    waiter.result("the waiter").unwrap();
    assert_eq!(lock.contenders().unwrap(), []);
}

#[test]
fn a_single_node_of_somebody_else_says_what_its_data_say() {
    let client = client();
    let path = fresh_path("leader");
    let probe = shared_probe().unwrap();
    probe.create_all("/zoolock-test").unwrap();
    for (data, identity) in [
        (&b"worker-7"[..], Some("worker-7")),
        (b"worker 7", Some("worker 7")),
        (b"", Some("")),
        (b"\xff\xfe", None),
        (b"__REVOKE__", None),
    ] {
        probe.create(&path, data, true, false).unwrap();
        let seen = look("somebody's", client.contenders(&path));
        assert_eq!(identities(&seen), [identity], "{data:?}");
        assert_eq!((seen[0].holds, seen[0].kind), (true, Kind::Exclusive));
        assert_eq!(seen[0].session, probe.session_id());
        probe.delete(&path).unwrap();
    }
}

#[test]
fn a_semaphore_shows_its_permits_and_who_waits_behind_them() {
    let clients = ["a", "b", "c"].map(client_called);
    let path = fresh_path("semaphore");
    let semaphores = clients
        .each_ref()
        .map(|client| DistributedSemaphore::new(client, &path, 3).unwrap());
    assert_eq!(semaphores[0].contenders().unwrap(), []);
    let held = semaphores[0].acquire(2).unwrap();
    let waits = |semaphore: &DistributedSemaphore| {
        let semaphore = semaphore.clone();
        Task::spawn(move || semaphore.acquire(2)?.release())
    };
    let (locks, leases) = (format!("{path}/locks"), format!("{path}/leases"));
    let second = waits(&semaphores[1]);
    await_nodes(&leases, 4);
    let third = waits(&semaphores[2]);
    await_nodes(&locks, 2);

    let seen = look("semaphore", semaphores[2].contenders());
    assert_eq!(seen, clients[0].contenders(&path).unwrap());
    assert_eq!(kinds(&seen), [Kind::Permit; 6]);
    assert_eq!(holding(&seen), [true, true, false, false, false, false]);
    let who = ["a", "a", "b", "b", "b", "c"].map(Some);
    assert_eq!(identities(&seen), who);
    seen.iter().for_each(is_as_the_server_says);
    let directories: Vec<_> = nodes(&seen)
        .iter()
        .map(|n| n.split('/').next().unwrap())
        .collect();
    let expected = ["leases", "leases", "leases", "leases", "locks", "locks"];
    assert_eq!(directories, expected);
    let mut tokens: Vec<_> = held
        .holds()
        .iter()
        .map(|hold| hold.fencing_token().unwrap())
        .collect();
    tokens.sort_unstable();
    assert_eq!(tokens, [seen[0].token, seen[1].token]);
    for contender in &seen {
        let digits: i64 = place(&contender.node).parse().unwrap();
        assert_eq!(
            (contender.sequence, &contender.path),
            (Some(digits), &path),
            "{contender:?}"
        );
    }

    held.release().unwrap();
    second.result("the second").unwrap();
    third.result("the third").unwrap();
    wait_until("nobody is left", SOON, || {
        semaphores[1].contenders().unwrap().is_empty()
    });
}

#[test]
fn a_stranger_in_a_semaphores_path_hides_nobody() {
    let client = client();
    let path = fresh_path("semaphore-stranger");
    let semaphore = DistributedSemaphore::new(&client, &path, 2).unwrap();
    let permits = semaphore.acquire(1).unwrap();
    let notes = format!("{path}/notes");
    shared_probe()
        .unwrap()
        .create(&notes, b"mine", false, false)
        .unwrap();
    let seen = look("a permit and notes", semaphore.contenders());
    assert_eq!(kinds(&seen), [Kind::Permit, Kind::Foreign]);
    assert_eq!(holding(&seen), [true, false]);
    assert_eq!(
        seen[0].token,
        permits.holds()[0].fencing_token().unwrap(),
        "the permit"
    );
    permits.release().unwrap();
}

#[test]
fn a_permit_that_was_granted_is_held_though_its_client_waits_for_more() {
    let (others, own) = (client(), client());
    let path = fresh_path("semaphore-own");
    let semaphore = |client| DistributedSemaphore::new(client, &path, 2).unwrap();
    let first = semaphore(&others);
    let (one, other) = (first.acquire(1).unwrap(), first.acquire(1).unwrap());
    let (locks, leases) = (format!("{path}/locks"), format!("{path}/leases"));
    // Somebody has the turn; behind it two objects of one client queue.
    let ahead = semaphore(&others);
    let ahead = Task::spawn(move || ahead.acquire(1));
    await_nodes(&leases, 3);
    let second = semaphore(&own);
    let second = Task::spawn(move || second.acquire(1));
    await_nodes(&locks, 2);
    let third = semaphore(&own);
    let third = Task::spawn(move || third.acquire(1));
    await_nodes(&locks, 3);
    one.release().unwrap();
    let ahead = ahead.result("who had the turn").unwrap();
    await_nodes(&locks, 2);
    await_nodes(&leases, 3);
    other.release().unwrap();
    let second = second.result("the first of the client").unwrap();
    await_nodes(&locks, 1);
    await_nodes(&leases, 3);

    let seen = look("two held, one waits", own.contenders(&path));
    let token = second.holds()[0].fencing_token().unwrap();
    let granted = seen.iter().find(|c| c.token == token).unwrap();
    assert!(granted.holds, "{granted:?}");
    assert_eq!(holding(&seen), [true, true, false, false]);
    ahead.release().unwrap();
    third.result("the last").unwrap().release().unwrap();
    second.release().unwrap();
}

// ---- identities

#[test]
fn a_locks_own_identity_goes_before_the_clients() {
    let client = client_called("the client's");
    let options = || LockOptions::new().identity("the löck's\nown");
    let root = fresh_path("identity");
    let at = |name: &str| format!("{root}/{name}");
    let any = DistributedLock::with(&client, at("any"), options()).unwrap();
    let own = DistributedReentrantLock::with(&client, at("own"), options()).unwrap();
    let rw = DistributedRwLock::with(&client, at("rw"), options()).unwrap();
    let single = EphemeralLock::with(&client, at("single"), options()).unwrap();
    let permits = DistributedSemaphore::with(&client, at("permits"), 2, options()).unwrap();
    let _held = (
        any.acquire().unwrap(),
        own.acquire().unwrap(),
        single.acquire().unwrap(),
        rw.write_lock().acquire().unwrap(),
        rw.read_lock().acquire().unwrap(),
        permits.acquire(2).unwrap(),
    );
    for (name, count) in [
        ("any", 1),
        ("own", 1),
        ("rw", 2),
        ("single", 1),
        ("permits", 2),
    ] {
        let seen = look(name, client.contenders(&at(name)));
        assert_eq!(identities(&seen), vec![Some("the löck's\nown"); count]);
    }
}

#[test]
fn an_identity_may_have_16_kib_and_no_more() {
    let client = client();
    let long = "x".repeat(16 * 1024);
    let path = fresh_path("long-identity");
    let options = LockOptions::new().identity(&*long);
    let lock = DistributedLock::with(&client, &path, options).unwrap();
    let guard = lock.acquire().unwrap();
    let seen = lock.contenders().unwrap();
    assert_eq!(identities(&seen), [Some(&*long)]);
    guard.release().unwrap();
    let named = client_called(&long);
    assert!(lock_of(&named, &path).try_lock().unwrap());
    named.close().unwrap();

    let long = format!("{long}y");
    is_no_identity(&client, &path, &long);
}

#[test]
fn an_identity_that_would_be_read_as_something_else_is_refused() {
    let client = client();
    let path = fresh_path("odd-identity");
    for identity in ["__REVOKE__", "a\n_zoolock token=1 since=2"] {
        is_no_identity(&client, &path, identity);
    }
    for identity in ["", " ", "a __REVOKE__", "_zoolock", "a\n_zoolock b"] {
        let options = LockOptions::new().identity(identity);
        let lock = DistributedLock::with(&client, &path, options).unwrap();
        let guard = lock.acquire().unwrap();
        let seen = look("odd", lock.contenders());
        assert_eq!(identities(&seen), [Some(identity)]);
        guard.release().unwrap();
    }
}

fn is_no_identity(client: &Client, path: &str, identity: &str) {
    let options = || LockOptions::new().identity(identity);
    let builder = Client::builder(&connect_string()).identity(identity);
    let seen = [
        DistributedLock::with(client, path, options()).map(drop),
        DistributedReentrantLock::with(client, path, options()).map(drop),
        DistributedRwLock::with(client, path, options()).map(drop),
        EphemeralLock::with(client, path, options()).map(drop),
        DistributedSemaphore::with(client, path, 1, options()).map(drop),
        builder.connect().map(drop),
    ];
    for seen in seen {
        let refused = matches!(
            &seen,
            Err(Error::InvalidArgument {
                what: "identity",
                ..
            })
        );
        let shown: String = identity.chars().take(40).collect();
        assert!(refused, "{shown:?}: {seen:?}");
    }
}

// ---- moves

/// Everything but what a move changes.
fn lasting(contender: &Contender) -> Contender {
    let mut lasting = contender.clone();
    (lasting.node, lasting.session) = (String::new(), 0);
    lasting
}

#[test]
fn a_hold_and_a_waiter_that_moved_are_shown_as_before_but_for_node_and_session() {
    for know_tokens_before in [true, false] {
        let proxy = shared_proxy();
        let own = client_of(&proxy.connect_string(), SESSION);
        let other = client();
        let root = fresh_path("moved");
        let (held, waited) = (format!("{root}/held"), format!("{root}/waited"));
        let guard = lock_of(&own, &held).acquire().unwrap();
        let ahead = lock_of(&other, &waited).acquire().unwrap();
        let lock = lock_of(&own, &waited);
        let waiter = Task::spawn(move || {
            let guard = lock.acquire()?;
            let seen = (guard.fencing_token()?, guard.node());
            guard.release().map(|()| seen)
        });
        await_nodes(&waited, 2);
        if know_tokens_before {
            guard.fencing_token().unwrap();
        }
        let look_at_both = || {
            let mut seen = other.contenders(&held).unwrap();
            seen.push(other.contenders(&waited).unwrap().pop().unwrap());
            seen
        };
        let before = look("before", Ok(look_at_both()));
        before.iter().for_each(is_as_the_server_says);
        for round in 1..=2 {
            proxy.cut();
            await_moved(&own, 2 * round);
            let one_each = || children(&held).len() == 1 && children(&waited).len() == 2;
            wait_until("the old nodes are gone", SOON, one_each);
            let after = look("after", Ok(look_at_both()));
            for (before, after) in before.iter().zip(&after) {
                assert_eq!(lasting(after), lasting(before));
                assert_ne!(after.node, before.node);
                assert_ne!(after.session, before.session);
                let node = stat(&format!("{}/{}", after.path, after.node));
                assert_eq!(after.session, node.ephemeral_owner);
                assert_ne!(after.token, node.czxid as u64, "the first node's");
            }
            assert_eq!(holding(&after), [true, false]);
            assert_eq!(guard.fencing_token().unwrap(), after[0].token);
        }
        ahead.release().unwrap();
        let (token, _) = waiter.result("the waiter").unwrap();
        assert_eq!(token, before[1].token, "of the waiter, when it held");
        guard.release().unwrap();
    }
}

#[test]
fn holds_of_every_kind_keep_token_since_and_identity_over_a_move() {
    let proxy = shared_proxy();
    let builder = Client::builder(&proxy.connect_string()).session_timeout(SESSION);
    let own = builder.identity("mover").connect().unwrap();
    let other = client();
    let root = fresh_path("all-moved");
    let at = |name: &str| format!("{root}/{name}");
    let rw = DistributedRwLock::new(&own, at("rw")).unwrap();
    let reentrant = DistributedReentrantLock::new(&own, at("own")).unwrap();
    let semaphore = DistributedSemaphore::new(&own, at("permits"), 3).unwrap();
    let write = rw.write_lock().acquire().unwrap();
    write.fencing_token().unwrap();
    let read = rw.read_lock().acquire().unwrap();
    let nested = reentrant.acquire().unwrap();
    let permits = semaphore.acquire(3).unwrap();
    wait_until("the turn is given back", SOON, || own.stats().seats == 6);
    let by_token = |path: &str| {
        let mut seen = other.contenders(path).unwrap();
        seen.sort_by_key(|c| (c.token, c.kind == Kind::Read));
        seen
    };
    let look_at_all = || ["rw", "own", "permits"].map(|name| by_token(&at(name)));
    let before = look_at_all();
    proxy.cut();
    await_moved(&own, 6);
    let gone = || look_at_all().each_ref().map(Vec::len) == [2, 1, 3];
    wait_until("the old nodes are gone", SOON, gone);
    let after = look_at_all();
    println!("{before:#?}\n{after:#?}");
    for (before, after) in before.iter().flatten().zip(after.iter().flatten()) {
        assert_eq!(lasting(after), lasting(before));
        assert_ne!(after.session, before.session);
        assert!(after.holds);
        assert_eq!(after.identity.as_deref(), Some("mover"));
    }
    let of = |hold: &Hold, all: &[Contender]| {
        let is_it = |c: &&Contender| c.node.ends_with(&hold.node());
        let token = all.iter().find(is_it).map(|contender| contender.token);
        assert_eq!(token, hold.fencing_token().ok(), "{hold:?}");
    };
    let [rw, own, permit] = &after;
    of(&write, rw);
    of(&read, rw);
    of(&nested, own);
    permits.holds().iter().for_each(|hold| of(hold, permit));
    permits.release().unwrap();
}

// ---- others' nodes

#[test]
fn nodes_of_other_libraries_are_shown_in_one_order_and_strangers_last() {
    let client = client();
    let path = fresh_path("mixed");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let made = [
        // Kazoo, an older .NET recipe, go-zookeeper, Curator, the recipe's text.
        (format!("{HEX}__rlock__0000000003"), Kind::Read, true),
        (format!("_c_{UUID}-__READ__0000000004"), Kind::Read, true),
        ("lock-0000000005".to_owned(), Kind::Exclusive, false),
        (format!("{HEX}__lock__0000000006"), Kind::Exclusive, false),
        (format!("_c_{HEX}-lock-0000000007"), Kind::Exclusive, false),
        (format!("_c_{UUID}-__WRIT__0000000008"), Kind::Write, false),
        (format!("x-{UUID}-lock-0000000009"), Kind::Exclusive, false),
        (format!("_c_{UUID}-__READ__0000000010"), Kind::Read, false),
        // Strangers.
        ("0000000001".to_owned(), Kind::Foreign, false),
        (format!("_c_{UUID}-lease-0000000002"), Kind::Foreign, false),
        ("hello".to_owned(), Kind::Foreign, false),
        ("lock-9999999999".to_owned(), Kind::Foreign, false),
        ("ß-lock-".to_owned(), Kind::Foreign, false),
    ];
    for (name, ..) in made.iter().rev() {
        let node = format!("{path}/{name}");
        probe.create(&node, b"somebody", true, false).unwrap();
    }
    probe
        .create(&format!("{path}/stays"), b"", false, false)
        .unwrap();
    let seen = look("mixed", client.contenders(&path));
    let expected: Vec<_> = made.iter().map(|(name, ..)| name.as_str()).collect();
    let (contending, strangers) = seen.split_at(8);
    assert_eq!(nodes(contending), expected[..8]);
    let mut last = nodes(strangers);
    last.sort_unstable();
    let mut expected_last = [&expected[8..], &["stays"]].concat();
    expected_last.sort_unstable();
    assert_eq!(last, expected_last);
    for (seen, (name, kind, holds)) in seen.iter().zip(&made).take(8) {
        assert_eq!((seen.kind, seen.holds), (*kind, *holds), "{name}");
        let digits: i64 = place(name).parse().unwrap();
        assert_eq!(seen.sequence, Some(digits));
        assert_eq!(seen.session, probe.session_id());
        assert_eq!(seen.identity.as_deref(), Some("somebody"));
    }
    for stranger in strangers {
        assert_eq!((stranger.kind, stranger.holds), (Kind::Foreign, false));
    }
    let persistent = strangers.iter().find(|c| c.node == "stays").unwrap();
    assert_eq!(persistent.session, 0);
}

#[test]
fn strangers_block_nobody() {
    let client = client();
    let path = fresh_path("strangers");
    let probe = shared_probe().unwrap();
    probe.create_all(&format!("{path}/notes")).unwrap();
    probe
        .create(&format!("{path}/0000000000"), b"", true, false)
        .unwrap();
    let lock = lock_of(&client, &path);
    assert!(lock.try_lock().unwrap());
    let seen = look("strangers", lock.contenders());
    let expected = [Kind::Exclusive, Kind::Foreign, Kind::Foreign];
    assert_eq!(kinds(&seen), expected);
    assert_eq!(holding(&seen), [true, false, false]);
    lock.unlock().unwrap();
    let seen = look("strangers alone", lock.contenders());
    assert_eq!(kinds(&seen), [Kind::Foreign, Kind::Foreign]);
}

#[test]
fn node_data_of_any_kind_are_no_error() {
    let client = client();
    let path = fresh_path("data");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let long = "x".repeat(500 * 1000);
    let moved = "who\n_zoolock token=77 since=1000";
    let since = format!("who\n_zoolock token=1 since={}", u64::MAX);
    let data: [(&[u8], Option<&str>); 8] = [
        (b"\xff\xfe\x00", None),
        (b"", Some("")),
        (b"__REVOKE__", None),
        (long.as_bytes(), Some(&long)),
        (b"192.168.0.1", Some("192.168.0.1")),
        (moved.as_bytes(), Some("who")),
        (since.as_bytes(), Some("who")),
        (b"__REVOKE__ ", Some("__REVOKE__ ")),
    ];
    for (number, (data, _)) in data.iter().enumerate() {
        let node = format!("{path}/_c_{UUID}-lock-{number:010}");
        probe.create(&node, data, true, false).unwrap();
    }
    let seen = client.contenders(&path).unwrap();
    let shown: Vec<_> = seen
        .iter()
        .map(|c| (c.identity.as_ref().map(String::len), c.token, c.since))
        .collect();
    println!("length of identity, token, since: {shown:?}");
    assert_eq!(identities(&seen), data.map(|(_, identity)| identity));
    assert_eq!((seen[5].token, since_epoch(&seen[5])), (77, 1000));
    let plain = stat(&format!("{path}/{}", seen[0].node));
    assert_eq!(seen[0].token, plain.czxid as u64);
}

// ---- nothing there, and refusals

#[test]
fn nothing_there_is_nobody() {
    let client = client();
    let path = fresh_path("nothing");
    let lock = lock_of(&client, &path);
    let semaphore = DistributedSemaphore::new(&client, &path, 1).unwrap();
    assert_eq!(client.contenders(&path).unwrap(), [], "nothing");
    assert_eq!(lock.contenders().unwrap(), []);
    assert_eq!(semaphore.contenders().unwrap(), []);
    let deep = format!("{path}/a/b");
    assert_eq!(client.contenders(&deep).unwrap(), []);
    shared_probe().unwrap().create_all(&path).unwrap();
    assert_eq!(client.contenders(&path).unwrap(), [], "empty");
    let single = EphemeralLock::new(&client, &path).unwrap();
    assert_eq!(single.contenders().unwrap(), [], "a directory");

    let hosts = format!("{}{}", connect_string(), fresh_path("no-chroot"));
    let below = client_of(&hosts, SESSION);
    assert_eq!(below.contenders("/a").unwrap(), [], "no chroot");
    println!("{:?}", client.stats());
}

#[test]
fn below_a_chroot_paths_are_those_of_the_client() {
    let root = fresh_path("chroot");
    let hosts = format!("{}{root}", connect_string());
    let below = client_of(&hosts, SESSION);
    let guard = lock_of(&below, "/a").acquire().unwrap();
    let single = EphemeralLock::new(&below, "/single").unwrap();
    let alone = single.acquire().unwrap();
    let seen = look("inside", below.contenders("/a"));
    assert_eq!((&*seen[0].path, &*seen[0].node), ("/a", &*guard.node()));
    let inside = look("single, inside", below.contenders("/single"));
    let mut outside = look("outside", client().contenders(&format!("{root}/a")));
    assert_eq!(outside[0].path, format!("{root}/a"));
    outside[0].path = "/a".to_owned();
    assert_eq!(outside, seen);
    let (asked, told) = (guard.revocation().unwrap(), alone.revocation().unwrap());
    below.revoke(&seen[0]).unwrap();
    below.revoke(&inside[0]).unwrap();
    asked.recv_timeout(SOON).expect("revoked below a chroot");
    told.recv_timeout(SOON).expect("revoked below a chroot");
}

#[test]
fn a_path_that_cannot_be_a_locks_is_invalid_without_a_request() {
    let client = client();
    let before = client.stats().requests;
    for path in ["", "/", "a", "/a/", "/a//b", "/a/..", "/zookeeper", "/a\0"] {
        let seen = client.contenders(path);
        let invalid = matches!(&seen, Err(Error::InvalidPath { path: at, .. }) if at == path);
        assert!(invalid, "{path:?}: {seen:?}");
    }
    assert_eq!(client.stats().requests, before);
}

#[test]
fn without_permission_it_is_denied() {
    let boss = shared_probe().unwrap();
    boss.add_auth("digest", b"boss:secret").unwrap();
    let client = client();
    let path = fresh_path("denied");
    boss.create_all("/zoolock-test").unwrap();
    boss.create_with_acl(&path, b"", &[(31, "auth", ""), (30, "world", "anyone")])
        .unwrap();
    is_denied(&client, &path);
    // A contender that may not be read.
    let path = fresh_path("denied-child");
    boss.create_all(&path).unwrap();
    boss.create_with_acl(&format!("{path}/lock-0000000001"), b"", &[(31, "auth", "")])
        .unwrap();
    is_denied(&client, &path);
}

#[track_caller]
fn is_denied(client: &Client, path: &str) {
    let seen = client.contenders(path);
    println!("{seen:?}");
    let denied = matches!(&seen, Err(Error::Denied { path: at }) if at == path);
    assert!(denied, "{seen:?}");
}

#[test]
fn without_a_connection_it_is_disconnected_within_a_session_timeout() {
    const SHORT: Duration = Duration::from_secs(2);
    let slack = Duration::from_secs(1);
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SHORT);
    let path = fresh_path("disconnected");
    let guard = lock_of(&client, &path).acquire().unwrap();
    let asks = || {
        in_time("contenders()", SHORT + slack, || {
            let (client, path) = (client.clone(), path.clone());
            Task::spawn(move || client.contenders(&path)).result("contenders()")
        })
    };
    proxy.black_hole(Direction::Both);
    is_disconnected(&asks(), &path);
    proxy.refuse(true);
    proxy.cut();
    is_disconnected(&asks(), &path);
    proxy.restore();
    // It waits for a connection.
    let back = asks().unwrap();
    println!("back: {back:?}");
    drop(guard);
    client.close().unwrap();
    let closed = asks();
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
}

#[track_caller]
fn is_disconnected(seen: &Result<Vec<Contender>>, path: &str) {
    let disconnected = matches!(seen, Err(Error::Disconnected { path: at }) if at == path);
    assert!(disconnected, "{seen:?}");
}

#[test]
fn a_cut_or_a_close_while_it_reads_ends_it_at_once() {
    for close in [true, false] {
        let proxy = shared_proxy();
        let looking = client_of(&proxy.connect_string(), Duration::from_secs(60));
        let path = fresh_path("cut-while-reading");
        let holder = client();
        let guard = lock_of(&holder, &path).acquire().unwrap();
        let reading = proxy.on(Op::GetData).path_contains(&guard.node());
        let reading = reading.hold_answer();
        let (asks, at) = (looking.clone(), path.clone());
        let asked = Task::spawn(move || asks.contenders(&at));
        assert!(reading.wait(SOON), "{:#?}", proxy.log());
        let begun = Instant::now();
        let closing = match close {
            true => Some(Task::spawn(move || looking.close())),
            false => {
                proxy.cut();
                None
            }
        };
        let seen = asked.result("contenders()");
        println!("{seen:?} {:?} later", begun.elapsed());
        match close {
            true => assert!(matches!(seen, Err(Error::Closed)), "{seen:?}"),
            false => is_disconnected(&seen, &path),
        }
        reading.release();
        if let Some(closing) = closing {
            closing.result("close()").unwrap();
        }
        guard.release().unwrap();
    }
}

#[test]
fn the_session_is_the_one_in_the_servers_list_of_connections() {
    let server = Server::start().unwrap();
    let client = client_of(&server.connect_string(), SESSION);
    let guard = lock_of(&client, "/a").acquire().unwrap();
    let seen = look("a lock", client.contenders("/a"));
    let connections = server.four_letter("cons").unwrap();
    let session = format!("sid={:#x},", seen[0].session);
    println!("{session} in {connections}");
    assert!(connections.contains(&session));
    guard.release().unwrap();
}

// ---- many

const MANY: usize = 10_000;

/// A server with a lock that ten thousand contend for.
fn crowd(path: &str) -> (Server, Probe) {
    let server = Server::start().unwrap();
    let probe = Probe::connect(server.address()).unwrap();
    probe.create_all(path).unwrap();
    let name = format!("{path}/_c_{UUID}-lock-");
    let begun = Instant::now();
    for _ in 0..MANY {
        probe.create(&name, b"somebody", true, true).unwrap();
    }
    println!("{MANY} nodes made in {:?}", begun.elapsed());
    (server, probe)
}

#[test]
fn ten_thousand_contenders_are_read_within_the_session_timeout_and_nobody_is_held_up() {
    let (server, _probe) = crowd("/many");
    let client = client_of(&server.connect_string(), SESSION);
    let mine = lock_of(&client, "/mine");
    mine.lock().unwrap();
    mine.unlock().unwrap();
    let asks = client.clone();
    let asked = Task::spawn(move || {
        let begun = Instant::now();
        let seen = asks.contenders("/many");
        (seen, begun.elapsed())
    });
    let (mut cycles, mut longest) = (0, Duration::ZERO);
    while !asked.is_done() {
        let begun = Instant::now();
        mine.lock().unwrap();
        mine.unlock().unwrap();
        longest = longest.max(begun.elapsed());
        cycles += 1;
    }
    let (seen, took) = asked.result("contenders()");
    let seen = seen.unwrap();
    println!(
        "{} in {took:?}; meanwhile {cycles} cycles of another lock, the longest {longest:?}",
        seen.len()
    );
    assert_eq!(seen.len(), MANY);
    assert!(seen.is_sorted_by(|a, b| a.sequence < b.sequence));
    assert!(seen[0].holds && !seen[1..].iter().any(|c| c.holds));
    assert!(longest < SESSION / 3, "{longest:?}");
}

#[test]
fn contenders_that_vanish_while_it_reads_are_left_out() {
    let (server, probe) = crowd("/vanishing");
    let client = client_of(&server.connect_string(), SESSION);
    let before = client.contenders("/vanishing").unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&over);
    let names: Vec<_> = before.iter().map(|c| c.node.clone()).collect();
    let vanishing = Task::spawn(move || {
        for name in names.iter().step_by(2) {
            probe.delete(&format!("/vanishing/{name}")).unwrap();
        }
        done.store(true, Ordering::SeqCst);
        probe
    });
    let mut sizes = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let seen = client.contenders("/vanishing").unwrap();
        assert!(seen.is_sorted_by(|a, b| a.sequence < b.sequence));
        // At most the first has gone since: then nobody is first among what was read.
        assert!(seen.iter().filter(|c| c.holds).count() <= 1);
        sizes.push(seen.len());
    }
    let _probe = vanishing.result("the deletions");
    println!("{sizes:?}");
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    assert_eq!(client.contenders("/vanishing").unwrap().len(), MANY / 2);
}

#[test]
fn a_read_that_takes_too_long_ends_with_the_session_timeout_and_stops_asking() {
    const SHORT: Duration = Duration::from_secs(2);
    const SOME: usize = 2_000;
    let server = Server::start().unwrap();
    let probe = Probe::connect(server.address()).unwrap();
    probe.create_all("/slow").unwrap();
    for _ in 0..SOME {
        let name = format!("/slow/_c_{UUID}-lock-");
        probe.create(&name, b"", true, true).unwrap();
    }
    let proxy = zoolock_test_support::FaultProxy::start(server.address()).unwrap();
    let client = client_of(&proxy.connect_string(), SHORT);
    proxy.delay(Direction::ToClient, Duration::from_millis(50));
    let slack = Duration::from_secs(1);
    let seen = in_time("contenders()", SHORT + slack, || {
        client.contenders("/slow").map(|seen| seen.len())
    });
    let gave_up = matches!(&seen, Err(Error::Disconnected { path }) if path == "/slow");
    assert!(gave_up, "{seen:?}");
    assert_eq!(client.stats().connections, 1, "the connection is fine");
    proxy.delay(Direction::ToClient, Duration::ZERO);
    // Everything that was asked for by then has been answered behind this one.
    lock_of(&client, "/own").lock().unwrap();
    let asked = proxy.requests(Op::GetData);
    lock_of(&client, "/more").lock().unwrap();
    let reads = proxy.requests(Op::GetData);
    println!("{asked} reads when it gave up, {reads} a little later, of {SOME}");
    assert!(reads < asked + 50, "it goes on reading for nobody");
}
