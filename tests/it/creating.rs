//! Making the node that stands for a place in the queue, and the directories above it.

use std::fs;
use std::io::ErrorKind;
use std::process;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Acl, Client, DistributedLock, DistributedReentrantLock, Error, Permissions};
use zoolock_test_support::{
    Direction, FaultProxy, Op, Stat, Then, connect_string, fresh_path, shared_probe, wait_until,
};

use crate::util::{SESSION, SOON, Task, children, client, client_of, shared_proxy};

/// A client behind a proxy of its own, and a lock of it whose directory is there already, so that
/// the first create below it is that of the lock's node.
struct Faulty {
    proxy: FaultProxy,
    client: Client,
    path: String,
    lock: DistributedLock,
}

impl Faulty {
    fn start(name: &str, session_timeout: Duration) -> Faulty {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), session_timeout);
        let path = fresh_path(name);
        shared_probe().unwrap().create_all(&path).unwrap();
        let lock = DistributedLock::new(&client, &path).unwrap();
        Faulty {
            proxy,
            client,
            path,
            lock,
        }
    }

    /// A call of `lock()` on a thread of its own.
    fn locking(&self) -> Task<zoolock::Result<()>> {
        let lock = self.lock.clone();
        Task::spawn(move || lock.lock())
    }

    /// Exactly one node, the lock's own, and none after the unlock.
    fn has_one_node_until_unlocked(&self) {
        let seen = children(&self.path);
        println!("held: {seen:?}");
        assert_eq!(
            seen,
            [self.lock.hold().expect("held").node()],
            "{}",
            self.log()
        );
        self.lock.unlock().unwrap();
        self.becomes_empty();
    }

    fn becomes_empty(&self) {
        let took = wait_until("nothing is left behind", SOON, || {
            children(&self.path).is_empty()
        });
        println!("nothing left after {took:?}, {:?}", self.client.stats());
    }

    /// Nothing is remembered for ever: what may still appear goes with its session.
    fn has_no_garbage(&self) {
        let took = wait_until("the garbage list is empty", SOON, || {
            self.client.stats().garbage == 0
        });
        println!("no garbage after {took:?}");
    }

    fn log(&self) -> String {
        self.proxy.log().join("\n")
    }
}

fn stat(path: &str) -> Stat {
    let found = shared_probe().unwrap().stat(path).unwrap();
    found.unwrap_or_else(|| panic!("{path} does not exist"))
}

#[test]
fn a_create_whose_answer_is_lost_leaves_exactly_one_node() {
    let faulty = Faulty::start("answer-lost", SESSION);
    let lost = faulty.proxy.on(Op::Create).path_contains(&faulty.path);
    let lost = lost.drop_answer(Then::Cut);
    let begun = Instant::now();
    faulty.locking().result("lock()").unwrap();
    println!(
        "locked in {:?}, {:?}",
        begun.elapsed(),
        faulty.client.stats()
    );
    assert!(lost.fired(), "{}", faulty.log());
    faulty.has_one_node_until_unlocked();
}

#[test]
fn a_create_whose_request_is_lost_is_sent_again() {
    let faulty = Faulty::start("request-lost", SESSION);
    let lost = faulty.proxy.on(Op::Create).path_contains(&faulty.path);
    let lost = lost.drop_request(Then::Cut);
    faulty.locking().result("lock()").unwrap();
    assert!(lost.fired(), "{}", faulty.log());
    faulty.has_one_node_until_unlocked();
}

#[test]
fn several_lost_answers_in_a_row_leave_exactly_one_node() {
    let faulty = Faulty::start("answers-lost", SESSION);
    let rules: Vec<_> = (1..=3)
        .map(|nth| faulty.proxy.on(Op::Create).nth(nth))
        .map(|rule| rule.path_contains(&faulty.path).drop_answer(Then::Cut))
        .collect();
    faulty.locking().result("lock()").unwrap();
    assert!(rules.iter().all(|rule| rule.fired()), "{}", faulty.log());
    faulty.has_one_node_until_unlocked();
}

