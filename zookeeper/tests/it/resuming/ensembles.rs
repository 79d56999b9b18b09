//! Sessions that move between the members of an ensemble.

use std::time::Duration;

use zoolock_test_support::{Ensemble, FaultProxy, wait_until};
use zoolock_zookeeper::{SessionEventKind, ZooKeeper};

use crate::util::{BRIEFLY, SESSION, SOON, Told, client_of, make_ephemeral};

/// Long enough for an election on a busy machine.
const LONG: Duration = Duration::from_secs(30);

/// A proxy for each member, and a client that knows them all.
struct Ways {
    proxies: Vec<FaultProxy>,
    client: ZooKeeper,
    told: Told,
}

impl Ways {
    /// The client's first connection is to `first`.
    fn to(ensemble: &Ensemble, first: usize, session_timeout: Duration) -> Ways {
        let start = |address| FaultProxy::start(address).unwrap();
        let proxies: Vec<_> = ensemble.addresses().into_iter().map(start).collect();
        let names: Vec<_> = proxies.iter().map(FaultProxy::connect_string).collect();
        let others = || proxies.iter().enumerate().filter(|(index, _)| *index != first);
        others().for_each(|(_, proxy)| proxy.refuse(true));
        let client = client_of(&names.join(","), session_timeout);
        others().for_each(|(_, proxy)| proxy.refuse(false));
        let told = Told::by(&client);
        let ways = Ways { proxies, client, told };
        assert_eq!(ways.at(), [first]);
        ways
    }

    /// The members to which the client is connected.
    fn at(&self) -> Vec<usize> {
        let all = self.proxies.iter().enumerate();
        all.filter(|(_, proxy)| proxy.open_connections() > 0).map(|(index, _)| index).collect()
    }
}

impl Drop for Ways {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (index, proxy) in self.proxies.iter().enumerate() {
                eprintln!("member {index}:\n{}", proxy.log().join("\n"));
            }
            eprintln!("{:?}", self.told.all());
        }
    }
}

#[test]
fn session_moves_to_another_member_with_its_watches() {
    let ensemble = Ensemble::start(3).unwrap();
    let first = ensemble.followers().unwrap()[0];
    let ways = Ways::to(&ensemble, first, LONG);
    let id = ways.client.session_id();
    let path = make_ephemeral(&ways.client, "/a");
    let (watcher, events) = zoolock_zookeeper::Watcher::channel();
    ways.client.get_data_w(&path, &watcher).unwrap();
    for round in 0..3 {
        let from = ways.at();
        let proxy = &ways.proxies[from[0]];
        proxy.cut_off();
        ways.told.until(SessionEventKind::Resumed);
        // Connections that it tried on its way are closed a moment later.
        let mut to = Vec::new();
        wait_until("it is at one other member", SOON, || {
            to = ways.at();
            to.len() == 1 && to != from
        });
        println!("round {round}: from {from:?} to {to:?}");
        proxy.refuse(false);
        assert_eq!(ways.client.session_id(), id);
        assert_eq!(ways.client.get_data(&path).unwrap().1.ephemeral_owner, id);
        ways.client.set_data(&path, b"", None).unwrap();
        assert_eq!(events.try_iter().count(), 1, "told before the answer");
        ways.client.get_data_w(&path, &watcher).unwrap();
    }
}

#[test]
fn client_leaves_a_lagging_member_for_another() {
    let ensemble = Ensemble::start(3).unwrap();
    let leader = ensemble.leader().unwrap();
    let behind = ensemble.followers().unwrap()[0];
    let ways = Ways::to(&ensemble, leader, SESSION);
    let id = ways.client.session_id();
    let path = make_ephemeral(&ways.client, "/a");
    ensemble.cut_off(behind);
    // An answer that the lagging member will never see.
    let written = ways.client.set_data(&path, b"seen", None).unwrap();
    let before = ways.proxies[behind].connections();
    for (index, proxy) in ways.proxies.iter().enumerate() {
        proxy.refuse(index != behind);
    }
    ways.proxies[leader].cut();
    ways.told.until(SessionEventKind::Suspended);
    wait_until("the one behind has been tried twice", SOON, || {
        ways.proxies[behind].connections() >= before + 2
    });
    assert_eq!(ways.told.kinds(), [SessionEventKind::Suspended], "it must not let the client in");
    // A member without a leader would refuse the client too, but silently.
    let waited = ways.client.with_timeout(BRIEFLY).exists(&path).unwrap_err();
    println!("{waited}");
    assert!(waited.to_string().contains("hung up"), "{waited}");
    ways.proxies[leader].refuse(false);
    ways.told.until(SessionEventKind::Resumed);
    let tries = ways.proxies[behind].connections() - before;
    println!("{tries} times at the one that is behind, then at {:?}", ways.at());
    assert_eq!(ways.client.session_id(), id);
    assert_eq!(ways.client.get_data(&path).unwrap(), (b"seen".to_vec(), written));
    ensemble.heal();
}
