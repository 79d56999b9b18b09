//! Write, then read: from writer to reader without a gap.

use zoolock::{DistributedRwLock, HoldState, Kind, LossReason};
use zoolock_test_support::{Op, fresh_path, shared_probe, wait_until};

use super::{Stage, assert_not_held, rw_of, would_deadlock};
use common::basics::{await_nodes, hold_of};
use common::{
    SESSION, SOON, assert_lost, await_lost, await_resumed, children, client, client_of,
    delete_node, place, shared_proxy,
};

const DELETED: HoldState = HoldState::Lost(LossReason::NodeDeleted);

/// Scenario 30.
#[test]
fn a_queued_writer_does_not_slip_in() {
    let stage = Stage::new("downgrade", 2);
    let lock = stage.lock(0);
    let (read, write) = (lock.read_lock(), lock.write_lock());
    write.lock().unwrap();
    // It watches the write's node, as there is no other yet.
    let writer = stage.queues(stage.lock(1).write_lock());
    read.lock().unwrap();
    let token = hold_of(&write).fencing_token().unwrap();
    let watches = stage.proxy.requests(Op::GetData);
    write.unlock().unwrap();
    // It was woken, has looked, and waits for the read now.
    stage.watches_after(watches);
    println!("the write is released, the writer waits: {:?}", children(&stage.path));
    assert!(!writer.is_in() && read.is_held() && !write.is_held());
    assert_eq!(hold_of(&read).fencing_token().unwrap(), token);
    assert!(!stage.lock(1).write_lock().try_lock().unwrap());
    read.unlock().unwrap();
    writer.comes_in();
    writer.leaves();
    stage.is_empty();
}

#[test]
fn queued_readers_come_in_and_the_writer_behind_them_after_all() {
    let stage = Stage::new("downgrade-readers", 2);
    let lock = stage.lock(0);
    lock.write_lock().lock().unwrap();
    let readers = [stage.queues(lock.read_lock()), stage.queues(stage.lock(1).read_lock())];
    let writer = stage.queues(stage.lock(1).write_lock());
    let late = stage.queues(lock.read_lock());
    let local = super::Visitor::start(lock.write_lock());
    lock.read_lock().lock().unwrap();
    assert!(readers.iter().all(|reader| !reader.is_in()), "the write is still held");
    lock.write_lock().unlock().unwrap();
    for reader in &readers {
        reader.comes_in();
    }
    assert!(!writer.is_in() && !late.is_in() && !local.is_in());
    assert!(lock.read_lock().is_held());
    let nodes = children(&stage.path);
    println!("three readers in, behind them a writer, a reader and a writer: {nodes:#?}");
    let [one, other] = readers;
    one.leaves();
    assert!(!writer.is_in());
    other.leaves();
    assert!(!writer.is_in());
    lock.read_lock().unlock().unwrap();
    writer.comes_in();
    assert!(!late.is_in() && !local.is_in());
    writer.leaves();
    late.comes_in();
    late.leaves();
    local.comes_in();
    local.leaves();
    stage.is_empty();
}

#[test]
fn the_reads_node_is_an_ephemeral_one_in_the_writes_place_and_has_its_token() {
    let client = client();
    let path = fresh_path("downgrade-node");
    let lock = rw_of(&client, &path);
    let (read, write) = (lock.read_lock(), lock.write_lock());
    let probe = shared_probe().unwrap();
    let stat = |node: &str| probe.stat(&format!("{path}/{node}")).unwrap().unwrap();
    let mut last = 0;
    for asked in ["before the read", "under both", "after the write"] {
        write.lock().unwrap();
        let wrote = hold_of(&write).node();
        let token = stat(&wrote).czxid as u64;
        assert!(asked != "before the read" || hold_of(&write).fencing_token().unwrap() == token);
        read.lock().unwrap();
        let reads = hold_of(&read).node();
        println!("{wrote}\n{reads}, asked {asked}");
        assert_eq!(place(&wrote), place(&reads));
        assert!(wrote[40..].starts_with("__WRIT__") && reads[40..].starts_with("__READ__"));
        assert_eq!((wrote.len(), reads.len()), (58, 58));
        assert_ne!(wrote[..39], reads[..39], "a new id for every create");
        let owners = [stat(&wrote), stat(&reads)].map(|stat| stat.ephemeral_owner);
        assert!(owners[0] != 0 && owners[0] == owners[1], "{owners:x?}");
        if asked == "under both" {
            let tokens = [hold_of(&read), hold_of(&write)].map(|hold| hold.fencing_token());
            assert!(tokens.iter().all(|asked| matches!(asked, Ok(asked) if *asked == token)));
        }
        write.unlock().unwrap();
        assert_eq!(hold_of(&read).node(), reads);
        assert_eq!(hold_of(&read).fencing_token().unwrap(), token);
        assert!(token > last);
        last = token;
        read.unlock().unwrap();
    }
    read.lock().unwrap();
    assert!(hold_of(&read).fencing_token().unwrap() > last, "one of its own");
    read.unlock().unwrap();
}