#[test]
fn try_lock_does_not_know_after_a_lost_answer_and_leaves_nothing() {
    let faulty = Faulty::start("try-answer-lost", Duration::from_secs(3));
    let lost = faulty.proxy.on(Op::Create).path_contains(&faulty.path);
    let lost = lost.drop_answer(Then::Cut);
    let seen = faulty.lock.try_lock();
    println!("{seen:?}");
    assert!(
        matches!(&seen, Err(Error::Disconnected { path }) if *path == faulty.path),
        "{seen:?}"
    );
    assert!(lost.fired(), "{}", faulty.log());
    faulty.becomes_empty();
    faulty.has_no_garbage();
    assert!(faulty.lock.try_lock_for(SOON).unwrap());
    faulty.lock.unlock().unwrap();
}

#[test]
fn nothing_of_an_expired_session_is_adopted() {
    let faulty = Faulty::start("expired", Duration::from_secs(3));
    // The create gets through, its answer does not.
    faulty.proxy.black_hole(Direction::ToClient);
    let locking = faulty.locking();
    let mut node = None;
    wait_until("the node is there", SOON, || {
        node = children(&faulty.path).pop();
        node.is_some()
    });
    faulty.proxy.black_hole(Direction::Both);
    let node = node.unwrap();
    let old = stat(&format!("{}/{node}", faulty.path)).ephemeral_owner;
    let took = wait_until("the session has expired", SOON, || {
        children(&faulty.path).is_empty()
    });
    println!("{node} of {old:#x} went after {took:?}");
    assert!(!locking.is_done(), "it was never told that it has the lock");
    // Now the old answer comes, too.
    faulty.proxy.restore();
    locking.result("lock()").unwrap();
    let hold = faulty.lock.hold().unwrap();
    let new = stat(&format!("{}/{}", faulty.path, hold.node()));
    println!("{hold:?} of {:#x}", new.ephemeral_owner);
    assert_ne!(hold.node(), node);
    assert_ne!(new.ephemeral_owner, old);
    assert_ne!(new.ephemeral_owner, 0);
    faulty.has_one_node_until_unlocked();
}

#[test]
fn a_create_is_undone_when_its_caller_gave_up_and_its_answer_was_lost() {
    let faulty = Faulty::start("given-up-lost", SESSION);
    let lost = faulty.proxy.on(Op::Create).path_contains(&faulty.path);
    let lost = lost.drop_answer(Then::Hold);
    let begun = Instant::now();
    let seen = faulty.lock.try_lock_for(Duration::from_millis(500));
    println!("{seen:?} after {:?}", begun.elapsed());
    assert!(matches!(seen, Err(Error::Disconnected { .. })), "{seen:?}");
    assert!(lost.fired(), "{}", faulty.log());
    assert_eq!(children(&faulty.path).len(), 1, "{}", faulty.log());
    faulty.proxy.cut();
    faulty.becomes_empty();
}

#[test]
fn a_create_in_flight_when_its_caller_gives_up_is_undone_when_it_appears() {
    let faulty = Faulty::start("given-up-held", SESSION);
    let held = faulty.proxy.on(Op::Create).path_contains(&faulty.path);
    let held = held.hold_request();
    let begun = Instant::now();
    let seen = faulty.lock.try_lock_for(Duration::from_millis(500));
    println!("{seen:?} after {:?}", begun.elapsed());
    assert!(matches!(seen, Err(Error::Disconnected { .. })), "{seen:?}");
    assert!(held.fired(), "{}", faulty.log());
    assert_eq!(children(&faulty.path), [""; 0], "the create is held");
    held.release();
    wait_until("the node is deleted", SOON, || {
        faulty.proxy.requests(Op::Delete) > 0
    });
    faulty.becomes_empty();
    faulty.has_no_garbage();
    // The object is as good as new.
    assert!(faulty.lock.try_lock_for(SOON).unwrap());
    faulty.has_one_node_until_unlocked();
}

