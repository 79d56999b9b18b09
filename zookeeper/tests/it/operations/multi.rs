//! Transactions: all changes apply, or none.

use zoolock_zookeeper::{Acl, CreateMode, ErrorKind, Op, OpResult};

use crate::util::{client, make, root};

#[test]
fn transaction_applies_its_changes_in_order() {
    let client = client();
    let root = root("multi");
    let at = |name: &str| format!("{root}/{name}");
    let (old, new, numbered) = (at("old"), at("new"), at("n-"));
    make(&client, &old, b"");
    let acl = Acl::open();
    let create = |path, mode| Op::Create(path, b"made", &acl, mode);
    let results = client
        .multi(&[
            Op::Check(&root, Some(0)),
            create(&new, CreateMode::Ephemeral),
            Op::SetData(&new, b"set", Some(0)),
            Op::Delete(&old, None),
            create(&old, CreateMode::Persistent),
            create(&numbered, CreateMode::PersistentSequential),
        ])
        .unwrap();
    println!("{results:?}");
    let Some(OpResult::Set(stat)) = results.get(2).cloned() else {
        panic!("{results:?}");
    };
    assert_eq!((stat.version, stat.ephemeral_owner), (1, client.session_id()));
    let numbered = format!("{numbered}0000000003");
    // All of them are made by one transaction.
    let made = |path| OpResult::Created { path, czxid: stat.czxid };
    let wanted = [
        OpResult::Checked,
        made(new.clone()),
        OpResult::Set(stat),
        OpResult::Deleted,
        made(old.clone()),
        made(numbered),
    ];
    assert_eq!(results, wanted);
    assert_eq!(client.get_data(&new).unwrap(), (b"set".to_vec(), stat));
    assert_eq!(client.get_data(&old).unwrap().0, b"made");
}

#[test]
fn refused_transaction_changes_nothing_and_names_the_cause() {
    let client = client();
    let root = root("multi");
    let at = |name: &str| format!("{root}/{name}");
    let (a, b, none) = (at("a"), at("b"), at("none"));
    make(&client, &a, b"");
    let acl = Acl::open();
    let create = |path| Op::Create(path, b"", &acl, CreateMode::Persistent);
    let fine = [create(&b), Op::SetData(&a, b"set", None), Op::Check(&root, None)];
    let refused = [
        (create(&a), ErrorKind::NodeExists),
        (create(&none), ErrorKind::NodeExists),
        (Op::Delete(&none, None), ErrorKind::NoNode),
        (Op::Delete(&root, None), ErrorKind::NotEmpty),
        (Op::Delete(&a, Some(7)), ErrorKind::BadVersion),
        (Op::SetData(&a, b"", Some(7)), ErrorKind::BadVersion),
        (Op::Check(&a, Some(7)), ErrorKind::BadVersion),
        (Op::Check(&none, None), ErrorKind::NoNode),
    ];
    for (bad, kind) in refused {
        for index in 0..=fine.len() {
            let mut ops = fine.to_vec();
            ops.insert(index, bad);
            if matches!(bad, Op::Create(path, ..) if path == none) {
                ops.insert(index, bad);
            }
            // Of two equal creates, the second is refused.
            let failed = index + ops.len() - fine.len() - 1;
            let error = client.multi(&ops).unwrap_err();
            println!("{error}");
            assert_eq!((error.kind(), error.failed_op()), (kind, Some(failed)), "{bad:?}");
            assert!(!error.is_maybe_done());
        }
    }
    assert_eq!(client.get_children(&root).unwrap().0, ["a"]);
    assert_eq!(client.exists(&a).unwrap().unwrap().version, 0);
}

#[test]
fn transactions_may_be_empty_or_long() {
    let client = client();
    let root = root("multi");
    assert_eq!(client.multi(&[]).unwrap(), []);
    let set = Op::SetData(&root, b"x", None);
    let results = client.multi(&[set; 5000]).unwrap();
    assert_eq!(results.len(), 5000);
    assert!(matches!(results[4999], OpResult::Set(stat) if stat.version == 5000));
}
