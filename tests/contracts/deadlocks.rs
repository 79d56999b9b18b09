//! Deadlocks: threads that wait for each other, of one client or several. `Client::deadlocks_below` finds them, and a
//! waiting call its own.

use std::env;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use zoolock::{
    Client, ClientBuilder, Deadlock, DistributedLock, DistributedReentrantLock, DistributedRwLock,
    EphemeralLock, Error, Lock, MultiLock, Result,
};
use zoolock_test_support::{connect_string, fresh_path, wait_until};

use common::{Beside, SOON, Task, alone, client, connected, lock_of, quiet_server};

/// Takes the lock `has`, meets the others, and waits for `wants`.
fn member(client: &Client, barrier: &Arc<Barrier>, has: &str, wants: &str) -> Task<Result<()>> {
    let [has, wants] = [has, wants].map(|path| lock_of(client, path));
    let barrier = Arc::clone(barrier);
    Task::spawn(move || {
        has.lock()?;
        barrier.wait();
        let waited = wants.lock().and_then(|()| wants.unlock());
        has.unlock()?;
        waited
    })
}

#[test]
fn circle_of_three_clients_is_found_until_one_gives_up() {
    let (root, clients) = (fresh_path("deadlock"), [(); 3].map(|()| client()));
    let path = |index: usize| format!("{root}/{}", index % 3);
    let barrier = Arc::new(Barrier::new(3));
    let members: Vec<_> = clients
        .iter()
        .enumerate()
        .map(|(index, client)| member(client, &barrier, &path(index), &path(index + 1)))
        .collect();
    let observer = client();
    wait_until("all three are in the circle", SOON, || {
        let found = observer.deadlocks_below(&root).unwrap();
        found.iter().any(|deadlock| deadlock.waits.len() == 3)
    });
    let found = observer.deadlocks_below(&root).unwrap();
    println!("{found:#?}");
    assert_eq!(found.len(), 1);
    let waits = &found[0].waits;
    for ((waiting, ahead), (next, _)) in waits.iter().zip(waits.iter().cycle().skip(1)) {
        assert!(!waiting.holds && ahead.holds && waiting.path == ahead.path);
        assert_eq!((ahead.session, &ahead.identity), (next.session, &next.identity));
    }
    clients[0].cancel_waiters();
    let ends: Vec<_> = members.iter().map(|member| member.result("a member")).collect();
    assert!(ends[0].as_ref().is_err_and(|error| error.is_cancelled()), "{ends:?}");
    assert!(ends[1].is_ok() && ends[2].is_ok(), "{ends:?}");
    assert_eq!(observer.deadlocks_below(&root).unwrap(), []);
}

#[test]
fn chains_and_several_locks_at_once_are_no_deadlock() {
    let (root, clients) = (fresh_path("chain"), [(); 3].map(|()| client()));
    let path = |name: &str| format!("{root}/{name}");
    let barrier = Arc::new(Barrier::new(3));
    // The first waits for the second, which waits for the third.
    let members = [("a", "b"), ("b", "c")].map(|(has, wants)| {
        member(&clients[usize::from(has == "b")], &barrier, &path(has), &path(wants))
    });
    let last = lock_of(&clients[2], &path("c"));
    last.lock().unwrap();
    barrier.wait();
    // Users of several locks take them in one order.
    let both = ["a", "b"].map(|name| lock_of(&clients[2], &path(name)).into());
    let both = MultiLock::new(both).unwrap();
    let waiting = Task::spawn(move || both.lock().and_then(|()| both.unlock()));
    let waits = |client: &Client| client.stats().waiting == 1;
    wait_until("all of them wait", SOON, || clients.iter().all(waits));
    assert_eq!(clients[0].deadlocks_below(&root).unwrap(), []);
    last.unlock().unwrap();
    members.iter().for_each(|member| member.result("a member").unwrap());
    waiting.result("a call for both").unwrap();
}

/// Settings of a client whose calls look for deadlocks soon, and end them.
fn breaking() -> ClientBuilder {
    let builder = Client::builder(&connect_string());
    builder.deadlock_check(Duration::from_millis(200)).fail_on_deadlock(true)
}

fn breaker() -> Client {
    connected(breaking().identity("the same"))
}

