//! Servers, callbacks and schedules with which attackers might break the client.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use zoolock_test_support::{Server, wait_until};
use zoolock_zookeeper::{
    Acl, CreateMode, ErrorKind, Listener, SessionEvent, SessionEventKind, State, WatchedEvent,
    Watcher, ZooKeeper,
};

use super::bytes::{event, greeting, header, xid};
use crate::util::fake_server::{Connection, FakeServer};
use crate::util::{
    self, BRIEFLY, CALLS, Events, SESSION, SHORT, SOON, builder, client_of, kind, root, said,
    shared_proxy,
};

const MINE: i64 = 0x1234;
const OTHER: i64 = 0x5678;
const NO_NODE: i32 = -101;
const NODE_CREATED: i32 = 1;

const EXISTS: i32 = 3;
const SYNC: i32 = 9;
const PING: i32 = 11;

/// Returns a server that treats all connections in this way.
fn fake_server(
    manner: impl Fn(&mut Connection) -> io::Result<()> + Send + Sync + 'static,
) -> FakeServer {
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    FakeServer::new(nobody, manner)
}

/// Answers the handshake with a session of this timeout.
fn greet(connection: &mut Connection, timeout: Duration) -> io::Result<()> {
    connection.frame()?;
    connection.send(&greeting(timeout.as_millis() as i32, MINE).0)
}

fn op(request: &[u8]) -> i32 {
    i32::from_be_bytes(request[4..8].try_into().unwrap())
}

/// Answers a request with this code, or a ping without an error.
fn answer(connection: &mut Connection, request: &[u8], code: i32) -> io::Result<()> {
    let code = if op(request) == PING { 0 } else { code };
    connection.send(&header(xid(request), code).0)
}

/// Answers requests as if no nodes existed, until `is_end` matches a request, which is not answered.
fn serve_until(connection: &mut Connection, is_end: impl Fn(i32) -> bool) -> io::Result<()> {
    loop {
        let request = connection.frame()?;
        if is_end(op(&request)) {
            return Ok(());
        }
        answer(connection, &request, NO_NODE)?;
    }
}

fn here() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

/// Returns a function that blocks, a receiver for the name of its thread, and a value whose drop unblocks it.
fn gate() -> (impl FnOnce() + Send + 'static, Receiver<String>, Sender<()>) {
    let ((enter, entered), (open, opened)) = (bounded(1), bounded::<()>(0));
    let hold = move || {
        enter.send(here()).unwrap();
        let _ = opened.recv();
    };
    (hold, entered, open)
}

/// Blocks the timer until the returned value is dropped. Deadlines are checked by no other thread.
#[track_caller]
fn hold_timer(client: &ZooKeeper) -> Sender<()> {
    let (hold, held, timer) = gate();
    client.call_at(Instant::now(), hold);
    assert_eq!(held.recv_timeout(SOON).unwrap(), "zookeeper-timer");
    timer
}

#[test]
fn callback_that_submits_to_a_gone_server_frees_the_reader() {
    // So long that the timer sends no ping, which would help.
    const LONG: Duration = Duration::from_secs(600);
    let (say, left) = bounded(1);
    let fake_server = fake_server(move |connection| {
        greet(connection, LONG)?;
        if connection.number > 0 {
            return serve_until(connection, |_| false);
        }
        let request = connection.frame()?;
        answer(connection, &request, NO_NODE)?;
        connection.send(&event(NODE_CREATED, b"/a").0)?;
        connection.leave()?;
        say.send(()).unwrap();
        Ok(())
    });
    let client = client_of(&fake_server.address(), LONG);
    let events = Events::of(&client);
    let (submitting, (say, submitted)) = (client.clone(), bounded(1));
    let watcher = Watcher::new(move |_: &WatchedEvent| {
        left.recv_timeout(SOON).unwrap();
        // The first request makes the server reset the connection, which one of the later requests detects.
        let all: Vec<_> =
            (0..100).map(|_| submitting.submit(|batch| batch.get_data("/a", None))).collect();
        let _ = say.send(all);
    });
    client.exists_w("/a", &watcher).unwrap();
    let submitted = submitted.recv_timeout(SOON).expect("submit returns");
    events.until(SessionEventKind::Resumed);
    for pending in submitted {
        let kind = kind(pending.wait());
        // Which error it is depends on the server that has received the request.
        assert!([ErrorKind::ConnectionLoss, ErrorKind::NoNode].contains(&kind), "{kind:?}");
    }
    assert_eq!(client.exists("/a").unwrap(), None);
    assert_eq!((client.session_id(), fake_server.connections()), (MINE, 2));
}