#[test]
fn a_create_answered_after_its_caller_was_cancelled_is_undone() {
    let faulty = Faulty::start("cancelled-held", SESSION);
    let held = faulty.proxy.on(Op::Create).path_contains(&faulty.path);
    let held = held.hold_answer();
    let locking = faulty.locking();
    assert!(held.wait(SOON), "{}", faulty.log());
    faulty.lock.cancel_waiters();
    let seen = locking.result("the cancelled lock()");
    println!("{seen:?}");
    assert!(matches!(seen, Err(Error::Cancelled { .. })), "{seen:?}");
    held.release();
    faulty.becomes_empty();
}

#[test]
fn makes_the_directories_that_are_missing() {
    let client = client();
    let path = format!("{}/2/3/4/5/6/7/8/9/10", fresh_path("deep"));
    let lock = DistributedLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    let seen = children(&path);
    println!("{path}: {seen:?}");
    assert_eq!(seen, [lock.hold().unwrap().node()]);
    assert_eq!(stat(&path).ephemeral_owner, 0, "directories are persistent");
    lock.unlock().unwrap();

    let path = format!("{}/2/3/4/5/6/7/8/9/10", fresh_path("deep-try"));
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    assert!(lock.try_lock().unwrap());
    assert_eq!(children(&path), [lock.hold().unwrap().node()]);
    lock.unlock().unwrap();
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn a_directory_deleted_before_the_create_is_made_again() {
    const ROUNDS: u64 = 3;
    let faulty = Faulty::start("deleted-between", SESSION);
    let probe = shared_probe().unwrap();
    let nodes = format!("{}/_c_", faulty.path);
    let mut held = faulty
        .proxy
        .on(Op::Create)
        .path_contains(&nodes)
        .hold_request();
    let locking = faulty.locking();
    for round in 1..=ROUNDS {
        assert!(held.wait(SOON), "round {round}: {}", faulty.log());
        probe.delete(&faulty.path).unwrap();
        let next = faulty.proxy.on(Op::Create).path_contains(&nodes);
        let next = next.hold_request();
        held.release();
        held = next;
    }
    held.release();
    locking.result("lock()").unwrap();
    faulty.has_one_node_until_unlocked();
}

#[test]
fn two_clients_may_make_the_same_directories_at_once() {
    const ROUNDS: usize = 20;
    let paths: Vec<String> = (0..ROUNDS)
        .map(|_| format!("{}/a/b/c/d", fresh_path("at-once")))
        .collect();
    let start = Arc::new(Barrier::new(2));
    let work = |client: Client| {
        let (paths, start) = (paths.clone(), Arc::clone(&start));
        Task::spawn(move || -> Vec<(String, Error)> {
            let mut failures = Vec::new();
            for path in paths {
                let lock = DistributedLock::new(&client, &path).unwrap();
                start.wait();
                let seen = lock.lock().and_then(|()| lock.unlock());
                failures.extend(seen.err().map(|error| (path, error)));
            }
            failures
        })
    };
    for task in [work(client()), work(client())] {
        let failures = task.result("all rounds");
        assert!(failures.is_empty(), "{failures:?}");
    }
}

#[test]
fn an_ancestor_that_lets_nobody_create_is_no_obstacle() {
    let boss = shared_probe().unwrap();
    boss.add_auth("digest", b"boss:secret").unwrap();
    // May be listed by everybody, or not even that.
    for others in [
        &[(31, "auth", ""), (1, "world", "anyone")][..],
        &[(31, "auth", "")],
    ] {
        let root = fresh_path("restricted");
        boss.create_all(&root).unwrap();
        let closed = format!("{root}/closed");
        boss.create_with_acl(&closed, b"", others).unwrap();
        boss.create(&format!("{closed}/open"), b"", false, false)
            .unwrap();
        let client = client();
        for path in [format!("{closed}/open"), format!("{closed}/open/a/b/c")] {
            let lock = DistributedLock::new(&client, &path).unwrap();
            lock.lock().unwrap();
            assert_eq!(children(&path).last(), Some(&lock.hold().unwrap().node()));
            lock.unlock().unwrap();
            assert!(lock.try_lock().unwrap());
            lock.unlock().unwrap();
        }
        // Where something has to be made in it, that is said.
        for path in [
            closed.clone(),
            format!("{closed}/new"),
            format!("{closed}/new/a/b"),
        ] {
            is_denied(&client, &path);
        }
    }
}

/// Every way of locking says so, in bounded time, and the object can be used again.
fn is_denied(client: &Client, path: &str) {
    let lock = DistributedLock::new(client, path).unwrap();
    let begun = Instant::now();
    for round in 0..2 {
        let (waiting, trying, trying_for) = (lock.clone(), lock.clone(), lock.clone());
        let calls = [
            ("lock()", Task::spawn(move || waiting.lock().map(|()| true))),
            ("try_lock()", Task::spawn(move || trying.try_lock())),
            (
                "try_lock_for()",
                Task::spawn(move || trying_for.try_lock_for(SOON)),
            ),
        ];
        for (what, call) in calls {
            let seen = call.result(what);
            // The three share an object: a try_lock may find it in use by another of them.
            let busy = what == "try_lock()" && matches!(seen, Ok(false));
            let denied = matches!(&seen, Err(Error::Denied { path: at }) if at.contains(path));
            assert!(
                denied || busy,
                "{what} of {path} in round {round}: {seen:?}"
            );
        }
    }
    println!("{path}: denied in {:?}", begun.elapsed());
    wait_until("no seat is left", SOON, || {
        let stats = client.stats();
        stats.seats == 0 && stats.garbage == 0
    });
}

#[test]
fn only_the_owners_credentials_count_under_a_creator_acl() {
    let root = fresh_path("digest");
    shared_probe().unwrap().create_all(&root).unwrap();
    let path = format!("{root}/lock");
    let owner = || {
        Client::builder(&connect_string())
            .session_timeout(SESSION)
            .auth("digest", "owner:secret")
            .acl(Acl::creator())
            .connect()
            .unwrap()
    };
    let (first, second) = (owner(), owner());
    let lock = DistributedLock::new(&first, &path).unwrap();
    lock.lock().unwrap();
    let node = format!("{path}/{}", lock.hold().unwrap().node());

    let stranger = shared_probe().unwrap();
    let seen = stranger.delete(&node).map_err(|error| error.kind());
    assert_eq!(seen, Err(ErrorKind::PermissionDenied));
    let seen = stranger.get(&node).map_err(|error| error.kind());
    assert_eq!(seen, Err(ErrorKind::PermissionDenied));
    is_denied(&client(), &path);

    let next = DistributedLock::new(&second, &path).unwrap();
    assert!(
        !next.try_lock().unwrap(),
        "the same credentials may take part"
    );
    let waiting = {
        let next = next.clone();
        Task::spawn(move || next.lock())
    };
    wait_until("both are queued", SOON, || second.stats().seats == 1);
    assert!(lock.is_held(), "{:?}", lock.hold());
    lock.unlock().unwrap();
    waiting.result("the waiter").unwrap();
    next.unlock().unwrap();
}

#[test]
fn nodes_and_directories_get_the_clients_acl() {
    let root = fresh_path("acl");
    shared_probe().unwrap().create_all(&root).unwrap();
    let path = format!("{root}/a/b");
    let client = Client::builder(&connect_string())
        .session_timeout(SESSION)
        .auth("digest", "owner:secret")
        .acl(Acl::creator().and("world", "anyone", Permissions::READ))
        .connect()
        .unwrap();
    let lock = DistributedLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    let node = format!("{path}/{}", lock.hold().unwrap().node());
    let probe = shared_probe().unwrap();
    for place in [format!("{root}/a"), path.clone(), node] {
        assert!(
            probe.get(&place).unwrap().is_some(),
            "everybody may read {place}"
        );
        let written = probe.set(&place, b"x").map_err(|error| error.kind());
        assert_eq!(
            written.map(drop),
            Err(ErrorKind::PermissionDenied),
            "{place}"
        );
    }
    lock.unlock().unwrap();
}

#[test]
fn a_node_says_who_made_it() {
    let probe = shared_probe().unwrap();
    let of_lock = |lock: &DistributedLock| {
        lock.lock().unwrap();
        let node = format!("{}/{}", lock.path(), lock.hold().unwrap().node());
        let (data, _) = probe.get(&node).unwrap().expect("the node");
        lock.unlock().unwrap();
        String::from_utf8(data).unwrap()
    };
    let lock = DistributedLock::new(&client(), fresh_path("identity")).unwrap();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let (host, process) = (host.trim(), process::id());
    let seen = thread::scope(|scope| {
        let named = thread::Builder::new().name("Jürgen".into());
        let named = named.spawn_scoped(scope, || of_lock(&lock)).unwrap();
        named.join().unwrap()
    });
    println!("{seen}");
    assert_eq!(seen, format!("{host}/{process}/Jürgen"));

    let seen = thread::scope(|scope| scope.spawn(|| of_lock(&lock)).join().unwrap());
    println!("{seen}");
    let thread = seen.strip_prefix(&format!("{host}/{process}/"));
    assert!(thread.is_some_and(|thread| !thread.is_empty()), "{seen}");

    let builder = Client::builder(&connect_string()).identity("the night shift, line 3 ✓");
    let client = builder.connect().unwrap();
    let lock = DistributedLock::new(&client, fresh_path("identity")).unwrap();
    assert_eq!(of_lock(&lock), "the night shift, line 3 ✓");
}

/// Takes `_c_<uuid>-lock-<seq>` apart.
fn uuid_and_sequence(name: &str) -> Option<(&str, i64)> {
    let (uuid, rest) = name.strip_prefix("_c_")?.split_at_checked(36)?;
    let is_dash = |at: usize| [8, 13, 18, 23].contains(&at);
    let is_uuid = uuid.bytes().enumerate().all(|(at, byte)| match byte {
        b'-' => is_dash(at),
        b'0'..=b'9' | b'a'..=b'f' => !is_dash(at),
        _ => false,
    });
    let digits = rest.strip_prefix("-lock-")?;
    let is_sequence = digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_uuid && is_sequence).then_some((uuid, digits.parse().ok()?))
}

