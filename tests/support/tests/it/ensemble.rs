//! Ensembles elect a leader, replicate, survive the loss of members, and can be cut apart and
//! repaired.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use zoolock_test_support::{Ensemble, Probe, Server, wait_until};

use crate::SOON;
use crate::sockets::connections;

/// Far above the sum of the limits of these ensembles.
const SOME_TIME: Duration = Duration::from_secs(40);
const SESSION: Duration = Duration::from_secs(4);

fn three() -> Ensemble {
    let start = Instant::now();
    // 4 s, so that tests do not wait for long.
    let ensemble = Ensemble::builder(3).sync_limit(8).start().unwrap();
    println!("started in {:.1?}", start.elapsed());
    ensemble
}

fn connect(member: &Server) -> Probe {
    Probe::connect(member.address()).unwrap()
}

/// Returns the role that a member reports, or nothing if it does not serve.
fn mode(member: &Server) -> Option<String> {
    let answer = member.four_letter("srvr").unwrap();
    let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "));
    mode.map(str::to_owned)
}

fn others(ensemble: &Ensemble, one: usize) -> Vec<usize> {
    (0..ensemble.len()).filter(|&index| index != one).collect()
}

/// Creates a node on one member, and waits until all these members have it.
fn replicates(ensemble: &Ensemble, path: &str, on: usize, to: &[usize]) {
    let writer = connect(ensemble.server(on));
    writer.create(path, b"data", false, false).unwrap();
    for &index in to {
        let reader = connect(ensemble.server(index));
        let has = || reader.exists(path).unwrap();
        let took = wait_until("the node is on the other member", SOON, has);
        println!("{path} of member {on} is on member {index} after {took:.1?}");
    }
}

#[test]
fn elects_one_leader_and_replicates() {
    let start = Instant::now();
    let ensemble = Ensemble::start(3).unwrap();
    println!("three members in {:.1?}", start.elapsed());
    let modes: Vec<_> = (0..3).map(|index| mode(ensemble.server(index))).collect();
    println!("{modes:?}");
    let leader = ensemble.leader().unwrap();
    for (index, mode) in modes.iter().enumerate() {
        let leads = index == leader;
        assert_eq!(mode.as_deref(), Some(if leads { "leader" } else { "follower" }));
    }
    assert_eq!(ensemble.followers().unwrap(), others(&ensemble, leader));
    assert_eq!(ensemble.server(leader).metric("zk_synced_followers").unwrap(), 2);
    let hosts: Vec<_> = ensemble.connect_string().split(',').map(str::to_owned).collect();
    assert_eq!(hosts, ensemble.addresses().iter().map(|a| a.to_string()).collect::<Vec<_>>());
    for index in 0..3 {
        replicates(&ensemble, &format!("/from-{index}"), index, &[0, 1, 2]);
    }
}

#[test]
fn sizes_other_than_three() {
    let error = Ensemble::start(0).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    let alone = Ensemble::start(1).unwrap();
    assert_eq!((alone.leader().unwrap(), alone.len()), (0, 1));
    assert_eq!(mode(alone.server(0)).as_deref(), Some("leader"));
    alone.rolling_restart().unwrap();
    let path = "/alone";
    replicates(&alone, path, 0, &[0]);
}

#[test]
fn goes_on_without_the_killed_leader() {
    let ensemble = three();
    replicates(&ensemble, "/before", 0, &[0, 1, 2]);
    let start = Instant::now();
    let killed = ensemble.kill_leader().unwrap();
    let leader = ensemble.leader().unwrap();
    println!("{leader} leads {:.1?} after {killed} did", start.elapsed());
    assert_ne!(leader, killed);
    ensemble.wait_ready().unwrap();
    let rest = others(&ensemble, killed);
    replicates(&ensemble, "/between", rest[0], &rest);
    ensemble.server(killed).start_again().unwrap();
    ensemble.wait_ready().unwrap();
    println!("all together {:.1?} after the kill", start.elapsed());
    assert_eq!(mode(ensemble.server(killed)).as_deref(), Some("follower"));
    let back = connect(ensemble.server(killed));
    assert!(back.exists("/before").unwrap() && back.exists("/between").unwrap());
    replicates(&ensemble, "/after", killed, &[0, 1, 2]);
}

