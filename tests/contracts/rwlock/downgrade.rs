//! Downgrades: a writer becomes a reader without a gap.

use zoolock::{Contender, HoldState, Kind, LossReason};
use zoolock_test_support::{Op, fresh_path, shared_probe};

use super::{Stage, Visitor, rw_of};
use common::{
    SESSION, SOON, assert_lost, await_nodes, await_resumed, behind_a_proxy, children, client,
    delete_node, hold_of, place, stat,
};

const DELETED: LossReason = LossReason::NodeDeleted;

#[test]
fn downgrade_lets_queued_readers_in_before_the_writer() {
    let stage = Stage::new("downgrade-readers", 2);
    let lock = stage.lock(0);
    lock.write_lock().lock().unwrap();
    let readers = [stage.queues(lock.read_lock()), stage.queues(stage.lock(1).read_lock())];
    let writer = stage.queues(stage.lock(1).write_lock());
    let late = stage.queues(lock.read_lock());
    let local = Visitor::start(lock.write_lock());
    lock.read_lock().lock().unwrap();
    assert!(readers.iter().all(|reader| !reader.is_in()), "the write is still held");
    lock.write_lock().unlock().unwrap();
    readers.iter().for_each(Visitor::comes_in);
    let waits = || !writer.is_in() && !late.is_in() && !local.is_in();
    println!(
        "three readers, behind them a writer, a reader and a writer: {:?}",
        children(&stage.path)
    );
    assert!(waits() && lock.read_lock().is_held());
    for reader in readers {
        reader.leaves();
        assert!(waits());
    }
    lock.read_lock().unlock().unwrap();
    writer.comes_in();
    assert!(!late.is_in() && !local.is_in());
    for visitor in [writer, late, local] {
        visitor.comes_in();
        visitor.leaves();
    }
    stage.is_empty();
}

#[test]
fn downgraded_read_has_an_ephemeral_node_and_the_writes_token() {
    let (client, path) = (client(), fresh_path("downgrade-node"));
    let lock = rw_of(&client, &path);
    let (read, write) = (lock.read_lock(), lock.write_lock());
    let mut last = 0;
    for asked in ["before the read", "under both", "after the write"] {
        write.lock().unwrap();
        let wrote = hold_of(&write).node();
        let of_write = stat(&format!("{path}/{wrote}"));
        let token = of_write.czxid as u64;
        assert!(asked != "before the read" || hold_of(&write).fencing_token() == token);
        read.lock().unwrap();
        let reads = hold_of(&read).node();
        println!("{wrote}\n{reads}, asked {asked}");
        assert_eq!(place(&wrote), place(&reads));
        assert!(wrote[40..].starts_with("__WRIT__") && reads[40..].starts_with("__READ__"));
        assert_eq!((wrote.len(), reads.len()), (58, 58));
        assert_ne!(wrote[..39], reads[..39], "a new id for every create");
        let owner = stat(&format!("{path}/{reads}")).ephemeral_owner;
        assert!(owner != 0 && owner == of_write.ephemeral_owner, "{owner:x}");
        if asked == "under both" {
            let tokens = [hold_of(&read), hold_of(&write)].map(|hold| hold.fencing_token());
            assert!(tokens == [token; 2]);
        }
        write.unlock().unwrap();
        assert_eq!((hold_of(&read).node(), hold_of(&read).fencing_token()), (reads, token));
        assert!(token > last);
        last = token;
        read.unlock().unwrap();
    }
    read.lock().unwrap();
    assert!(hold_of(&read).fencing_token() > last, "one of its own");
    read.unlock().unwrap();
}

/// Operations that a lock may request. A read under a write is created in a transaction.
const OPS: [Op; 6] = [Op::Create, Op::Multi, Op::Delete, Op::Exists, Op::GetData, Op::GetChildren];

#[track_caller]
fn cost(stage: &Stage, what: &str, expected: [u64; 6], step: impl FnOnce()) {
    let before = OPS.map(|op| stage.proxy.requests(op));
    step();
    let cost = std::array::from_fn(|at| stage.proxy.requests(OPS[at]) - before[at]);
    println!("{what}: [create, multi, delete, exists, get_data, list] = {cost:?}");
    assert_eq!(cost, expected, "{what}");
}