#[test]
fn node_names_are_curators() {
    let client = client();
    let path = fresh_path("names");
    let lock = DistributedLock::new(&client, &path).unwrap();
    let reentrant = DistributedReentrantLock::new(&client, &path).unwrap();
    let mut names = Vec::new();
    for _ in 0..3 {
        lock.lock().unwrap();
        names.extend(children(&path));
        lock.unlock().unwrap();
        reentrant.lock().unwrap();
        names.extend(children(&path));
        reentrant.unlock().unwrap();
    }
    println!("{names:#?}");
    assert_eq!(names.len(), 6, "{names:?}");
    let parsed: Vec<_> = names.iter().map(|name| uuid_and_sequence(name)).collect();
    assert!(parsed.iter().all(Option::is_some), "{names:?}");
    for (at, (uuid, sequence)) in parsed.iter().flatten().enumerate() {
        assert_eq!(*sequence, at as i64, "{names:?}");
        let same = parsed.iter().flatten().filter(|(other, _)| other == uuid);
        assert_eq!(same.count(), 1, "a uuid is new for every create: {names:?}");
    }
}

#[test]
fn everything_is_below_the_chroot() {
    let chroot = fresh_path("chroot") + "/made/by/us";
    let hosts = format!("{}{chroot}", connect_string());
    let (first, second) = (client_of(&hosts, SESSION), client_of(&hosts, SESSION));
    let lock = DistributedLock::new(&first, "/a/lock").unwrap();
    assert!(lock.try_lock().unwrap());
    let hold = lock.hold().unwrap();
    println!("{hold:?}");
    assert_eq!(hold.path(), "/a/lock");
    assert_eq!(children(&format!("{chroot}/a/lock")), [hold.node()]);
    println!("token {}", hold.fencing_token().unwrap());

    // Watches are below it, too.
    let next = DistributedLock::new(&second, "/a/lock").unwrap();
    let waiting = {
        let next = next.clone();
        Task::spawn(move || next.lock())
    };
    wait_until("the second is queued", SOON, || {
        children(&format!("{chroot}/a/lock")).len() == 2
    });
    lock.unlock().unwrap();
    waiting.result("the waiter below the chroot").unwrap();
    next.unlock().unwrap();
    let missing = DistributedLock::new(&first, "/zoolock-test").unwrap();
    missing.lock().unwrap();
    assert_eq!(children(&chroot), ["a", "zoolock-test"]);
    missing.unlock().unwrap();
}

