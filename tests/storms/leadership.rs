//! Leaders that change quickly.

use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{Receiver, Sender, unbounded};
use zoolock::{Client, Leadership, LockOptions, Term};
use zoolock_test_support::{Probe, fresh_path, wait_until};

use common::{SOON, client_of, quiet_server};
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
