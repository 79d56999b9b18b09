//! A loop that works while a lock is held, and stops when it is lost or another client requests it.
//!
//! ```text
//! cargo run --example react_to_loss
//! ```
//!
//! [`work`] is the part to copy. The rest is a worker and a successor, each with its own client.
//! The worker's client connects through a proxy. First the proxy cuts the connection: the client
//! resumes its session on another connection, and the hold continues. Then the proxy drops all
//! packets silently: the lease runs out, and the worker stops. Only after that does the server
//! grant the lock to the successor, which works until a client requests the lock. The program
//! checks that the two never worked at the same time.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::error::Error;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{Receiver, select, tick};
use zoolock::{Client, DistributedLock, Hold};
use zoolock_test_support::{Direction, FaultProxy, wait_until};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PATH: &str = "/zoolock-examples/react-to-loss";
/// ZooKeeper's minimum at its default `tickTime` of 2 s.
const SESSION: Duration = Duration::from_secs(4);
const SOON: Duration = Duration::from_secs(60);

/// The reason for the end of the work.
#[derive(Debug, PartialEq)]
enum Ended {
    Done,
    Asked,
    Lost,
}

/// Works step by step while the lock is held.
fn work(hold: &Hold, jobs: &Receiver<Instant>, mut step: impl FnMut()) -> Outcome<Ended> {
    let asked = hold.revocation()?;
    loop {
        select! {
            recv(hold.ended()) -> _ => return Ok(Ended::Lost),
            recv(asked) -> request => match request {
                Ok(()) => return Ok(Ended::Asked),
                Err(_) => return Ok(Ended::Lost), // the channel ends with the hold
            },
            recv(jobs) -> job => match job {
                // `select!` picks any ready channel: the hold may also have been lost.
                Ok(_) if hold.is_held() => step(),
                Ok(_) => return Ok(Ended::Lost),
                Err(_) => return Ok(Ended::Done),
            },
        }
    }
}

/// Which of the two worked, and when, by one clock.
struct Shift {
    begun: Instant,
    ended: Instant,
    why: Ended,
}

type Shifting = JoinHandle<Outcome<Shift>>;

fn start(who: &'static str, lock: DistributedLock, steps: &Arc<AtomicU64>) -> Shifting {
    let steps = Arc::clone(steps);
    thread::spawn(move || {
        let guard = lock.acquire()?;
        let begun = Instant::now();
        println!("{who} begins");
        let jobs = tick(Duration::from_millis(100));
        let why = work(&guard, &jobs, || {
            steps.fetch_add(1, Ordering::SeqCst);
        })?;
        let ended = Instant::now();
        println!("{who} stops: {why:?}, {:?}", guard.state());
        match guard.release() {
            Err(error) if error.is_lost() && why == Ended::Lost => {}
            released => released?,
        }
        Ok(Shift { begun, ended, why })
    })
}

fn end(shifting: Shifting) -> Outcome<Shift> {
    wait_until("the shift ends", SOON, || shifting.is_finished());
    shifting.join().map_err(|_| "a worker panicked")?
}

fn run() -> Outcome<()> {
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let (hosts, chroot) = servers.split_at(servers.find('/').unwrap_or(servers.len()));
    let first = hosts.split(',').next().unwrap_or_default();
    let server = first.to_socket_addrs()?.next().ok_or("no address")?;
    let proxy = FaultProxy::start(server)?;

    let shaky = Client::connect(format!("{}{chroot}", proxy.connect_string()), SESSION)?;
    let steady = Client::connect(servers, SESSION)?;
    let steps = Arc::new(AtomicU64::new(0));
    let goes_on = |what: &str| {
        let enough = steps.load(Ordering::SeqCst) + 3;
        wait_until(what, SOON, || steps.load(Ordering::SeqCst) >= enough);
    };
    let worker = start("the worker", DistributedLock::new(&shaky, PATH)?, &steps);
    goes_on("the worker works");
    let successor = start("the successor", DistributedLock::new(&steady, PATH)?, &steps);
    wait_until("the successor waits", SOON, || {
        steady.contenders(PATH).is_ok_and(|all| all.len() == 2)
    });

    println!("the connection is cut");
    proxy.cut();
    wait_until("its session is resumed", SOON, || shaky.stats().resumed == 1);
    goes_on("the worker works on the next connection");

    println!("the network falls silent");
    proxy.black_hole(Direction::Both);
    let worker = end(worker)?;
    goes_on("the successor works");
    for contender in steady.contenders(PATH)? {
        steady.revoke(&contender)?;
    }
    let successor = end(successor)?;
    proxy.restore();

    if (&worker.why, &successor.why) != (&Ended::Lost, &Ended::Asked) {
        return Err("they stopped for other reasons than they should".into());
    }
    let Some(between) = successor.begun.checked_duration_since(worker.ended) else {
        return Err("both worked at the same time".into());
    };
    println!("the successor began {between:.0?} after the worker had stopped");
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("react_to_loss: {error}");
        std::process::exit(1);
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use zoolock::HoldState;
    use zoolock::crossbeam_channel::{Sender, bounded, unbounded};
    use zoolock::testing::Server;

    use super::*;

    /// A worker in a thread: it gets jobs, reports finished ones, and finally the reason for its
    /// end.
    struct Working {
        jobs: Option<Sender<Instant>>,
        done: Receiver<()>,
        ended: JoinHandle<Ended>,
    }

    fn working(hold: Hold) -> Working {
        let ((jobs, todo), (say, done)) = (unbounded(), bounded(1));
        let ended = thread::spawn(move || {
            work(&hold, &todo, || say.send(()).expect("somebody listens")).expect("work")
        });
        Working { jobs: Some(jobs), done, ended }
    }

    impl Working {
        fn does_a_job(&self) {
            let jobs = self.jobs.as_ref().expect("the worker still runs");
            jobs.send(Instant::now()).expect("it works");
            self.done.recv_timeout(SOON).expect("a job done");
        }

        fn end(self) -> Ended {
            self.ended.join().expect("no panic")
        }
    }

    fn set_up() -> (Server, Client, DistributedLock) {
        let server = Server::start().expect("a server");
        let client = server.client().expect("a client");
        let lock = DistributedLock::new(&client, PATH).expect("a good path");
        (server, client, lock)
    }

    #[test]
    fn work_stops_when_the_lock_is_lost() {
        let (server, client, lock) = set_up();
        let guard = lock.acquire().unwrap();
        let worker = working(guard.hold());
        worker.does_a_job();
        server.expire(&client);
        assert_eq!(worker.end(), Ended::Lost);
    }

    #[test]
    fn work_continues_through_a_suspension() {
        let (server, client, lock) = set_up();
        let guard = lock.acquire().unwrap();
        let mut worker = working(guard.hold());
        server.suspend(&client);
        assert_eq!(guard.state(), HoldState::Suspended);
        worker.does_a_job();
        server.resume(&client);
        worker.does_a_job();
        worker.jobs = None;
        assert_eq!(worker.end(), Ended::Done);
        guard.release().unwrap();
    }

    #[test]
    fn work_stops_on_a_revocation() {
        let (server, _client, lock) = set_up();
        let guard = lock.acquire().unwrap();
        let worker = working(guard.hold());
        worker.does_a_job();
        let other = server.client().unwrap();
        for holder in other.contenders(PATH).unwrap() {
            other.revoke(&holder).unwrap();
        }
        assert_eq!(worker.end(), Ended::Asked);
        guard.release().unwrap();
    }
}
