//! Downgrades: a writer becomes a reader without a gap.

use zoolock_test_support::{Op, fresh_path};

use super::{Stage, rw_of};
use common::{children, client, hold_of, place, stat};

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