/// For clients with a session timeout of a minute: sooner than what they do without being asked,
/// which is noticing a silence and coming back to what could not be deleted, after 20 s.
const PROMPT: Duration = Duration::from_secs(10);

/// A client that can reach the server by two ways, and the proxy of the one that it has taken.
/// That one takes no new connections: once it is cut, the client comes back by the other, and its
/// old session cannot be ended before it expires, in a minute.
fn client_of_two_ways() -> (FaultProxy, FaultProxy, Client) {
    let [first, second] = [shared_proxy(), shared_proxy()];
    let hosts = [&first, &second].map(FaultProxy::connect_string).join(",");
    let client = client_of(&hosts, Duration::from_secs(60));
    // Handshakes have ended by then.
    let mut open = [0; 2];
    wait_until("one proxy is in use", SOON, || {
        open = [&first, &second].map(FaultProxy::open_connections);
        open.iter().sum::<usize>() == 1
    });
    let (own, other) = match open {
        [1, _] => (first, second),
        _ => (second, first),
    };
    own.refuse(true);
    (own, other, client)
}

#[test]
fn the_node_of_a_lost_answer_goes_though_its_session_lives_on() {
    let (own, _other, client) = client_of_two_ways();
    let path = fresh_path("lives-on");
    shared_probe().unwrap().create_all(&path).unwrap();
    let lost = own.on(Op::Create).path_contains(&path);
    let lost = lost.drop_answer(Then::Cut);
    let lock = DistributedLock::new(&client, &path).unwrap();
    let waiting = lock.clone();
    let locking = Task::spawn(move || waiting.lock());
    // The garbage list alone would come back to it after 20 s.
    let took = wait_until("it is locked", PROMPT, || locking.is_done());
    println!("locked after {took:?}, {:?}", client.stats());
    locking.result("lock()").unwrap();
    assert!(lost.fired(), "{:#?}", own.log());
    assert_eq!(children(&path), [lock.hold().unwrap().node()]);
    lock.unlock().unwrap();
}

