//! Leaders that come and go: none twice, nothing left of them, and quickly.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{Receiver, Sender, unbounded};
use zoolock::{Client, Leadership, LockOptions, Term};
use zoolock_test_support::{FaultProxy, Probe, Server, fresh_path, wait_until};

use common::{SOON, client_of, quiet_server, run_again};

/// Tells the test that it is the process of its own; its value is the server's address.
const OWN_PROCESS: &str = "ZOOLOCK_TEST_LEADERS_OF";
const TERMS: u64 = 1000;
const CANDIDATES: usize = 4;
const SHORT: Duration = Duration::from_secs(5);

/// What all terms have in common.
struct Country {
    path: String,
    observer: Probe,
    terms: AtomicU64,
    /// The token of the last.
    last: Mutex<u64>,
}

impl Country {
    /// One term, which ends in one of the ways that there are.
    fn lead(&self, term: &Term, client: &Client, proxy: &FaultProxy) {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        assert!(term.token() > *last, "{} after {last}", term.token());
        *last = term.token();
        drop(last);
        let number = self.terms.fetch_add(1, Ordering::SeqCst);
        match number % 50 {
            10 => panic!("on purpose: leaders may"),
            20 => drop(proxy.expire_sessions().unwrap()),
            30 => proxy.cut(),
            _ if number % 10 == 1 => {
                let leads = client.contenders(&self.path).unwrap().into_iter().find(|c| c.holds);
                client.revoke(&leads.expect("this one")).unwrap();
            }
            _ if number % 10 == 2 => {
                self.observer.delete(&format!("{}/{}", self.path, term.node())).unwrap();
            }
            _ if number % 10 == 3 => drop(term.wait(Duration::from_millis(number % 5))),
            _ => return,
        }
        if number % 10 != 3 && number % 50 != 30 {
            assert!(term.wait(SOON), "term {number} is over");
        }
    }
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

fn run_terms(server: SocketAddr) {
    let before = threads();
    let country = Arc::new(Country {
        path: fresh_path("terms"),
        observer: Probe::connect(server).unwrap(),
        terms: AtomicU64::new(0),
        last: Mutex::new(0),
    });
    let begun = Instant::now();
    let candidates: Vec<_> = (0..CANDIDATES)
        .map(|_| {
            let proxy = Arc::new(FaultProxy::start(server).unwrap());
            let client = client_of(&proxy.connect_string(), SHORT);
            let (in_terms, of_client, of_proxy) =
                (Arc::clone(&country), client.clone(), Arc::clone(&proxy));
            let lead = move |term: &Term| in_terms.lead(term, &of_client, &of_proxy);
            let leadership = Leadership::new(&client, &country.path, LockOptions::new(), lead);
            (leadership.unwrap(), client, proxy)
        })
        .collect();
    let with_candidates = threads();
    wait_until("1000 terms", SOON * 2, || country.terms.load(Ordering::SeqCst) >= TERMS);
    let at_the_end = threads();
    for (leadership, _, _) in &candidates {
        assert!(leadership.health());
    }
    for (leadership, client, _) in candidates {
        leadership.shutdown();
        client.close().unwrap();
    }
    let terms = country.terms.load(Ordering::SeqCst);
    println!("{terms} terms in {:?}", begun.elapsed());
    let left = || country.observer.children(&country.path).unwrap();
    wait_until("no node is left", SOON, || left().is_empty());
    drop(country);
    wait_until("threads are as few as before", SOON, || threads() <= before);
    println!(
        "threads: {before}, {with_candidates} with candidates, {at_the_end} at the end; {} left",
        threads()
    );
}

#[test]
fn a_thousand_terms_that_end_in_every_way_leave_no_thread_and_no_node_behind() {
    const NAME: &str =
        "leadership::a_thousand_terms_that_end_in_every_way_leave_no_thread_and_no_node_behind";
    if let Ok(server) = env::var(OWN_PROCESS) {
        return run_terms(server.parse().unwrap());
    }
    let server = Server::start().unwrap();
    let left =
        || ["zk_watch_count", "zk_ephemerals_count"].map(|name| server.metric(name).unwrap());
    let said = run_again(NAME, OWN_PROCESS, &server.address().to_string());
    assert!(said.contains(" left"), "it did not run: {said}");
    wait_until("the server has no watch and no node of them", SOON, || left() == [0, 0]);
}

/// Somebody whose terms last until they have to end, and when each began.
fn stand(client: &Client, path: &str, begun: &Sender<Instant>) -> Leadership {
    let begun = begun.clone();
    let lead = move |term: &Term| {
        begun.send(Instant::now()).unwrap();
        assert!(term.wait(SOON), "it is over");
    };
    Leadership::new(client, path, LockOptions::new(), lead).unwrap()
}

fn began(begun: &Receiver<Instant>) -> Instant {
    begun.recv_timeout(SOON).expect("somebody leads")
}

/// The one that so many of a hundred are not above.
fn quantile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * percent).div_ceil(100) - 1]
}

#[test]
fn a_shutdown_hands_over_in_less_time_than_ten_writes_take() {
    const SHUTDOWNS: usize = 200;
    let (server, client) = quiet_server();
    let rival = client_of(&server.connect_string(), Duration::from_secs(60));
    let observer = Probe::connect(server.address()).unwrap();
    let path = fresh_path("handed-over");
    observer.create_all(&path).unwrap();
    let (sender, begun) = unbounded();
    let mut leader = stand(&client, &path, &sender);
    began(&begun);
    let (mut handed_over, mut writes) = (Vec::new(), Vec::new());
    let packets = || server.metric("zk_packets_received").unwrap();
    let mut requests = Vec::new();
    for number in 0..SHUTDOWNS {
        let next = stand([&rival, &client][number % 2], &path, &sender);
        let is_watched = || server.metric("zk_watch_count").unwrap() >= 3;
        wait_until("the next one stands by", SOON, || {
            observer.children(&path).unwrap().len() == 2 && is_watched()
        });
        let since = Instant::now();
        observer.set(&path, b"").unwrap();
        writes.push(since.elapsed());
        let before = packets();
        let since = Instant::now();
        leader.shutdown();
        handed_over.push(began(&begun).saturating_duration_since(since));
        requests.push(packets() - before - 1);
        leader = next;
    }
    leader.shutdown();
    let [median, p99, write, slow_write] = [
        quantile(&mut handed_over, 50),
        quantile(&mut handed_over, 99),
        quantile(&mut writes, 50),
        quantile(&mut writes, 99),
    ];
    requests.sort_unstable();
    let (usual, most) = (requests[SHUTDOWNS / 2], requests[SHUTDOWNS - 1]);
    println!(
        "handed over in {median:?}, p99 {p99:?}, with {usual} requests, {most} at most; \
         a write takes {write:?}, p99 {slow_write:?}"
    );
    assert!(usual < 10, "{requests:?}");
    assert!(median < write * 10, "{median:?}, and a write takes {write:?}");
}
