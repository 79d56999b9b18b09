//! Tests the service over HTTP, with the server of the feature `testing`.

use std::thread;

use zoolock::DistributedLock;
use zoolock::testing::Server as ZooKeeper;
use zoolock_test_support::wait_until;

use super::*;
use load::request;

const SOON: Duration = Duration::from_secs(60);

/// A service with its client, on free ports.
struct Scene {
    zookeeper: ZooKeeper,
    client: Client,
    service: Service,
    items: String,
    admin: String,
}

fn port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port")
}

fn service(zookeeper: &ZooKeeper, longest_wait: Duration) -> (Client, Service, String, String) {
    let client = connect(zookeeper.builder()).expect("a client");
    wait_until("it is connected", SOON, || client.state() == ClientState::Connected);
    let service = Service::start(client.clone(), longest_wait, port(), port()).expect("a service");
    let addresses = [&service.items, &service.admin].map(|server| server.address().to_string());
    let [items, admin] = addresses;
    (client, service, items, admin)
}

impl Scene {
    fn new() -> Scene {
        Scene::with_wait(LONGEST_WAIT)
    }

    fn with_wait(longest_wait: Duration) -> Scene {
        let zookeeper = ZooKeeper::start().expect("a server");
        let (client, service, items, admin) = service(&zookeeper, longest_wait);
        Scene { zookeeper, client, service, items, admin }
    }

    fn reserve(&self, name: &str) -> String {
        request(&self.items, "POST", &format!("/items/{name}/reserve")).expect("an answer")
    }

    fn count(&self, name: &str) -> u64 {
        let answer = request(&self.items, "GET", &format!("/items/{name}")).expect("an answer");
        body(&answer).trim().parse().expect(&answer)
    }

    fn health(&self) -> String {
        request(&self.admin, "GET", "/health").expect("an answer")
    }

    /// Makes another client take the lock of an item.
    fn hold(&self, name: &str) -> (Client, zoolock::Guard) {
        let other = self.zookeeper.client().expect("a client");
        let lock = DistributedLock::new(&other, format!("/items/{name}")).expect("a path");
        let guard = lock.acquire().expect("the lock");
        (other, guard)
    }
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").expect("a head").1
}

#[track_caller]
fn assert_status(answer: &str, status: u16) {
    println!("{answer}");
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "not {status}: {answer}");
    let says_when = answer.contains("\r\nRetry-After: 1\r\n");
    assert_eq!(says_when, status == 503, "{answer}");
}

#[test]
fn reservations_of_two_services_are_all_counted() {
    const NAMES: [&str; 5] = ["lamp", "chair", "table", "a.b", "x_1-2"];
    let scene = Scene::new();
    let (_client, other, items, _) = service(&scene.zookeeper, LONGEST_WAIT);
    let done: Vec<u64> = thread::scope(|scope| {
        let client = |index: usize| {
            let address = if index.is_multiple_of(2) { &scene.items } else { &items };
            scope.spawn(move || {
                let path = |turn: usize| format!("/items/{}/reserve", NAMES[turn % NAMES.len()]);
                let mut done = vec![0; NAMES.len()];
                for turn in index..index + 25 {
                    let answer = request(address, "POST", &path(turn)).expect("an answer");
                    // On a busy machine, a request may wait for too long. It is then not counted.
                    match answer.starts_with("HTTP/1.1 200 ") {
                        true => done[turn % NAMES.len()] += 1,
                        false => assert_status(&answer, 503),
                    }
                }
                done
            })
        };
        let clients: Vec<_> = (0..16).map(client).collect();
        let done = clients.into_iter().map(|client| client.join().expect("a client"));
        done.reduce(|a, b| a.iter().zip(b).map(|(a, b)| a + b).collect()).expect("clients")
    });
    println!("{done:?}");
    assert!(done.iter().all(|&done| done > 0), "an item was never reserved");
    assert_eq!(NAMES.map(|name| scene.count(name)).to_vec(), done);
    other.shutdown().expect("a clean end");
}

#[test]
fn service_is_ready_while_connected_and_refuses_at_once_while_suspended() {
    let scene = Scene::with_wait(2 * SOON);
    assert_status(&scene.health(), 200);
    assert_status(&scene.reserve("lamp"), 200);
    scene.zookeeper.suspend(&scene.client);
    assert_status(&scene.health(), 503);
    thread::scope(|scope| {
        let refused = scope.spawn(|| scene.reserve("lamp"));
        wait_until("the request has not waited", SOON, || refused.is_finished());
        assert_status(&refused.join().expect("an answer"), 503);
    });
    scene.zookeeper.resume(&scene.client);
    assert_status(&scene.health(), 200);
    assert_status(&scene.reserve("lamp"), 200);
    assert_eq!(scene.count("lamp"), 2);
}

