//! Useless connections: a handshake passes and renews the session at the server, but no request after it
//! succeeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock_test_support::{Server, fresh_path, shared_server, wait_until};

use common::relay::{Fate, Frame, GET_DATA, Relay, UNTOUCHED};
use common::{SOON, Task, children, client, client_of, lock_of};

const T: Duration = Duration::from_secs(4);

/// The failure after a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// No request reaches the server.
    Deaf,
    /// The server applies requests, but no answer returns.
    Mute,
    /// Every request fails with this code and has no effect.
    Refusing(i32),
    /// The same except for pings.
    RefusingAllButPings(i32),
}

const TROUBLES: [Trouble; 6] = [
    Trouble::Deaf,
    Trouble::Mute,
    // SystemError, ConnectionLoss, NoAuth.
    Trouble::Refusing(-1),
    Trouble::Refusing(-4),
    Trouble::Refusing(-102),
    Trouble::RefusingAllButPings(-4),
];

const PING: i32 = 11;

impl Trouble {
    /// The fate of a frame other than a handshake.
    fn fate(self, frame: &Frame<'_>) -> Fate {
        let is_ping = frame.op == Some(PING);
        match (self, frame.is_answer) {
            (Trouble::Deaf, false) | (Trouble::Mute, true) => Fate::Bytes(Vec::new()),
            (Trouble::RefusingAllButPings(_), _) if is_ping => UNTOUCHED,
            (Trouble::Refusing(_) | Trouble::RefusingAllButPings(_), false) if !is_ping => {
                Fate::Instead(look(&frame.body[..4]))
            }
            (Trouble::Refusing(code) | Trouble::RefusingAllButPings(code), true) => {
                let zxid = [0; 8];
                Fate::Instead([&frame.body[..4], &zxid, &code.to_be_bytes()].concat())
            }
            _ => UNTOUCHED,
        }
    }
}

/// A read without effect, with this number.
fn look(xid: &[u8]) -> Vec<u8> {
    let path = b"/";
    [xid, &GET_DATA.to_be_bytes(), &(path.len() as i32).to_be_bytes(), path, &[0]].concat()
}

/// A route to a server that fails from some moment on, and the handshakes that passed.
struct Way {
    relay: Relay,
    trouble: Arc<AtomicU8>,
    handshakes: Arc<AtomicU64>,
}

impl Way {
    fn to(server: &Server, later: Trouble) -> Way {
        let (trouble, handshakes) = (Arc::new(AtomicU8::new(0)), Arc::new(AtomicU64::new(0)));
        let (seen, count) = (Arc::clone(&trouble), Arc::clone(&handshakes));
        let relay = Relay::start(server.address(), move |frame| {
            // Handshakes have no number, and events do not matter.
            if frame.op.is_none() {
                count.fetch_add(u64::from(!frame.is_answer), Ordering::SeqCst);
                return UNTOUCHED;
            }
            let trouble = if seen.load(Ordering::SeqCst) == 0 { Trouble::None } else { later };
            trouble.fate(frame)
        });
        Way { relay, trouble, handshakes }
    }

    fn trouble(&self, is_there: bool) {
        self.trouble.store(is_there.into(), Ordering::SeqCst);
    }

    fn handshakes(&self) -> u64 {
        self.handshakes.load(Ordering::SeqCst)
    }
}

fn in_timeouts(time: Duration) -> f64 {
    time.as_secs_f64() / T.as_secs_f64()
}

/// A client with a lock meets the trouble on all its routes.
fn lets_the_next_one_in(trouble: Trouble, ways: usize) {
    let ways: Vec<Way> = (0..ways).map(|_| Way::to(shared_server(), trouble)).collect();
    let servers: Vec<String> = ways.iter().map(|way| way.relay.connect_string()).collect();
    let (own, other) = (client_of(&servers.join(","), T), client());
    let path = fresh_path("useless");
    let [held, next] = [&own, &other].map(|client| lock_of(client, &path));
    held.lock().unwrap();
    let waiting = Task::spawn({
        let next = next.clone();
        move || next.lock().map(|()| Instant::now())
    });
    wait_until("the next one waits", SOON, || children(&path).len() == 2);
    let handshakes = || ways.iter().map(Way::handshakes).sum::<u64>();
    let (begun, before) = (Instant::now(), handshakes());
    ways.iter().for_each(|way| way.trouble(true));
    let took = waiting.result("the next one").unwrap() - begun;
    assert!(!held.is_held());
    wait_until("two timeouts have passed", SOON, || begun.elapsed() > T * 2);
    let (later, early) = (Instant::now(), handshakes());
    wait_until("six timeouts have passed", SOON, || begun.elapsed() > T * 6);
    let (late, seconds) = (handshakes() - early, later.elapsed().as_secs_f64());
    println!(
        "{trouble:?} on {} ways: the next one has the lock after {:.2} T; {} handshakes in 2 T, then {:.0} a \
         minute; {:?}",
        ways.len(),
        in_timeouts(took),
        early - before,
        late as f64 / seconds * 60.0,
        own.stats(),
    );
    assert!(took < T * 3, "{trouble:?}: the next one has the lock after {took:?}");
    assert!(late as f64 <= seconds, "{trouble:?}: {late} handshakes in {seconds:.1} s");
    // The servers work again, for this client as well.
    assert!(held.unlock().is_err(), "what was lost is not released");
    ways.iter().for_each(|way| way.trouble(false));
    next.unlock().unwrap();
    let begun = Instant::now();
    assert!(held.try_lock_for(SOON).unwrap());
    println!("{trouble:?}: back {:.2} T after the trouble", in_timeouts(begun.elapsed()));
    held.unlock().unwrap();
}

#[test]
fn holder_served_only_handshakes_is_gone_in_three_timeouts() {
    thread::scope(|scope| {
        for trouble in TROUBLES {
            for ways in [1, 3] {
                scope.spawn(move || lets_the_next_one_in(trouble, ways));
            }
        }
    });
}
