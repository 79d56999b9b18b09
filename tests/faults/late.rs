//! Requests that arrive when things have changed, and what calls have lost before.

use std::time::{Duration, Instant};

use zoolock::{Client, ClientState, EphemeralLock, Error};
use zoolock_test_support::{
    Direction, FaultProxy, Op, Probe, Server, Then, connect_string, fresh_path, shared_probe,
    wait_until,
};

use common::{SOON, Task, await_resumed, children, client, client_of, lock_of, shared_proxy};

const LONG: Duration = Duration::from_secs(40);
const SHORT: Duration = Duration::from_secs(4);

/// What the late request writes to the next holder's node names the one before.
#[test]
fn late_revoke_of_a_single_node_has_the_next_holders_left_alone() {
    let (proxy, asking) = (shared_proxy(), shared_proxy());
    let (own, others) =
        (client_of(&proxy.connect_string(), LONG), client_of(&asking.connect_string(), LONG));
    let rivals = [(); 2].map(|()| client_of(&connect_string(), LONG));
    let path = fresh_path("late-request");
    let [first, next, third] =
        [&own, &rivals[0], &rivals[1]].map(|client| EphemeralLock::new(client, &path).unwrap());
    first.lock().unwrap();
    let contender = others.contenders(&path).unwrap().remove(0);
    let late = asking.on(Op::SetData).path_contains(&path).hold_request();
    let request = Task::spawn(move || others.revoke(&contender));
    assert!(late.wait(SOON), "{:#?}", asking.log());
    // The unlock is carried out, its answer is lost.
    proxy.refuse(true);
    let lost = proxy.drop_answer(Op::Delete, 1, Then::Cut);
    println!("unlock: {:?}", first.unlock());
    assert!(lost.fired());
    assert!(next.try_lock().unwrap());
    late.release();
    let revoked = request.result("revoke()");
    assert!(matches!(revoked, Err(Error::NotHeld { .. })), "{revoked:?}");
    proxy.refuse(false);
    await_resumed(&own, 1);
    wait_until("nothing is on its way", SOON, || own.stats().deleting == 0);
    let also = third.try_lock().unwrap();
    println!("next {:?}, third {:?}", next.hold(), third.hold());
    assert!(!also && next.is_held(), "two hold it");
}

/// The node of a create without an answer says nothing of its maker any more. It is its session's all the same.
struct Nameless {
    proxy: FaultProxy,
    own: Client,
    path: String,
}

impl Nameless {
    /// Whatever the request is, `call` has no connection when it is written.
    fn start<T: Send + 'static>(
        is_late: bool,
        call: impl FnOnce(EphemeralLock) -> T + Send + 'static,
    ) -> (Nameless, Task<T>) {
        let (proxy, path) = (shared_proxy(), fresh_path("nameless"));
        let own = client_of(&proxy.connect_string(), LONG);
        let lock = EphemeralLock::new(&own, &path).unwrap();
        let write = is_late.then(|| late_request(&path));
        proxy.refuse(true);
        let lost = proxy.drop_answer(Op::Create, 1, Then::Cut);
        let call = Task::spawn(move || call(lock));
        assert!(lost.wait(SOON), "{:#?}", proxy.log());
        write_request(&path, write);
        (Nameless { proxy, own, path }, call)
    }

    fn resume(&self) {
        self.proxy.refuse(false);
        await_resumed(&self.own, 1);
    }
}

/// Sends a late request on, or writes a bare one.
fn write_request(path: &str, late: Option<impl FnOnce()>) {
    let probe = shared_probe().unwrap();
    match late {
        Some(write) => write(),
        None => drop(probe.set(path, b"__REVOKE__").unwrap()),
    }
    let (data, _) = probe.get(path).unwrap().expect("the node");
    println!("{:?}", String::from_utf8_lossy(&data));
}

/// Somebody has held the lock, and was asked to let go. Returns what sends the request on.
fn late_request(path: &str) -> impl FnOnce() + use<> {
    let asking = shared_proxy();
    let (holder, others) = (client(), client_of(&asking.connect_string(), LONG));
    let lock = EphemeralLock::new(&holder, path).unwrap();
    lock.lock().unwrap();
    let contender = others.contenders(path).unwrap().remove(0);
    let late = asking.on(Op::SetData).path_contains(path).hold_request();
    let request = Task::spawn(move || others.revoke(&contender));
    assert!(late.wait(SOON), "{:#?}", asking.log());
    lock.unlock().unwrap();
    move || {
        late.release();
        let revoked = request.result("revoke()");
        assert!(matches!(revoked, Err(Error::NotHeld { .. })), "{revoked:?}");
        drop((asking, holder));
    }
}