#[test]
fn outage_frees_the_threads_that_wait_and_health_says_so() {
    let scene = Scene::with_wait(SOON);
    let names: Vec<_> = (0..THREADS).map(|index| format!("lamp-{index}")).collect();
    let held: Vec<_> = names.iter().map(|name| scene.hold(name)).collect();
    thread::scope(|scope| {
        let (scene, items) = (&scene, names.iter());
        let busy: Vec<_> = items.map(|name| scope.spawn(|| scene.reserve(name))).collect();
        wait_until("all threads wait", SOON, || scene.client.stats().waiting == THREADS);
        scene.zookeeper.stop();
        wait_until("it is not ready", SOON, || scene.health().starts_with("HTTP/1.1 503 "));
        let answers = busy.into_iter().map(|busy| busy.join().expect("an answer"));
        answers.for_each(|answer| assert_status(&answer, 503));
        scene.zookeeper.start_again();
        wait_until("it is ready again", SOON, || scene.health().starts_with("HTTP/1.1 200 "));
        wait_until("the holders are back, too", SOON, || {
            held.iter().all(|(other, _)| other.state() == ClientState::Connected)
        });
    });
    drop(held);
    names.iter().for_each(|name| assert_status(&scene.reserve(name), 200));
    names.iter().for_each(|name| assert_eq!(scene.count(name), 1));
}

#[test]
fn service_starts_without_zookeeper() {
    let zookeeper = ZooKeeper::start().expect("a server");
    zookeeper.stop();
    let client = connect(zookeeper.builder()).expect("a client");
    let service = Service::start(client, SOON, port(), port()).expect("a service");
    let [items, admin] =
        [&service.items, &service.admin].map(|server| server.address().to_string());
    let health = || request(&admin, "GET", "/health").expect("an answer");
    assert_status(&health(), 503);
    assert_status(&request(&items, "POST", "/items/lamp/reserve").expect("an answer"), 503);
    zookeeper.start_again();
    wait_until("it is ready", SOON, || health().starts_with("HTTP/1.1 200 "));
    assert_status(&request(&items, "POST", "/items/lamp/reserve").expect("an answer"), 200);
    service.shutdown().expect("a clean end");
}

#[test]
fn busy_item_delays_no_request_for_long_and_leaves_no_node() {
    let scene = Scene::new();
    let (other, guard) = scene.hold("lamp");
    assert_status(&scene.reserve("lamp"), 503);
    wait_until("the wait has left no node", SOON, || {
        other.contenders("/items/lamp").is_ok_and(|contenders| contenders.len() == 1)
    });
    guard.release().expect("it is held");
    assert_status(&scene.reserve("lamp"), 200);
}

#[test]
fn shutdown_answers_accepted_requests_and_frees_the_locks() {
    let scene = Scene::with_wait(SOON);
    let (other, guard) = scene.hold("lamp");
    thread::scope(|scope| {
        let accepted = scope.spawn(|| request(&scene.items, "POST", "/items/lamp/reserve"));
        wait_until("the request waits for the lock", SOON, || scene.client.stats().waiting == 1);
        let service = scene.service;
        let shutdown = scope.spawn(|| service.shutdown());
        wait_until("nothing is accepted", SOON, || request(&scene.items, "GET", "/").is_err());
        drop(guard);
        let answer = accepted.join().expect("no panic").expect("an answer");
        assert_status(&answer, 200);
        shutdown.join().expect("no panic").expect("a confirmed end");
    });
    assert_eq!(scene.client.state(), ClientState::Closed);
    assert!(request(&scene.admin, "GET", "/health").is_err());
    assert!(other.contenders("/items/lamp").expect("a list").is_empty());
}

#[test]
fn bad_names_are_refused_with_a_reason() {
    let scene = Scene::new();
    let long = "a".repeat(101);
    for (name, reason) in [
        ("", "it is empty"),
        (&*long, "it is longer than 100 bytes"),
        (".", "part 2 is `.`"),
        ("..", "part 2 is `..`"),
        ("a%2Fb", "it has '%'"),
        ("a%00", "it has '%'"),
        ("\u{e9}", "it has '\u{e9}'"),
        ("a\tb", "it has '\\t'"),
        ("clock-0000000001", "has the form of a contender's name"),
    ] {
        let answer = scene.reserve(name);
        assert_status(&answer, 400);
        assert!(body(&answer).contains(reason), "{name:?}: {answer}");
    }
    assert_status(&scene.reserve("a/leases"), 404);
    assert_status(&scene.reserve("a b"), 400);
    let other = scene.zookeeper.client().expect("a client");
    assert_eq!(other.paths_below("/items").expect("a path"), [""; 0]);
}

#[test]
fn metrics_have_the_items_under_one_name() {
    let scene = Scene::new();
    assert_status(&scene.reserve("lamp"), 200);
    let page = request(&scene.admin, "GET", "/metrics").expect("an answer");
    assert_status(&page, 200);
    assert!(page.contains(r#"zoolock_acquisitions_total{lock="exclusive",name="items""#), "{page}");
}