/// Makes a lock of each kind that excludes all others.
type Make = fn(&Client, &str) -> Result<Box<dyn Lock>>;

const KINDS: [Make; 4] = [
    |client, path| Ok(Box::new(DistributedLock::new(client, path)?)),
    |client, path| Ok(Box::new(DistributedReentrantLock::new(client, path)?)),
    |client, path| Ok(Box::new(DistributedRwLock::new(client, path)?.write_lock())),
    |client, path| Ok(Box::new(EphemeralLock::new(client, path)?)),
];

/// One thread of a circle: takes its lock when all before have theirs, and waits for the next
/// thread's when all before wait.
fn circle(threads: &[&Client], make: impl Fn(usize) -> Make) -> Vec<Result<()>> {
    let (root, count) = (fresh_path("circle"), threads.len());
    let [has, waits] = [(); 2].map(|()| Arc::new(Barrier::new(count)));
    let members: Vec<_> = (0..count)
        .map(|index| {
            let lock =
                |at: usize| make(at % count)(threads[index], &format!("{root}/{}", at % count));
            let (own, next) = (lock(index).unwrap(), lock(index + 1).unwrap());
            let [has, waits] = [&has, &waits].map(Arc::clone);
            Task::spawn(move || {
                own.lock()?;
                has.wait();
                waits.wait();
                let waited = next.lock().and_then(|()| next.unlock());
                own.unlock()?;
                waited
            })
        })
        .collect();
    members.iter().map(|member| member.result("a member of a circle")).collect()
}

fn deadlock(end: &Result<()>) -> Option<&Deadlock> {
    match end {
        Err(Error::Deadlock { deadlock, .. }) => Some(deadlock),
        end => {
            assert!(end.is_ok(), "{end:?}");
            None
        }
    }
}

/// Checks that exactly one call was ended, with the whole circle.
fn is_broken_once(ends: &[Result<()>]) {
    let ended: Vec<_> = ends.iter().filter_map(deadlock).collect();
    assert_eq!(ended.len(), 1, "{ends:?}");
    println!("{}", ended[0]);
    let waits = &ended[0].waits;
    assert_eq!(waits.len(), ends.len());
    for ((waiting, ahead), (next, _)) in waits.iter().zip(waits.iter().cycle().skip(1)) {
        assert!(!waiting.holds && ahead.holds && waiting.path == ahead.path);
        assert!(next.holding.iter().any(|node| node.starts_with(&ahead.path)), "{next:?}");
    }
}

#[test]
fn youngest_of_three_machines_is_let_go() {
    for kind in &KINDS[..3] {
        let clients = [(); 3].map(|()| breaker());
        is_broken_once(&circle(&clients.each_ref(), |_| *kind));
    }
}

/// Marks the process of a member. Its value is the number of the member, and the path of all locks.
const MEMBER: &str = "ZOOLOCK_TEST_MEMBER";

#[test]
fn youngest_of_three_processes_is_let_go() {
    const NAME: &str = "deadlocks::youngest_of_three_processes_is_let_go";
    if let Ok(member) = env::var(MEMBER) {
        let (number, root) = member.split_at(1);
        return be_member(number.parse().unwrap(), root);
    }
    let root = fresh_path("processes");
    let start = |number: usize| Beside::start(alone(NAME, MEMBER, &format!("{number}{root}")));
    let mut members: Vec<_> = (0..3).map(start).collect();
    let ends: Vec<_> = members.iter().map(|member| member.says("member: ")).collect();
    println!("{ends:#?}");
    assert!(members.iter_mut().all(|member| member.code() == Some(0)));
    let (ended, others): (Vec<_>, Vec<_>) = ends.iter().partition(|end| *end != "has both");
    assert_eq!((ended.len(), others.len()), (1, 2));
    // Each process is named as one that waits, and as one that is waited for.
    let times = |member: &Beside| ended[0].matches(&format!("/{}/", member.id())).count();
    assert!(members.iter().all(|member| times(member) == 2), "{ended:?}");
}