fn counts(lock: &DistributedRwLock) -> (u32, u32) {
    (lock.write_lock().hold_count(), lock.read_lock().hold_count())
}

/// How many nodes of each kind there are.
fn kinds(path: &str) -> (usize, usize) {
    let nodes = children(path);
    let count = |kind: &str| nodes.iter().filter(|node| node.contains(kind)).count();
    (count("__WRIT__"), count("__READ__"))
}

#[test]
fn both_sides_nest_in_each_other_and_are_unlocked_in_any_order() {
    let client = client();
    let path = fresh_path("downgrade-nested");
    let lock = rw_of(&client, &path);
    let others = common::client();
    let others = rw_of(&others, &path);
    // W and R lock, w and r unlock.
    for order in
        ["WRrw", "WRwr", "WRWRwwrr", "WRWRrrww", "WWRwRwrr", "WRrRrRwr", "WWRRrwrw", "WRWwRrwr"]
    {
        let (mut writes, mut reads) = (0, 0);
        for step in order.chars() {
            match step {
                'W' => lock.write_lock().lock().unwrap(),
                'R' => lock.read_lock().lock().unwrap(),
                'w' => lock.write_lock().unlock().unwrap(),
                _ => lock.read_lock().unlock().unwrap(),
            }
            match step {
                'W' => writes += 1,
                'R' => reads += 1,
                'w' => writes -= 1,
                _ => reads -= 1,
            }
            assert_eq!(counts(&lock), (writes, reads), "{order} after {step}");
            let nodes = (usize::from(writes > 0), usize::from(reads > 0));
            assert_eq!(kinds(&path), nodes, "{order} after {step}");
            let is_free = (others.read_lock().try_lock(), others.write_lock().try_lock());
            let (may_read, may_write) = (writes == 0, writes == 0 && reads == 0);
            match is_free {
                // The reader there is in the writer's way.
                (Ok(true), Ok(false)) if may_read => others.read_lock().unlock().unwrap(),
                (Ok(false), Ok(false)) if !may_read => {}
                seen => panic!("{order} after {step}: {seen:?}, {may_write}"),
            }
        }
        println!("{order}: nothing left");
        assert_eq!(children(&path), [""; 0], "{order}");
        assert!(others.write_lock().try_lock().unwrap(), "{order}");
        others.write_lock().unlock().unwrap();
    }
    assert_not_held(&lock.write_lock().unlock());
    assert_not_held(&lock.read_lock().unlock());
}

/// In every way, with guards too.
#[test]
fn every_way_in_downgrades_and_a_guard_of_either_side_goes_alone() {
    let client = client();
    let path = fresh_path("downgrade-ways");
    let lock = rw_of(&client, &path);
    let read = lock.read_lock();
    let writing = lock.write_lock().acquire().unwrap();
    let ways: [fn(&zoolock::ReadLock) -> zoolock::Result<bool>; 4] = [
        |read| read.try_lock(),
        |read| read.try_lock_for(SOON),
        |read| read.try_lock_for(std::time::Duration::ZERO),
        |read| read.try_lock_until(std::time::Instant::now()),
    ];
    for enter in ways {
        assert!(enter(&read).unwrap());
        assert_eq!(kinds(&path), (1, 1));
        read.unlock().unwrap();
        assert_eq!(kinds(&path), (1, 0));
    }
    let reading = read.acquire().unwrap();
    let tried = read.try_acquire().unwrap().expect("it is in");
    let hold = writing.hold();
    writing.release().unwrap();
    println!("{hold:?}, {reading:?}");
    assert_eq!((hold.state(), reading.state()), (HoldState::Released, HoldState::Held));
    drop(reading);
    assert_eq!(kinds(&path), (0, 1));
    drop(tried);
    assert_eq!(kinds(&path), (0, 0));
}

#[test]
fn under_a_write_whose_node_was_deleted_there_is_no_read() {
    let [ours, others] = [client(), client()];
    for directory_too in [false, true] {
        let path = fresh_path("downgrade-deleted");
        let lock = rw_of(&ours, &path);
        let (read, write) = (lock.read_lock(), lock.write_lock());
        write.lock().unwrap();
        let hold = hold_of(&write);
        delete_node(&hold);
        if directory_too {
            shared_probe().unwrap().delete(&path).unwrap();
        }
        let refused = read.lock();
        println!("with the directory: {directory_too}: {refused:?}, {hold:?}");
        assert_lost(&refused, &path, LossReason::NodeDeleted);
        assert_lost(&read.try_lock(), &path, LossReason::NodeDeleted);
        assert_eq!((hold.state(), read.hold_count()), (DELETED, 0));
        await_nodes(&path, 0);
        assert_eq!(shared_probe().unwrap().exists(&path).unwrap(), !directory_too);
        let other = rw_of(&others, &path).write_lock();
        assert!(other.try_lock_for(SOON).unwrap());
        other.unlock().unwrap();
        assert_lost(&write.unlock(), &path, LossReason::NodeDeleted);
        write.lock().unwrap();
        read.lock().unwrap();
        write.unlock().unwrap();
        read.unlock().unwrap();
        await_nodes(&path, 0);
    }
}

