//! Creates and deletes that share transactions.

use zoolock_zookeeper::{Acl, CreateMode, Op, OpResult, Pending, ZooKeeper};

use crate::util::{client, make, root};

/// More writes than one transaction takes.
const MANY: usize = 100;

/// Creates that are submitted at once: the first ones are sent alone, and the others gather.
fn create_all(
    client: &ZooKeeper,
    path: impl Fn(usize) -> String,
    mode: CreateMode,
) -> Vec<Pending<(String, i64)>> {
    let acl = Acl::open();
    let create = |index| {
        let path = path(index);
        client.submit(|batch| batch.shared_create(&path, b"data", &acl, mode))
    };
    (0..MANY).map(create).collect()
}

fn directories(client: &ZooKeeper, root: &str) -> Vec<String> {
    (0..MANY).map(|index| make(client, &format!("{root}/{index}"), b"")).collect()
}

/// Returns the newest transaction of the servers, which is one of its own.
fn transactions(client: &ZooKeeper, root: &str) -> i64 {
    client.set_data(root, b"", None).unwrap().mzxid
}

#[test]
fn writes_that_meet_share_transactions_and_know_their_czxids() {
    let (client, root) = (client(), root("sharing"));
    let directories = directories(&client, &root);
    let (before, requests) = (transactions(&client, &root), client.counts().requests);
    let mode = CreateMode::EphemeralSequential;
    let created = create_all(&client, |index| format!("{}/n-", directories[index]), mode);
    let created: Vec<_> = created.into_iter().map(|one| one.wait().unwrap()).collect();
    let requests = client.counts().requests - requests;
    let transactions = transactions(&client, &root) - before - 1;
    println!("{MANY} creates: {requests} requests, {transactions} transactions");
    // Other tests use the same server.
    assert!(requests <= 10, "{requests} requests");
    for (index, (path, czxid)) in created.iter().enumerate() {
        assert_eq!(*path, format!("{}/n-0000000000", directories[index]));
        let (data, stat) = client.get_data(path).unwrap();
        assert_eq!((data, stat.czxid), (b"data".to_vec(), *czxid), "{path}");
    }
    let deleted: Vec<_> =
        created.iter().map(|(path, _)| client.submit(|batch| batch.shared_delete(path))).collect();
    deleted.into_iter().for_each(|one| one.wait().unwrap());
    for (path, _) in &created {
        assert_eq!(client.exists(path).unwrap(), None);
    }
}

/// New directories, each with its node, and further nodes in one of them and above it.
#[test]
fn transactions_of_one_batch_share_one_and_keep_czxids_apart() {
    let (client, root) = (client(), root("sharing"));
    let acl = Acl::open();
    let (mode, directory) = (CreateMode::Ephemeral, |index| format!("{root}/{index}"));
    let (before, requests) = (transactions(&client, &root), client.counts().requests);
    let (made, others, listed) = client.submit(|batch| {
        let make = |index| {
            let directory = directory(index);
            let node = format!("{directory}/node");
            let directory = Op::Create(&directory, b"", &acl, CreateMode::Container);
            batch.shared_multi(&[directory, Op::Create(&node, b"", &acl, mode)])
        };
        let made: Vec<_> = (0..4).map(make).collect();
        let others = [format!("{}/other", directory(0)), format!("{root}/above")];
        let others = others.map(|path| batch.shared_create(&path, b"", &acl, mode));
        (made, others, batch.get_children(&directory(0), None))
    });
    let (names, _) = listed.wait().unwrap();
    assert!(names.contains("node") && names.contains("other"), "{names:?}");
    let requests = client.counts().requests - requests;
    let transactions = transactions(&client, &root) - before - 1;
    println!("{requests} requests, {transactions} transactions");
    assert_eq!(requests, 4);
    let others = others.map(|other| other.wait().unwrap().1);
    assert_ne!(others[0], others[1]);
    for (index, made) in made.into_iter().enumerate() {
        let czxid = client.exists(&directory(index)).unwrap().unwrap().czxid;
        let node = OpResult::Created { path: format!("{}/node", directory(index)), czxid };
        assert_eq!(made.wait().unwrap()[1..], [node]);
        assert!(!others.contains(&czxid), "{czxid:#x} {others:x?}");
    }
}