#[test]
fn downgrade_costs_a_node_and_a_list_and_nesting_costs_nothing() {
    let stage = Stage::new("cost", 1);
    let lock = stage.lock(0);
    let (read, write) = (lock.read_lock(), lock.write_lock());
    read.lock().unwrap();
    cost(&stage, "a write that is tried under a read", [0, 0, 0, 0, 0, 1], || {
        assert!(!write.try_lock().unwrap());
    });
    read.unlock().unwrap();
    write.lock().unwrap();
    cost(&stage, "a read under a write", [0, 1, 0, 0, 0, 1], || read.lock().unwrap());
    read.unlock().unwrap();
    cost(&stage, "and one more", [0, 1, 0, 0, 0, 1], || read.lock().unwrap());
    cost(&stage, "entering both again", [0; 6], || {
        write.lock().unwrap();
        read.lock().unwrap();
        assert!(write.try_lock().unwrap());
        (0..2).for_each(|_| write.unlock().unwrap());
        read.unlock().unwrap();
    });
    cost(&stage, "the token of both", [0; 6], || {
        let [one, other] = [hold_of(&read), hold_of(&write)].map(|hold| hold.fencing_token());
        assert_eq!(one, other);
    });
    cost(&stage, "unlocking both", [0, 0, 2, 0, 0, 0], || {
        write.unlock().unwrap();
        read.unlock().unwrap();
    });
    assert_eq!(children(&stage.path), [""; 0]);
    stage.is_empty();
}

#[test]
fn write_with_a_deleted_node_allows_no_downgrade() {
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
        assert_lost(&refused, &path, DELETED);
        assert_lost(&read.try_lock(), &path, DELETED);
        assert_eq!((hold.state(), read.hold_count()), (HoldState::Lost(DELETED), 0));
        await_nodes(&path, 0);
        assert_eq!(shared_probe().unwrap().exists(&path).unwrap(), !directory_too);
        let other = rw_of(&others, &path).write_lock();
        assert!(other.try_lock_for(SOON).unwrap());
        other.unlock().unwrap();
        assert_lost(&write.unlock(), &path, DELETED);
        write.lock().unwrap();
        read.lock().unwrap();
        write.unlock().unwrap();
        read.unlock().unwrap();
        await_nodes(&path, 0);
    }
}

/// Each contender's kind, and whether it holds.
fn brief(seen: &[Contender]) -> Vec<(Kind, bool)> {
    seen.iter().map(|one| (one.kind, one.holds)).collect()
}

/// A third party must see what the holder reports, including a token that nobody has asked for yet.
#[test]
fn contenders_shows_a_downgraded_read_as_its_hold() {
    let ((proxy, ours), others) = (behind_a_proxy(SESSION), client());
    for is_cut in [false, true] {
        let path = fresh_path("downgrade-seen");
        let lock = rw_of(&ours, &path);
        let (read, write) = (lock.read_lock(), lock.write_lock());
        write.lock().unwrap();
        let before = others.contenders(&path).unwrap();
        let waits =
            [rw_of(&others, &path).read_lock().into(), rw_of(&others, &path).write_lock().into()]
                .into_iter()
                .enumerate()
                .map(|(ahead, lock): (usize, Box<dyn zoolock::Lock>)| {
                    let visitor = Visitor::start(lock);
                    await_nodes(&path, ahead + 2);
                    visitor
                });
        let [reader, writer]: [Visitor; 2] = waits.collect::<Vec<_>>().try_into().ok().unwrap();
        read.lock().unwrap();
        let both = read.contenders().unwrap();
        assert_eq!(both, write.contenders().unwrap());
        assert_eq!(both, others.contenders(&path).unwrap());
        println!("cut: {is_cut}: {both:?}");
        let (mut held, waiting) = (brief(&both[..2]), brief(&both[2..]));
        held.sort_by_key(|(kind, _)| *kind == Kind::Read);
        assert_eq!(held, [(Kind::Write, true), (Kind::Read, true)]);
        assert_eq!(waiting, [(Kind::Read, false), (Kind::Write, false)]);
        assert_eq!(both[0].sequence, both[1].sequence, "one place");
        for hold in [hold_of(&write), hold_of(&read)] {
            let shown = both.iter().find(|one| one.node == hold.node()).unwrap();
            assert_eq!(shown.token, hold.fencing_token(), "{shown:?}");
            assert!(others.verify_token(&path, shown.token).unwrap());
        }
        write.unlock().unwrap();
        reader.comes_in();
        let hold = hold_of(&read);
        if is_cut {
            proxy.cut();
            await_resumed(&ours, 1);
        }
        let token = hold.fencing_token();
        let seen = others.contenders(&path).unwrap();
        assert_eq!(brief(&seen), [(Kind::Read, true), (Kind::Read, true), (Kind::Write, false)]);
        assert_eq!((&seen[0].node, seen[0].token), (&hold.node(), token));
        let of_write = (before[0].token, &before[0].identity);
        assert_eq!((seen[0].token, &seen[0].identity), of_write, "as the write it came from");
        // Its node was created after the write.
        assert!(seen[0].since >= before[0].since);
        assert!(others.verify_token(&path, token).unwrap());
        read.unlock().unwrap();
        assert!(!others.verify_token(&path, token).unwrap());
        reader.leaves();
        writer.comes_in();
        writer.leaves();
    }
}