#[test]
fn under_a_write_whose_lease_is_over_there_is_no_read() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), std::time::Duration::from_secs(3));
    let path = fresh_path("downgrade-lapsed");
    let lock = rw_of(&client, &path);
    let (read, write) = (lock.read_lock(), lock.write_lock());
    write.lock().unwrap();
    let hold = hold_of(&write);
    proxy.refuse(true);
    proxy.cut();
    await_lost(&hold);
    let without_connection = read.lock();
    proxy.refuse(false);
    wait_until("there is a connection", SOON, || client.stats().connections == 2);
    let with_connection = read.lock();
    println!("{hold:?}: {without_connection:?}, {with_connection:?}");
    for refused in [without_connection, with_connection] {
        assert_lost(&refused, &path, LossReason::LeaseExpired);
    }
    await_nodes(&path, 0);
    assert_lost(&write.unlock(), &path, LossReason::LeaseExpired);
    read.lock().unwrap();
    read.unlock().unwrap();
    await_nodes(&path, 0);
}

#[test]
fn a_read_outlives_a_write_that_was_lost_under_it_and_the_other_way_round() {
    let [ours, others] = [client(), client()];
    let path = fresh_path("downgrade-outlives");
    let lock = rw_of(&ours, &path);
    let (read, write) = (lock.read_lock(), lock.write_lock());
    let rival = rw_of(&others, &path);
    write.lock().unwrap();
    read.lock().unwrap();
    delete_node(&hold_of(&write));
    assert_lost(&write.unlock(), &path, LossReason::NodeDeleted);
    assert!(read.is_held());
    assert!(!rival.write_lock().try_lock().unwrap(), "beside the read");
    assert!(rival.read_lock().try_lock().unwrap());
    rival.read_lock().unlock().unwrap();
    let refused = write.lock();
    assert!(would_deadlock(&refused, &path), "{refused:?}");
    read.unlock().unwrap();
    await_nodes(&path, 0);

    write.lock().unwrap();
    read.lock().unwrap();
    read.lock().unwrap();
    delete_node(&hold_of(&read));
    // The inner unlock says nothing of a deletion that nobody has noticed; the outer one does.
    println!("the inner unlock: {:?}", read.unlock());
    assert_lost(&read.unlock(), &path, LossReason::NodeDeleted);
    assert!(write.is_held());
    assert!(!rival.read_lock().try_lock().unwrap(), "beside the write");
    read.lock().unwrap();
    println!("a new read under the write: {:?}", children(&path));
    write.unlock().unwrap();
    assert!(!rival.write_lock().try_lock().unwrap(), "beside the read");
    read.unlock().unwrap();
    await_nodes(&path, 0);
}

/// What is seen from outside has to be what the holder says of itself.
#[test]
fn the_reads_node_says_to_others_what_the_hold_says() {
    let proxy = shared_proxy();
    let [ours, others] = [client_of(&proxy.connect_string(), SESSION), client()];
    for is_cut in [false, true] {
        let path = fresh_path("downgrade-seen");
        let lock = rw_of(&ours, &path);
        let (read, write) = (lock.read_lock(), lock.write_lock());
        write.lock().unwrap();
        let before = others.contenders(&path).unwrap();
        read.lock().unwrap();
        let both = others.contenders(&path).unwrap();
        let mut kinds: Vec<_> =
            both.iter().map(|one| (one.kind == Kind::Read, one.holds)).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, [(false, true), (true, true)], "{both:?}");
        write.unlock().unwrap();
        let hold = hold_of(&read);
        if is_cut {
            proxy.cut();
            await_resumed(&ours, 1);
        }
        let token = hold.fencing_token().unwrap();
        let seen = others.contenders(&path).unwrap();
        println!("cut: {is_cut}, token {token}: {seen:?}");
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].holds, seen[0].kind), (true, Kind::Read));
        assert_eq!((&seen[0].node, seen[0].token), (&hold.node(), token));
        assert_eq!(
            (seen[0].token, &seen[0].identity),
            (before[0].token, &before[0].identity),
            "as the write that it came from"
        );
        // It was made after the write.
        assert!(seen[0].since >= before[0].since);
        read.unlock().unwrap();
    }
}