#[test]
fn request_to_a_single_node_without_an_answer_leaves_no_node_behind_a_call_that_has_ended() {
    for is_late in [true, false] {
        let (nameless, call) = Nameless::start(is_late, |lock| lock.try_lock());
        assert!(matches!(call.result("try_lock()"), Err(Error::Disconnected { .. })));
        nameless.resume();
        let next = EphemeralLock::new(&client(), &nameless.path).unwrap();
        let is_free = next.try_lock_for(SOON).unwrap();
        println!("{:?}, late: {is_late}, then free: {is_free}", nameless.own.stats());
        assert!(is_free, "it is in the way of everybody");
    }
}

/// The search has found it by what it says, and is about to see whether it is still there.
#[test]
fn request_to_a_single_node_that_was_found_does_not_keep_it_from_its_deletion() {
    for is_late in [true, false] {
        let (proxy, path) = (shared_proxy(), fresh_path("found"));
        let own = client_of(&proxy.connect_string(), LONG);
        let lock = EphemeralLock::new(&own, &path).unwrap();
        let write = is_late.then(|| late_request(&path));
        proxy.refuse(true);
        let lost = proxy.drop_answer(Op::Create, 1, Then::Cut);
        assert!(matches!(lock.try_lock(), Err(Error::Disconnected { .. })));
        assert!(lost.fired());
        let look = proxy.on(Op::GetData).path_contains(&path).nth(2).hold_request();
        proxy.refuse(false);
        assert!(look.wait(SOON), "{:#?}", proxy.log());
        write_request(&path, write);
        look.release();
        let next = EphemeralLock::new(&client(), &path).unwrap();
        let is_free = next.try_lock_for(SOON).unwrap();
        println!("{:?}, late: {is_late}, then free: {is_free}", own.stats());
        assert!(is_free, "it is in the way of everybody");
    }
}

#[test]
fn request_to_a_single_node_without_an_answer_does_not_have_its_own_call_wait_for_it() {
    for is_late in [true, false] {
        let (nameless, call) = Nameless::start(is_late, |lock| lock.try_lock_for(SOON));
        nameless.resume();
        let is_held = call.result("try_lock_for()").unwrap();
        println!("{:?}, late: {is_late}, then held: {is_held}", nameless.own.stats());
        assert!(is_held, "it waits for itself");
    }
}

#[test]
fn request_to_a_holder_does_not_have_its_node_taken_for_that_of_a_lost_create() {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), SHORT);
    let path = fresh_path("not-nameless");
    let [lost, held] = [(); 2].map(|()| EphemeralLock::new(&own, &path).unwrap());
    let never_comes = proxy.drop_request(Op::Create, 1, Then::Cut);
    assert!(matches!(lost.try_lock(), Err(Error::Disconnected { .. })));
    assert!(never_comes.fired());
    held.lock().unwrap();
    shared_probe().unwrap().set(&path, b"__REVOKE__").unwrap();
    assert_eq!(own.stats().deleting, 1, "it is too late for this test");
    wait_until("the lost one is not looked for any more", SOON, || own.stats().deleting == 0);
    // Behind a deletion.
    let stays = shared_probe().unwrap().exists(&path).unwrap();
    println!("{:?}, its node stays: {stays}", held.hold());
    assert!(stays && held.is_held());
    held.unlock().unwrap();
}

#[test]
fn create_that_was_lost_in_the_session_before_does_not_hold_up_the_next() {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), LONG);
    let [lock, other] = ["lost-before", "other"].map(|name| lock_of(&own, &fresh_path(name)));
    for lock in [&lock, &other] {
        lock.acquire().unwrap().release().unwrap();
    }
    proxy.refuse(true);
    let lost = proxy.drop_answer(Op::Create, 1, Then::Cut);
    let waiting = lock.clone();
    let call = Task::spawn(move || waiting.lock());
    assert!(lost.wait(SOON), "{:#?}", proxy.log());
    wait_until("it is suspended", SOON, || own.state() == ClientState::Suspended);
    proxy.expire_sessions().unwrap();
    // The call ends between the two sessions.
    let connecting = proxy.on(Op::Connect).nth(2).hold_answer();
    proxy.refuse(false);
    assert!(connecting.wait(SOON), "{:#?}", proxy.log());
    lock.cancel_waiters();
    assert!(matches!(call.result("lock()"), Err(Error::Cancelled { .. })));
    connecting.release();
    wait_until("it is connected", SOON, || own.state() == ClientState::Connected);
    // A third of the session timeout, which is less than orphans are waited for.
    assert!(other.try_lock().unwrap(), "{:?}", own.stats());
    assert_eq!(own.stats().deleting, 0);
}

