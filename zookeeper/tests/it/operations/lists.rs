//! Lists of several nodes in one request.

use zoolock_zookeeper::{Acl, CreateMode, ErrorKind, Names};

use crate::util::{client, make, root};

#[test]
fn several_nodes_are_listed_in_one_request() {
    let client = client();
    let root = root("lists");
    let at = |name: &str| format!("{root}/{name}");
    for name in ["a", "a/x", "a/y", "b", "c", "c/z"] {
        make(&client, &at(name), b"");
    }
    let private = [Acl::new(zoolock_zookeeper::Permissions::ALL, "digest", "somebody:else")];
    client.create(&at("private"), b"", &private, CreateMode::Persistent).unwrap();
    let before = client.counts().requests;
    let paths = ["a", "b", "none", "private", "c"].map(at);
    let lists = client.get_children_of_each(&paths).unwrap();
    assert_eq!(client.counts().requests, before + 1);
    println!("{lists:?}");
    let sorted = |names: &Names| {
        let mut names: Vec<_> = names.iter().map(str::to_owned).collect();
        names.sort();
        names
    };
    let seen: Vec<_> =
        lists.iter().map(|list| list.as_ref().map(sorted).map_err(|error| error.kind())).collect();
    let names = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect());
    let wanted = [
        names(&["x", "y"]),
        names(&[]),
        Err(ErrorKind::NoNode),
        Err(ErrorKind::NoAuth),
        names(&["z"]),
    ];
    assert_eq!(seen, wanted);
    let missing = lists[2].as_ref().unwrap_err().to_string();
    assert!(missing.contains(&paths[2]), "{missing}");
    assert!(client.get_children_of_each::<&str>(&[]).unwrap().is_empty());
}

#[test]
fn lists_behind_a_write_show_it() {
    let client = client();
    let root = root("lists");
    for name in ["a", "b"] {
        make(&client, &format!("{root}/{name}"), b"");
    }
    let directories = ["a", "b"].map(|name| format!("{root}/{name}"));
    let acl = Acl::open();
    let (created, lists) = client.submit(|batch| {
        let create = |directory| {
            let path = format!("{directory}/n-");
            batch.shared_create(&path, b"", &acl, CreateMode::EphemeralSequential)
        };
        let created: Vec<_> = directories.each_ref().map(create).into();
        (created, batch.get_children_of_each(&directories))
    });
    let lists = lists.wait().unwrap();
    for ((created, list), directory) in created.into_iter().zip(lists).zip(&directories) {
        let path = created.wait().unwrap().0;
        let name = path.strip_prefix(&format!("{directory}/")).unwrap();
        assert!(list.unwrap().contains(name), "{path}");
    }
}