#[test]
fn an_answer_that_belongs_to_another_create_is_not_believed() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(60));
    let paths = [fresh_path("mixed-up"), fresh_path("mixed-up")];
    let locks = paths.each_ref().map(|path| {
        shared_probe().unwrap().create_all(path).unwrap();
        DistributedLock::new(&client, path).unwrap()
    });
    // From here on the crate gives every answer to the request before.
    let lost = proxy.on(Op::Create).path_contains(&paths[0]);
    let lost = lost.drop_answer(Then::Continue);
    let locking = locks.each_ref().map(|lock| {
        let lock = lock.clone();
        let task = Task::spawn(move || lock.lock());
        assert!(lost.wait(SOON), "{:#?}", proxy.log());
        task
    });
    // Silence would be noticed after 20 s at the earliest.
    let took = wait_until("both are locked", PROMPT, || {
        locking.iter().all(Task::is_done)
    });
    println!("locked after {took:?}");
    for locking in locking {
        locking.result("lock()").unwrap();
    }
    for (lock, path) in locks.iter().zip(&paths) {
        let node = lock.hold().unwrap().node();
        wait_until("its node alone is there", SOON, || {
            children(path) == [node.as_str()]
        });
        lock.unlock().unwrap();
    }
    println!("{:?}", client.stats());
    assert_eq!(client.stats().connections, 2);
}