#[test]
fn late_handshake_answer_opens_no_session() {
    // A handshake may take a third of this time.
    const T: Duration = Duration::from_secs(9);
    let ((say_greeted, greeted), (say_given_up, given_up)) = (bounded(1), bounded(1));
    let fake_server = fake_server(move |connection| {
        greet(connection, T)?;
        match connection.number {
            0 => serve_until(connection, |op| op == SYNC),
            1 => {
                say_greeted.send(()).unwrap();
                let _ = connection.linger();
                say_given_up.send(()).unwrap();
                Ok(())
            }
            _ => serve_until(connection, |_| false),
        }
    });
    let client = client_of(&fake_server.address(), T);
    let events = Events::of(&client);
    let timer = hold_timer(&client);
    // The reader reports this event after the next handshake has been sent, and before it reads an answer.
    let (hold, held, reader) = gate();
    let (hold, (say, waiting)) = (Mutex::new(Some(hold)), bounded(1));
    let (other, waits) = (client.in_session(OTHER), client.clone());
    let listener = Listener::new(move |event: &SessionEvent| {
        if event.kind == SessionEventKind::Suspended
            && let Some(hold) = hold.lock().unwrap().take()
        {
            other.submit(|batch| batch.exists("/", None).on_done(move |_| hold()));
            say.send(waits.submit(|batch| batch.exists("/", None))).unwrap();
        }
    });
    client.subscribe(&listener);
    drop(client.submit(|batch| batch.sync("/")));
    let waiting = waiting.recv_timeout(SOON).unwrap();
    assert_eq!(held.recv_timeout(SOON).unwrap(), "zookeeper-reader");
    greeted.recv_timeout(SOON).unwrap();
    drop(timer);
    given_up.recv_timeout(SOON).unwrap();
    drop(reader);
    // The request has not been sent before a server was able to answer it.
    assert_eq!(waiting.wait().unwrap(), None);
    assert_eq!(events.kinds(), [SessionEventKind::Suspended, SessionEventKind::Resumed]);
    assert_eq!(fake_server.connections(), 3);
}

#[test]
fn idle_client_keeps_short_and_shortened_sessions() {
    let builder = Server::builder().tick(Duration::from_millis(200));
    let limits = builder.property("minSessionTimeout", "400").property("maxSessionTimeout", "2000");
    let server = limits.start().unwrap();
    for (asked, given) in [(30_000, 2000), (600, 600)] {
        let (asked, given) = (Duration::from_millis(asked), Duration::from_millis(given));
        let lives = |_| {
            let client = client_of(&server.connect_string(), asked);
            assert_eq!(client.session_timeout(), given);
            let (listener, events) = Listener::channel();
            client.subscribe(&listener);
            events.recv_timeout(given * 2) == Err(RecvTimeoutError::Timeout)
        };
        // On a busy machine, a session may be lost.
        assert!((0..10).any(lives), "it loses each session of {given:?}");
    }
}

#[test]
fn silent_server_leaves_time_to_connect_elsewhere() {
    const LONG: Duration = Duration::from_secs(30);
    let silent = fake_server(|connection| connection.linger());
    let good = fake_server(|connection| {
        greet(connection, SESSION)?;
        serve_until(connection, |_| false)
    });
    let servers = format!("{},{}", silent.address(), good.address());
    // Because the first server is chosen at random, repeat this until it is the silent one.
    while silent.connections() == 0 {
        drop(builder(&servers, LONG).connect_timeout(LONG / 3).connect().unwrap());
    }
}

#[test]
fn forbidden_call_in_a_callback_is_not_sent() {
    let (say, asked) = unbounded();
    let fake_server = fake_server(move |connection| {
        greet(connection, SESSION)?;
        serve_until(connection, |op| {
            say.send(op).unwrap();
            false
        })
    });
    let client = client_of(&fake_server.address(), SESSION);
    let (calling, (say, refused)) = (client.clone(), unbounded());
    let call = move || {
        let mut results = CALLS.map(|call| call(&calling, "/a")).to_vec();
        results.push(calling.create_all("/a/b", &Acl::open(), CreateMode::Persistent));
        results.push(calling.add_auth("digest", b"a:b"));
        results.push(calling.renew_lease().map(drop));
        say.send((here(), results)).unwrap();
    };
    client.call_at(Instant::now(), call.clone());
    // The callback is set before the request is sent, so no answer can have arrived yet.
    client.submit(|batch| batch.exists("/", None).on_done(move |_| call()));
    let refused = [(); 2].map(|()| refused.recv_timeout(SOON).unwrap());
    let mut threads = refused.each_ref().map(|(thread, _)| &**thread);
    threads.sort_unstable();
    assert_eq!(threads, ["zookeeper-reader", "zookeeper-timer"]);
    for result in refused.into_iter().flat_map(|(_, results)| results) {
        assert_eq!(said(result).0, ErrorKind::WouldBlock);
    }
    client.exists("/").unwrap();
    assert_eq!(asked.try_iter().filter(|op| *op != PING).collect::<Vec<_>>(), [EXISTS, EXISTS]);
}