fn be_member(number: usize, root: &str) {
    let client = connected(breaking());
    let path = |number: usize| format!("{root}/{}", number % 3);
    let (own, next) = (lock_of(&client, &path(number)), lock_of(&client, &path(number + 1)));
    own.lock().unwrap();
    let is_held = |number: usize| !client.contenders(&path(number)).unwrap().is_empty();
    wait_until("all three have one", SOON, || (0..3).all(is_held));
    match next.lock() {
        Ok(()) => {
            println!("member: has both");
            next.unlock().unwrap();
        }
        Err(error) => println!("member: {error}"),
    }
    own.unlock().unwrap();
}

#[test]
fn circle_within_a_process_is_broken() {
    for kind in KINDS {
        let client = breaker();
        is_broken_once(&circle(&[&client, &client], |_| kind));
        is_broken_once(&circle(&[&client; 3], |_| kind));
    }
}

#[test]
fn circle_that_passes_through_threads_of_one_process_is_broken() {
    // The first waits in its process for the second, the second for the other machine. Two of them must not wait for an
    // `EphemeralLock`: they would show nowhere but in their own processes.
    let [one, other] = [(); 2].map(|()| breaker());
    for kind in &KINDS[..3] {
        is_broken_once(&circle(&[&one, &one, &other], |_| *kind));
    }
}

#[test]
fn circle_of_different_kinds_is_broken() {
    let [one, other] = [(); 2].map(|()| breaker());
    for (first, second) in [(0, 1), (0, 3), (2, 3)] {
        is_broken_once(&circle(&[&one, &other], |at| KINDS[[first, second][at]]));
    }
}

#[test]
fn threads_with_the_same_identity_are_told_apart() {
    let (root, clients) = (fresh_path("same"), [(); 2].map(|()| breaker()));
    let [a, b] = [0, 1].map(|name| format!("{root}/{name}"));
    let (held, waiting) = (lock_of(&clients[0], &a), lock_of(&clients[0], &b));
    let ahead = lock_of(&clients[1], &b);
    ahead.lock().unwrap();
    // This thread holds one and waits for the other, whose owner waits for nothing.
    let first = Task::spawn(move || {
        held.lock()?;
        waiting.lock().and_then(|()| waiting.unlock())?;
        held.unlock()
    });
    let observer = client();
    let tells = || observer.contenders(&b).unwrap().iter().any(|one| !one.holding.is_empty());
    wait_until("the waiting node says what its thread holds", SOON, tells);
    // Another thread of that owner's client waits for this thread.
    let other = lock_of(&clients[1], &a);
    let second = Task::spawn(move || other.lock().and_then(|()| other.unlock()));
    wait_until("both wait", SOON, || observer.contenders(&a).unwrap().len() == 2);
    assert_eq!(observer.deadlocks_below(&root).unwrap().len(), 1, "by identity, it looks like one");
    // Each look reads both locks: somebody waits for what the thread holds.
    let before = clients[0].stats().requests;
    wait_until("it has looked twice", SOON, || clients[0].stats().requests >= before + 8);
    ahead.unlock().unwrap();
    [first, second].iter().for_each(|one| one.result("a thread").unwrap());
}

#[test]
fn waiting_thread_that_holds_nothing_sends_nothing() {
    let (server, _) = quiet_server();
    let builder =
        Client::builder(&server.connect_string()).session_timeout(Duration::from_secs(60));
    let [one, other] = [(); 2].map(|()| {
        connected(builder.clone().deadlock_check(Duration::from_millis(10)).fail_on_deadlock(true))
    });
    let path = fresh_path("nothing");
    let (held, waiting) = (lock_of(&one, &path), lock_of(&other, &path));
    held.lock().unwrap();
    let waiting = Task::spawn(move || waiting.lock().and_then(|()| waiting.unlock()));
    wait_until("it waits", SOON, || one.contenders(&path).unwrap().len() == 2);
    // Its own node and the one ahead. It asks for nothing more.
    wait_until("it watches", SOON, || server.metric("zk_watch_count").unwrap() == 2);
    let (before, since) = (other.stats().requests, Instant::now());
    let is_over = || since.elapsed() > Duration::from_millis(300);
    wait_until("there was time for several looks", SOON, is_over);
    assert_eq!(other.stats().requests, before);
    assert!(!waiting.is_done());
    held.unlock().unwrap();
    waiting.result("the waiting thread").unwrap();
}
