//! Transactions: all changes apply, or none.

use zoolock_zookeeper::{Acl, CreateMode, ErrorKind, Op};

use crate::util::{client, make, root};

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