/// A value that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("dropped");
        }
    }
}

#[test]
fn callback_may_panic_on_drop_with_a_panicking_payload() {
    let (client, path) = (util::client(), root("bombs"));
    let events = Events::of(&client);
    // The callback is its own last owner, so its captured values are dropped after it has returned.
    let (say, called) = bounded(1);
    let (own, bomb) = (Arc::new(Mutex::new(None::<Watcher>)), Bomb);
    let last = Arc::clone(&own);
    let watcher = Watcher::new(move |_: &WatchedEvent| {
        let _captured = &bomb;
        drop(last.lock().unwrap().take());
        say.send(()).unwrap();
    });
    client.get_data_w(&path, &watcher).unwrap();
    *own.lock().unwrap() = Some(watcher);
    drop(own);
    client.set_data(&path, b"", None).unwrap();
    called.recv_timeout(SOON).unwrap();
    client.sync("/").expect("after a listener");
    client.submit(|batch| batch.exists("/", None)).on_done(|_| panic_any(Bomb));
    client.sync("/").expect("after an answer");
    assert_eq!((client.state(), client.counts().connections), (State::Connected, 1));
    assert!(events.kinds().is_empty());
}

#[test]
fn drop_of_the_client_does_not_wait_for_a_blocked_callback() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let events = Events::of(&client);
    let held = Arc::new(Mutex::new(()));
    let (wanted, (say, closed)) = (Arc::clone(&held), bounded(1));
    let listener = Listener::new(move |event: &SessionEvent| {
        if event.kind == SessionEventKind::Closed {
            drop(wanted.lock().unwrap());
            say.send(here()).unwrap();
        }
    });
    client.subscribe(&listener);
    // While it has no connection, a client does not need a server to close.
    proxy.cut_off();
    events.until(SessionEventKind::Suspended);
    let (say, dropped) = bounded(1);
    thread::spawn(move || {
        let _held = held.lock().unwrap();
        drop(client);
        let _ = say.send(());
    });
    dropped.recv_timeout(SHORT * 2).expect("the drop returns");
    let thread = closed.recv_timeout(SOON).expect("it is reported");
    assert!(thread.starts_with("zookeeper-"), "{thread}");
}

#[test]
fn wait_for_the_own_batch_returns() {
    let brief = util::client().with_timeout(BRIEFLY);
    let (say, said) = bounded(1);
    let begun = Instant::now();
    thread::spawn(move || say.send(brief.submit(|batch| batch.exists("/", None).wait())));
    // Up to a second after the deadline, plus any delay of a busy machine.
    let result = said.recv_timeout(BRIEFLY * 2 + SHORT).expect("it comes back");
    assert_eq!(kind(result), ErrorKind::Timeout);
    assert!(begun.elapsed() >= BRIEFLY);
}

#[test]
fn requests_of_a_panicked_batch_are_settled() {
    let client = util::client();
    let mut made = Vec::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        client.submit(|batch| {
            made.extend((0..2).map(|_| batch.exists("/", None)));
            panic!("while a batch is made");
        })
    }));
    assert!(panicked.is_err());
    assert!(made.iter().all(zoolock_zookeeper::Pending::is_done), "{made:?}");
    let (say, called) = bounded(1);
    made.pop().unwrap().on_done(move |result| say.send(kind(result)).unwrap());
    assert_eq!(called.try_recv(), Ok(ErrorKind::BadArguments));
    assert!(!made.pop().unwrap().wait().unwrap_err().is_maybe_done());
    client.exists("/").expect("the client goes on");
}

#[test]
fn end_of_a_kept_lease_is_reported_despite_a_quick_renewal() {
    const T: Duration = Duration::from_secs(2);
    let fake_server = fake_server(|connection| {
        greet(connection, T)?;
        serve_until(connection, |_| false)
    });
    let client = client_of(&fake_server.address(), T);
    let (events, keeper) = (Events::of(&client), client.keep_lease());
    // Blocking the timer resembles a process that was stopped and whose reader continues first.
    let timer = hold_timer(&client);
    let lease = client.lease();
    wait_until("the lease has run out", SOON, || Instant::now() > lease.end);
    wait_until("it is renewed", SOON, || {
        client.submit(|batch| batch.renew_lease()).wait().unwrap();
        !events.kinds().is_empty() || client.lease().term > lease.term
    });
    // The reader reports the end of the lease before it delivers the next answer.
    client.submit(|batch| batch.renew_lease()).wait().unwrap();
    assert_eq!(events.kinds(), [SessionEventKind::LeaseEnded, SessionEventKind::LeaseRenewed]);
    assert_eq!(client.lease().term, lease.term + 1);
    drop((timer, keeper));
}