#[test]
fn rolling_restart_keeps_the_data() {
    let ensemble = three();
    let processes = || [0, 1, 2].map(|index| ensemble.server(index).process_id().unwrap());
    let (leader, before) = (ensemble.leader().unwrap(), processes());
    replicates(&ensemble, "/kept", leader, &[0, 1, 2]);
    let start = Instant::now();
    ensemble.rolling_restart().unwrap();
    let now = ensemble.leader().unwrap();
    println!("took {:.1?}; {leader} led, {now} leads", start.elapsed());
    assert_ne!(now, leader);
    assert!(before.iter().zip(processes()).all(|(old, new)| *old != new));
    for index in 0..3 {
        assert!(connect(ensemble.server(index)).exists("/kept").unwrap());
        replicates(&ensemble, &format!("/new-{index}"), index, &[0, 1, 2]);
    }
}

/// All connections go through the proxies. Otherwise faults of the links would not reach them.
#[test]
fn members_meet_only_through_proxies() {
    let ensemble = three();
    // Of two members, the one that started later may be the one that dialled.
    for restarted in [None, Some(0), Some(2)] {
        if let Some(index) = restarted {
            ensemble.server(index).restart().unwrap();
            ensemble.wait_ready().unwrap();
        }
        let processes = [0, 1, 2].map(|index| ensemble.server(index).process_id().unwrap());
        let mut all = Vec::new();
        // Two connections to the leader and three for votes, with both ends of each.
        wait_until("all are connected", SOON, || {
            all = processes.into_iter().flat_map(connections).collect();
            all.len() >= 10
        });
        println!("{} ends after the restart of {restarted:?}", all.len());
        let direct = |end: &String| all.iter().any(|(local, _)| local == end);
        assert!(!all.iter().any(|(_, remote)| direct(remote)), "{all:?}");
    }
}

#[test]
fn a_follower_cut_off_serves_stale_reads_and_comes_back() {
    let start = Instant::now();
    let ensemble = Ensemble::start(3).unwrap();
    println!("started in {:.1?}", start.elapsed());
    let leader = ensemble.leader().unwrap();
    let follower = others(&ensemble, leader)[0];
    let (inside, outside) = (connect(ensemble.server(follower)), connect(ensemble.server(leader)));
    let client = Probe::connect_for(ensemble.server(follower).address(), SESSION).unwrap();
    client.create("/held", b"", true, false).unwrap();
    wait_until("it is on the leader", SOON, || outside.exists("/held").unwrap());
    client.abandon();
    let writer = connect(ensemble.server(follower));

    let start = Instant::now();
    ensemble.cut_off(follower);
    writer.set_patience(Duration::from_millis(500)).unwrap();
    let refused = writer.create("/lost", b"", false, false).unwrap_err();
    println!("a write on the follower: {refused}");
    let gone = || !outside.exists("/held").unwrap();
    wait_until("the leader has expired the session", SOME_TIME, gone);
    println!("expired on the leader {:.1?} after the cut", start.elapsed());
    assert!(inside.exists("/held").unwrap(), "the follower does not know");
    let stale = || inside.exists("/held").is_err();
    wait_until("the follower notices", SOME_TIME, stale);
    println!("read on the follower until {:.1?} after the cut", start.elapsed());
    assert!(start.elapsed() > Duration::from_secs(5));

    // Only waiting shows that it does not join.
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        assert_eq!(mode(ensemble.server(follower)), None);
    }
    assert_eq!(ensemble.leader().unwrap(), leader);
    ensemble.wait_ready().unwrap();
    replicates(&ensemble, "/meanwhile", leader, &others(&ensemble, follower));

    let start = Instant::now();
    ensemble.heal();
    ensemble.wait_ready().unwrap();
    println!("healed in {:.1?}", start.elapsed());
    assert_eq!(ensemble.leader().unwrap(), leader);
    let back = connect(ensemble.server(follower));
    assert!(back.exists("/meanwhile").unwrap());
    assert!(!back.exists("/held").unwrap() && !back.exists("/lost").unwrap());
    replicates(&ensemble, "/again", follower, &[0, 1, 2]);
}

