//! What many tests need: clients, and looking at what is really on the server.

use std::env;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::Client;
use zoolock::crossbeam_channel::{Receiver, bounded};
use zoolock_test_support::{FaultProxy, connect_string, shared_probe};

/// The session timeout of most tests: long enough that a busy machine does not end a session.
pub(crate) const SESSION: Duration = Duration::from_secs(10);

/// The longest that anything should take that is not expected to take any time.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A client of the shared server.
pub(crate) fn client() -> Client {
    client_of(&connect_string(), SESSION)
}

/// A client of some server or proxy.
pub(crate) fn client_of(hosts: &str, session_timeout: Duration) -> Client {
    Client::connect(hosts, session_timeout).expect("connect")
}

/// The children of a node of the shared server, sorted; none if it does not exist.
pub(crate) fn children(path: &str) -> Vec<String> {
    let probe = shared_probe().expect("probe");
    let mut children = match probe.exists(path).expect("exists") {
        true => probe.children(path).expect("children"),
        false => Vec::new(),
    };
    children.sort();
    children
}

/// The address of the shared server, or of the first one of `ZOOKEEPER_CONNECT`.
pub(crate) fn shared_address() -> SocketAddr {
    let servers = connect_string();
    let first = servers.split([',', '/']).next().unwrap_or_default();
    let mut addresses = first.to_socket_addrs().expect("resolve");
    addresses.next().expect("an address")
}

/// A proxy of one's own before the shared server.
pub(crate) fn shared_proxy() -> FaultProxy {
    FaultProxy::start(shared_address()).expect("proxy")
}

/// The `zookeeper` crate closes its end of a connection that is older than this at the first cut,
/// without a word to the server, whose session then lives on: it counts whole seconds without a
/// ping of its own.
pub(crate) fn old_age(session_timeout: Duration) -> Duration {
    session_timeout + Duration::from_millis(1100)
}

/// A call on a thread of its own, which may block.
pub(crate) struct Task<R>(Receiver<R>);

impl<R: Send + 'static> Task<R> {
    pub(crate) fn spawn(call: impl FnOnce() -> R + Send + 'static) -> Task<R> {
        let (sender, result) = bounded(1);
        thread::spawn(move || {
            let _ = sender.send(call());
        });
        Task(result)
    }

    pub(crate) fn is_done(&self) -> bool {
        !self.0.is_empty()
    }

    /// What the call returned; waits for it.
    pub(crate) fn result(&self, what: &str) -> R {
        match self.0.recv_timeout(SOON) {
            Ok(result) => result,
            Err(error) => panic!("{what}: no result within {SOON:?} ({error})"),
        }
    }
}

/// Counts who is inside at once, without the help of any lock. What it guards is a counter that
/// is read and written in two steps, so that it comes out too small if two are inside.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    inside: AtomicU32,
    most: AtomicU32,
    counter: AtomicU32,
}

impl Witness {
    /// Does the work inside.
    pub(crate) fn visit(&self, work: impl FnOnce()) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        let counter = self.counter.load(Ordering::SeqCst);
        work();
        self.counter.store(counter + 1, Ordering::SeqCst);
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// Never two inside, and this many visits in all.
    #[track_caller]
    pub(crate) fn saw(&self, visits: u32) {
        let most = self.most.load(Ordering::SeqCst);
        let counter = self.counter.load(Ordering::SeqCst);
        assert_eq!((most, counter), (1, visits), "most inside at once, visits");
    }
}

static LOGGER: Logger = Logger(Mutex::new(Vec::new()));

struct Logger(Mutex<Vec<String>>);

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("zoolock")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("{} {}", record.level(), record.args());
            self.0.lock().expect("log").push(line);
        }
    }

    fn flush(&self) {}
}

/// The library's warnings and errors since the first call, as far as they name `about`: call it
/// once before what is to be logged.
pub(crate) fn warnings(about: &str) -> Vec<String> {
    static SET_UP: Once = Once::new();
    SET_UP.call_once(|| {
        log::set_logger(&LOGGER).expect("no other logger");
        log::set_max_level(log::LevelFilter::Warn);
    });
    let lines = LOGGER.0.lock().expect("log");
    let about = lines.iter().filter(|line| line.contains(about));
    about.cloned().collect()
}

/// Makes a call that has promised to return within `limit`. What a thread that only sleeps came
/// too late meanwhile is the machine's fault and not counted.
#[track_caller]
pub(crate) fn in_time<R: std::fmt::Debug>(
    what: &str,
    limit: Duration,
    call: impl FnOnce() -> R,
) -> R {
    const NAP: Duration = Duration::from_millis(10);
    /// Also when the call panics, or the sleeper would never end.
    struct SetAtEnd<'a>(&'a AtomicBool);
    impl Drop for SetAtEnd<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let over = AtomicBool::new(false);
    let (result, took, late) = thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut late = Duration::ZERO;
            while !over.load(Ordering::SeqCst) {
                let begun = Instant::now();
                thread::sleep(NAP);
                late += begun.elapsed().saturating_sub(NAP);
            }
            late
        });
        let at_end = SetAtEnd(&over);
        let begun = Instant::now();
        let result = call();
        let took = begun.elapsed();
        drop(at_end);
        (result, took, sleeper.join().expect("only sleeps"))
    });
    println!("{what}: {result:?} after {took:?}, the machine was late by {late:?}");
    assert!(
        took < limit + late,
        "{what}: {result:?} after {took:?} (late by {late:?})"
    );
    result
}

/// Runs one test again in a process of its own, with a variable set by which it knows, and
/// returns what it said.
#[track_caller]
pub(crate) fn run_again(test: &str, variable: &str, value: &str) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(variable, value)
        .env("ZOOKEEPER_CONNECT", connect_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    said
}
