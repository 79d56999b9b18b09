//! A follower without its leader answers reads as if nothing had happened, while the leader ends the
//! sessions of its clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock_test_support::{Ensemble, FaultProxy, Late, Probe, wait_until};
use zoolock_zookeeper::{SessionEventKind, Watcher};

use super::{Watch, gone_at};
use crate::util::{BRIEFLY, SHORT, SOON, Told, client_of, make_ephemeral};

/// With time for a move on a busy machine.
const LONGER: Duration = Duration::from_secs(12);
/// In ticks of half a second: the follower notices after the old session would have ended.
const NOTICES: u32 = 40;

#[test]
fn a_lease_ends_on_a_follower_without_its_leader_before_that_ends_the_session() {
    let ensemble = Ensemble::start(3).unwrap();
    let (leader, follower) = (ensemble.leader().unwrap(), ensemble.followers().unwrap()[0]);
    let client = client_of(&ensemble.server(follower).connect_string(), SHORT);
    let path = make_ephemeral(&client, "/a");
    let (watcher, events) = Watcher::channel();
    client.get_data_w(&path, &watcher).unwrap();
    let keeper = client.keep_lease();
    let (watch, told) = (Watch::over(&client), Told::by(&client));
    let probe = Probe::connect(ensemble.server(leader).address()).unwrap();
    let gone = gone_at(probe, path.clone(), &client);
    let late = Late::start();
    let reads = Probe::connect(ensemble.server(follower).address()).unwrap();
    // It reads all the time, and is answered.
    let (reading, is_over) = (client.clone(), Arc::new(AtomicBool::new(false)));
    let (at, until) = (path.clone(), Arc::clone(&is_over));
    let reader = thread::spawn(move || {
        let (mut answered, hurried) = (0_u64, reading.with_timeout(BRIEFLY));
        while !until.load(Ordering::SeqCst) {
            answered += u64::from(hurried.get_data(&at).is_ok());
        }
        answered
    });
    let begun = Instant::now();
    ensemble.cut_off(follower);
    let ended = watch.until(SessionEventKind::LeaseEnded);
    let still_there = reads.exists(&path);
    let (gone, left) = gone.join().unwrap();
    is_over.store(true, Ordering::SeqCst);
    println!("{} reads were answered", reader.join().unwrap());
    println!(
        "the lease ended after {:?}, the leader ended the session after {:?}; the follower still \
         sees the node: {still_there:?}",
        ended - begun,
        gone - begun
    );
    assert!(left.is_zero(), "{left:?} left when the session was gone");
    assert!(ended < gone + late.in_all(), "told {:?} too late", ended - gone);
    ensemble.heal();
    told.until(SessionEventKind::Connected);
    println!("{:?}; {:?}", told.kinds(), events.try_iter().collect::<Vec<_>>());
    wait_until("a new lease", SOON, || !client.valid_for().is_zero());
    drop(keeper);
}

#[test]
fn a_session_moves_from_a_follower_without_its_leader_before_its_lease_ends() {
    let ensemble = Ensemble::builder(3).sync_limit(NOTICES).start().unwrap();
    let (leader, follower) = (ensemble.leader().unwrap(), ensemble.followers().unwrap()[0]);
    let start = |address| FaultProxy::start(address).unwrap();
    let proxies: Vec<_> = ensemble.addresses().into_iter().map(start).collect();
    let names: Vec<_> = proxies.iter().map(FaultProxy::connect_string).collect();
    let refuse_others = |on| {
        let others = proxies.iter().enumerate().filter(|(index, _)| *index != follower);
        others.for_each(|(_, proxy)| proxy.refuse(on));
    };
    refuse_others(true);
    let client = client_of(&names.join(","), LONGER);
    refuse_others(false);
    let path = make_ephemeral(&client, "/a");
    let (told, keeper) = (Told::by(&client), client.keep_lease());
    let term = client.lease().term;
    let begun = Instant::now();
    let mut least = client.valid_for();
    ensemble.cut_off(follower);
    // The old session would have ended by then.
    wait_until("it is too late for one that stays", SOON, || {
        let lease = client.lease();
        assert!(!lease.valid_for.is_zero() && lease.term == term, "{lease:?} {:?}", told.kinds());
        least = least.min(lease.valid_for);
        begun.elapsed() > LONGER + LONGER / 3
    });
    println!("{:?}, with {least:?} left at least", told.kinds());
    assert!(told.kinds().contains(&SessionEventKind::Resumed));
    assert!(!told.kinds().contains(&SessionEventKind::Expired));
    assert!(proxies[follower].open_connections() == 0);
    let probe = Probe::connect(ensemble.server(leader).address()).unwrap();
    assert!(probe.exists(&path).unwrap());
    drop(keeper);
}
