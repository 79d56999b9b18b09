//! Downgrades: a writer becomes a reader without a gap.

use zoolock_test_support::fresh_path;

use super::{Stage, rw_of};
use common::{children, client, cost, hold_of, place, stat};

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

#[test]
fn downgrade_costs_a_node_and_a_list_and_nesting_costs_nothing() {
    let stage = Stage::new("cost", 1);
    let lock = stage.lock(0);
    let (read, write) = (lock.read_lock(), lock.write_lock());
    let costs = |what: &str, [list, delete, transaction]: [u64; 3], step: &dyn Fn()| {
        assert_eq!(cost(&stage.proxy, step), [0, delete, list, 0, transaction], "{what}");
    };
    read.lock().unwrap();
    costs("a write that is tried under a read", [1, 0, 0], &|| {
        assert!(!write.try_lock().unwrap());
    });
    read.unlock().unwrap();
    write.lock().unwrap();
    // It is created in a transaction.
    costs("a read under a write", [1, 0, 1], &|| read.lock().unwrap());
    read.unlock().unwrap();
    costs("and one more", [1, 0, 1], &|| read.lock().unwrap());
    costs("entering both again, and the token of both", [0; 3], &|| {
        write.lock().unwrap();
        read.lock().unwrap();
        assert!(write.try_lock().unwrap());
        (0..2).for_each(|_| write.unlock().unwrap());
        read.unlock().unwrap();
        assert_eq!(hold_of(&read).fencing_token(), hold_of(&write).fencing_token());
    });
    costs("unlocking both", [0, 2, 0], &|| {
        write.unlock().unwrap();
        read.unlock().unwrap();
    });
    assert_eq!(children(&stage.path), [""; 0]);
    stage.is_empty();
}
