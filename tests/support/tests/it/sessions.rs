//! Sessions opened through a proxy can be ended while their clients live.

use std::thread;
use std::time::{Duration, Instant};

use zoolock_test_support::{Direction, Ensemble, FaultProxy, Op, Probe, wait_until};

use crate::{SOON, Stage};

fn make_ephemeral(client: &Probe, path: &str) {
    client.create(path, b"", true, false).unwrap();
}

#[test]
fn expire_ends_a_session_and_its_ephemerals_at_once() {
    let stage = Stage::new("expire");
    let path = stage.path("held");
    make_ephemeral(&stage.client, &path);
    assert_eq!(stage.proxy.expire_sessions().unwrap(), 1);
    assert!(!stage.made("held"));
    // The server closes the client's connection, because it takes the newer one for the client's.
    let error = stage.client.ping().unwrap_err();
    println!("the client: {error}");
    wait_until("the connection is closed", SOON, || stage.proxy.open_connections() == 0);
    assert_eq!(stage.proxy.expire_sessions().unwrap(), 0, "once is enough");
    let again = Probe::connect(stage.proxy.address()).unwrap();
    make_ephemeral(&again, &path);
    assert_eq!(stage.proxy.expire_sessions().unwrap(), 1, "a new one");
    assert!(!stage.made("held"));
    println!("{}", stage.proxy.log().join("\n"));
}

#[test]
fn expire_goes_unseen_by_a_silenced_client() {
    let stage = Stage::new("expire");
    make_ephemeral(&stage.client, &stage.path("held"));
    stage.proxy.black_hole(Direction::Both);
    assert_eq!(stage.proxy.expire_sessions().unwrap(), 1);
    assert!(!stage.made("held"));
    assert_eq!(stage.proxy.open_connections(), 1);
    stage.proxy.restore();
    stage.client.ping().unwrap_err();
}

#[test]
fn proxy_expires_only_its_own_live_sessions() {
    let stage = Stage::new("expire");
    let short = Duration::from_secs(3);
    let connect = |timeout| Probe::connect_for(stage.proxy.address(), timeout).unwrap();
    let (closed, abandoned, timed_out) = (connect(SOON), connect(SOON), connect(short));
    for (client, name) in [(&closed, "a"), (&abandoned, "b"), (&timed_out, "c")] {
        make_ephemeral(client, &stage.path(name));
    }
    let direct = stage.path("direct");
    make_ephemeral(&stage.observer, &direct);
    closed.close().unwrap();
    abandoned.abandon();
    timed_out.abandon();
    wait_until("the short session has timed out", SOON, || !stage.made("c"));
    assert!(stage.made("b"), "its session is longer");
    assert_eq!(stage.proxy.expire_sessions().unwrap(), 2, "b's and the stage's");
    assert!(!stage.made("b") && stage.made("direct"));
    let asked = (stage.proxy.requests(Op::Connect), stage.proxy.connections());
    assert_eq!(asked, (4, 4), "nothing of it goes through the proxy");
    stage.observer.delete(&direct).unwrap();
}

#[test]
fn expire_reaches_all_members_of_an_ensemble() {
    let ensemble = Ensemble::start(3).unwrap();
    let follower = ensemble.followers().unwrap()[0];
    let proxy = FaultProxy::start(ensemble.server(follower).address()).unwrap();
    let client = Probe::connect(proxy.address()).unwrap();
    make_ephemeral(&client, "/held");
    assert_eq!(proxy.expire_sessions().unwrap(), 1);
    for address in ensemble.addresses() {
        let observer = Probe::connect(address).unwrap();
        let gone = || !observer.exists("/held").unwrap();
        println!("gone after {:.1?}", wait_until("it is gone", SOON, gone));
    }
    client.ping().unwrap_err();
}

/// A follower that two clients ask at once about one session forgets the first, and never answers it.
#[test]
fn expire_wins_over_a_resume_at_a_follower() {
    let ensemble = Ensemble::start(3).unwrap();
    let follower = ensemble.followers().unwrap()[0];
    let proxy = FaultProxy::start(ensemble.server(follower).address()).unwrap();
    for round in 0..10 {
        let client = Probe::connect(proxy.address()).unwrap();
        let path = format!("/held-{round}");
        make_ephemeral(&client, &path);
        let start = Instant::now();
        let ended: Vec<_> = thread::scope(|scope| {
            let expire = || scope.spawn(|| proxy.expire_sessions());
            let both = [expire(), expire()];
            both.map(|one| one.join().unwrap().unwrap()).into()
        });
        println!("{round}: ended {ended:?} in {:.1?}", start.elapsed());
        assert!(ended.contains(&1), "{ended:?}");
        assert!(!client_of(&ensemble, follower).exists(&path).unwrap());
        client.abandon();
    }
}

fn client_of(ensemble: &Ensemble, member: usize) -> Probe {
    Probe::connect(ensemble.server(member).address()).unwrap()
}
