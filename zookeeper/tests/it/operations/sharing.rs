//! Creates and deletes that share transactions.

use std::collections::HashSet;
use std::thread;

use zoolock_zookeeper::{Acl, Batch, CreateMode, ErrorKind, Op, OpResult, Pending, ZooKeeper};

use crate::util::{client, kind, make, root};

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

/// Their czxids are fencing tokens of one lock.
#[test]
fn nodes_of_one_directory_never_share_a_czxid() {
    let (client, root) = (client(), root("sharing"));
    let mode = CreateMode::EphemeralSequential;
    let directory = make(&client, &format!("{root}/one"), b"");
    let other = make(&client, &format!("{root}/other"), b"");
    let path = |index| format!("{}/n-", if index % 7 == 0 { &other } else { &directory });
    let created = create_all(&client, path, mode);
    let created: Vec<_> = created.into_iter().map(|one| one.wait().unwrap()).collect();
    let of = |directory: &str| -> Vec<_> {
        let prefix = format!("{directory}/");
        created.iter().filter(|(path, _)| path.starts_with(&prefix)).collect()
    };
    for directory in [directory, other] {
        let created = of(&directory);
        let czxids: HashSet<_> = created.iter().map(|(_, czxid)| czxid).collect();
        assert_eq!(czxids.len(), created.len(), "{created:?}");
        assert!(created.is_sorted_by(|(a, x), (b, y)| (a < b) == (x < y)), "{created:?}");
    }
}

#[test]
fn refused_part_fails_alone_and_reads_show_the_others() {
    let (client, root) = (client(), root("sharing"));
    let directories = directories(&client, &root);
    let acl = Acl::open();
    // Every ninth directory does not exist, and every tenth delete finds nothing.
    let directory = |index: usize| match index % 9 {
        0 => format!("{root}/none/{index}"),
        _ => directories[index].clone(),
    };
    let ask = |index: usize| {
        let directory = directory(index);
        let submit = |batch: &mut Batch<'_>| {
            let mode = CreateMode::Ephemeral;
            let path = format!("{directory}/node");
            let created = batch.shared_create(&path, b"", &acl, mode);
            let none =
                index.is_multiple_of(10).then(|| batch.shared_delete(&format!("{root}/nothing")));
            (created, none, batch.get_children(&directory, None))
        };
        client.submit(submit)
    };
    let asked: Vec<_> = (0..MANY).map(ask).collect();
    for (index, (created, none, listed)) in asked.into_iter().enumerate() {
        // The list is the last answer.
        let listed = listed.wait();
        assert!(created.is_done(), "{index}");
        if let Some(none) = none {
            assert_eq!(kind(none.wait()), ErrorKind::NoNode, "{index}");
        }
        if index.is_multiple_of(9) {
            assert_eq!(kind(created.wait()), ErrorKind::NoNode, "{index}");
            assert_eq!(kind(listed), ErrorKind::NoNode, "{index}");
            continue;
        }
        let (path, czxid) = created.wait().unwrap();
        assert!(listed.unwrap().0.contains("node"), "a list lacks {path}");
        assert_eq!(client.exists(&path).unwrap().map(|stat| stat.czxid), Some(czxid));
    }
}

#[test]
fn threads_share_transactions_beside_other_writers() {
    let (client, root) = (client(), root("sharing"));
    let acl = &Acl::open();
    thread::scope(|scope| {
        for thread in 0..16 {
            let (client, directory) = (&client, make(&client, &format!("{root}/{thread}"), b""));
            scope.spawn(move || {
                for turn in 0..100 {
                    let prefix = format!("{directory}/n-");
                    let mode = CreateMode::EphemeralSequential;
                    let (created, listed) = client.submit(|batch| {
                        let created = batch.shared_create(&prefix, b"", acl, mode);
                        (created, batch.get_children(&directory, None))
                    });
                    let (names, _) = listed.wait().unwrap();
                    let (path, czxid) = created.wait().unwrap();
                    assert_eq!(names.iter().collect::<Vec<_>>(), [&path[directory.len() + 1..]]);
                    if turn % 10 == 0 {
                        let stat = client.exists(&path).unwrap().unwrap();
                        assert_eq!(stat.czxid, czxid, "{path}");
                    }
                    client.submit(|batch| batch.shared_delete(&path)).wait().unwrap();
                }
            });
        }
    });
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

#[test]
fn request_behind_another_kind_of_request_keeps_its_place() {
    let (client, root) = (client(), root("sharing"));
    let path = make(&client, &format!("{root}/node"), b"");
    let asked: Vec<_> = (0..MANY)
        .map(|index| {
            client.submit(|batch| {
                let read = batch.get_data(&path, None);
                (
                    read,
                    batch.shared_create(
                        &format!("{root}/{index}"),
                        b"",
                        &Acl::open(),
                        CreateMode::Ephemeral,
                    ),
                )
            })
        })
        .collect();
    let deleted = client.submit(|batch| batch.shared_delete(&path));
    for (read, created) in asked {
        read.wait().unwrap();
        created.wait().unwrap();
    }
    deleted.wait().unwrap();
}