#[test]
fn a_leader_cut_off_is_replaced() {
    let ensemble = three();
    for round in 0..2 {
        let old = ensemble.leader().unwrap();
        let start = Instant::now();
        ensemble.cut_off(old);
        let new = ensemble.leader().unwrap();
        println!("{new} leads {:.1?} after {old} was cut off", start.elapsed());
        assert_ne!(new, old);
        ensemble.wait_ready().unwrap();
        let rest = others(&ensemble, old);
        replicates(&ensemble, &format!("/without-{round}"), rest[0], &rest);
        assert_eq!(mode(ensemble.server(old)), None);
        let start = Instant::now();
        ensemble.heal();
        ensemble.wait_ready().unwrap();
        println!("healed in {:.1?}", start.elapsed());
        assert_eq!(ensemble.leader().unwrap(), new);
        assert_eq!(ensemble.followers().unwrap(), others(&ensemble, new));
        replicates(&ensemble, &format!("/with-{round}"), old, &[0, 1, 2]);
    }
}

#[test]
fn a_short_cut_does_no_harm() {
    let ensemble = Ensemble::start(3).unwrap();
    let leader = ensemble.leader().unwrap();
    for index in 0..3 {
        let reader = connect(ensemble.server(index));
        ensemble.cut_off(index);
        reader.exists("/").unwrap();
        let start = Instant::now();
        ensemble.heal();
        ensemble.wait_ready().unwrap();
        println!("member {index} of leader {leader}: healed in {:.1?}", start.elapsed());
        replicates(&ensemble, &format!("/n-{index}"), index, &[0, 1, 2]);
    }
}

#[test]
fn goes_on_while_a_member_is_paused() {
    let ensemble = three();
    let paused = ensemble.followers().unwrap()[0];
    ensemble.server(paused).pause().unwrap();
    ensemble.wait_ready().unwrap();
    let rest = others(&ensemble, paused);
    replicates(&ensemble, "/paused-follower", rest[0], &rest);
    ensemble.server(paused).resume().unwrap();
    ensemble.wait_ready().unwrap();
    assert!(connect(ensemble.server(paused)).exists("/paused-follower").unwrap());

    let paused = ensemble.leader().unwrap();
    let start = Instant::now();
    ensemble.server(paused).pause().unwrap();
    let leader = ensemble.leader().unwrap();
    println!("{leader} leads {:.1?} after {paused} was paused", start.elapsed());
    assert_ne!(leader, paused);
    ensemble.wait_ready().unwrap();
    replicates(&ensemble, "/paused-leader", leader, &others(&ensemble, paused));
    ensemble.server(paused).resume().unwrap();
    ensemble.wait_ready().unwrap();
    assert_eq!(ensemble.leader().unwrap(), leader);
    replicates(&ensemble, "/all", paused, &[0, 1, 2]);
}

#[test]
fn dropping_it_leaves_nothing() {
    let ensemble = three();
    let what_is_left = |index: usize| {
        let member = ensemble.server(index);
        let conf = member.four_letter("conf").unwrap();
        let data = conf.lines().find_map(|line| line.strip_prefix("dataDir="));
        let folder = Path::new(data.unwrap()).ancestors().nth(2).unwrap();
        let process = format!("/proc/{}", member.process_id().unwrap());
        (process, folder.to_owned(), member.address())
    };
    let left = [0, 1, 2].map(what_is_left);
    println!("{left:?}");
    for (process, folder, _) in &left {
        assert!(Path::new(process).exists() && folder.join("zoo.cfg").exists());
    }
    let start = Instant::now();
    drop(ensemble);
    println!("dropped in {:.1?}", start.elapsed());
    for (process, folder, address) in left {
        assert!(!Path::new(&process).exists() && !folder.exists());
        assert!(TcpStream::connect(address).is_err());
    }
}