#[test]
fn lost_creates_of_calls_that_go_on_waiting_are_given_back_to_the_quota() {
    const WAITING: usize = 100;
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), SHORT);
    let deep = |name| format!("{}{}", fresh_path(name), format!("/{}", "a".repeat(200)).repeat(19));
    let (path, beside) = (deep("charged"), deep("beside"));
    let rival = client();
    let held = lock_of(&rival, &path);
    held.lock().unwrap();
    let before = own.stats().requests;
    proxy.black_hole(Direction::ToServer);
    let wait = |_| {
        let lock = lock_of(&own, &path);
        Task::spawn(move || lock.lock().and_then(|()| lock.unlock()))
    };
    let calls: Vec<_> = (0..WAITING).map(wait).collect();
    // A create and a list each.
    wait_until("all are sent", SOON, || own.stats().requests >= before + 2 * WAITING as u64);
    proxy.restore();
    proxy.cut();
    wait_until("all wait with another node", SOON, || children(&path).len() == WAITING + 1);
    // There is room for 225 at such paths.
    let more: Vec<_> =
        (0..100).map(|number| lock_of(&own, &format!("{beside}/{number}"))).collect();
    let is_limit = |seen: &Result<bool, Error>| matches!(seen, Err(Error::Limit { .. }));
    let all = || more.iter().map(|lock| lock.try_lock()).collect::<Vec<_>>();
    let first = all();
    println!("{} of 100 more are refused", first.iter().filter(|seen| is_limit(seen)).count());
    assert!(first.iter().any(is_limit), "this is no test");
    more.iter().for_each(|lock| drop(lock.unlock()));
    wait_until("all have room", SOON, || {
        let is_room = all().iter().all(|seen| matches!(seen, Ok(true)));
        more.iter().for_each(|lock| drop(lock.unlock()));
        is_room
    });
    held.unlock().unwrap();
    for call in calls {
        call.result("a call").unwrap();
    }
}

#[test]
fn those_who_wait_do_not_look_together_behind_an_outage() {
    const WAITING: usize = 300;
    let looks = (0..5).find_map(|_| looks_behind_an_outage(WAITING));
    let looks = looks.expect("the machine is in time once");
    assert!(looks < WAITING as u64 / 2, "{looks} of {WAITING} look at once");
}

/// How many of those who wait look in the session timeout behind an outage in which each had its time to look. Those
/// whose next time comes then are a quarter of them. `None` if the machine was too late to see that.
fn looks_behind_an_outage(waiting: usize) -> Option<u64> {
    let server = Server::start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let own = client_of(&proxy.connect_string(), SHORT);
    let probe = Probe::connect(server.address()).unwrap();
    probe.create_all("/crowd/lock-0000000000").unwrap();
    let wait = |_| {
        let lock = lock_of(&own, "/crowd");
        (lock.clone(), Task::spawn(move || lock.lock()))
    };
    let calls: Vec<_> = (0..waiting).map(wait).collect();
    // A look ends with reads: of the own node and of the two ahead. The first one has only one ahead.
    let reads = 3 * waiting as u64 - 1;
    wait_until("all have sent their first look", SOON, || proxy.requests(Op::GetData) == reads);
    // Answered behind those: whoever still waits for an answer in the outage has to ask again behind it.
    own.contenders("/other").unwrap();
    proxy.refuse(true);
    server.stop().unwrap();
    let begun = Instant::now();
    wait_until("all had to look", SOON, || begun.elapsed() > 9 * SHORT / 2);
    server.start_again().unwrap();
    let (before, begun) = (proxy.requests(Op::GetChildren), Instant::now());
    proxy.refuse(false);
    wait_until("it is connected", SOON, || own.state() == ClientState::Connected);
    let other = lock_of(&own, "/other");
    // Behind what they have sent.
    for _ in 0..3 {
        other.acquire().unwrap().release().unwrap();
    }
    let (looks, took) = (proxy.requests(Op::GetChildren) - before, begun.elapsed());
    println!("{looks} looks in {took:?} behind the outage, {:?}", own.stats());
    calls.iter().for_each(|(lock, _)| lock.cancel_waiters());
    calls.into_iter().for_each(|(_, call)| drop(call.result("a call")));
    (took < SHORT && own.stats().sessions == 1).then_some(looks)
}
