//! What may be a member, which of them are the same, and in which order they are taken.

use std::sync::Arc;
use std::time::Duration;

use zoolock::{
    DistributedReentrantLock, DistributedRwLock, EphemeralLock, Error, Lock, LockId, MultiLock,
};
use zoolock_test_support::{fresh_path, shared_probe};

use super::scripted::{Does, Script, Scripted};
use super::{members, multi, nodes, paths};
use common::{SOON, client, client_of, lock_of, shared_address, shared_proxy};

#[track_caller]
fn refused(locks: impl IntoIterator<Item = Box<dyn Lock>>) -> String {
    let error = MultiLock::new(locks).expect_err("refused");
    println!("{error}");
    match error {
        Error::InvalidArgument { what: "list of locks", reason } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn clones_are_taken_once() {
    let client = client();
    let root = fresh_path("multi-clones");
    let [a, b] = members(&client, &root, ["a", "b"]);
    let r = DistributedReentrantLock::new(&client, format!("{root}/r")).unwrap();
    let given: [Box<dyn Lock>; 6] = [
        a.clone().into(),
        r.clone().into(),
        b.clone().into(),
        Box::new(Arc::new(a.clone())),
        Box::new(Box::new(r.clone())),
        b.clone().into(),
    ];
    let multi = MultiLock::new(given).unwrap();
    println!("{}", multi.path());
    assert_eq!(paths(&multi), [a.path(), b.path(), r.path()]);
    multi.lock().unwrap();
    assert_eq!((nodes(&multi), r.hold_count()), (vec![1, 1, 1], 1));
    multi.unlock().unwrap();
    assert!(!a.is_held() && !b.is_held() && r.hold_count() == 0);
}

#[test]
fn members_may_be_of_any_type() {
    let clients = [client(), client()];
    let root = fresh_path("multi-types");
    let at = |name: &str| format!("{root}/{name}");
    let locks = clients.each_ref().map(|client| {
        let given: [Box<dyn Lock>; 5] = [
            DistributedRwLock::new(client, at("e")).unwrap().read_lock().into(),
            DistributedRwLock::new(client, at("d")).unwrap().write_lock().into(),
            EphemeralLock::new(client, at("c")).unwrap().into(),
            DistributedReentrantLock::new(client, at("b")).unwrap().into(),
            lock_of(client, &at("a")).into(),
        ];
        MultiLock::new(given).unwrap()
    });
    assert_eq!(paths(&locks[0]), ["a", "b", "c", "d", "e"].map(at));
    locks[0].lock().unwrap();
    println!("{:?}", locks[0].holds());
    assert_eq!(locks[0].holds().len(), 5);
    assert!(!locks[1].try_lock().unwrap());
    assert!(locks[1].locks()[4].try_lock().unwrap(), "a second reader");
    assert!(!locks[1].is_held());
    locks[1].locks()[4].unlock().unwrap();
    locks[0].unlock().unwrap();
    assert!(locks[1].try_lock_for(SOON).unwrap());
    locks[1].unlock().unwrap();
}

#[test]
fn ids_tell_objects_and_places() {
    let client = client();
    let root = fresh_path("multi-ids");
    let [a, b] = members(&client, &root, ["a", "b"]);
    let other = lock_of(&client, a.path());
    let id = a.id();
    println!("{id:?}");
    assert_eq!([&a.clone().id(), &(&&a).id(), &Arc::new(a.clone()).id()], [&id; 3]);
    assert_eq!(Box::<dyn Lock>::from(a.clone()).id(), id);
    assert_ne!(other.id(), id);
    assert!(b.id() > id && b.id() > other.id());
    assert_ne!(LockId::new(a.path()), id);
    let script = Script::new([("/x", Does::Well, Does::Well)]);
    assert_eq!(script.multi.locks()[0].id(), LockId::new("/x"));
    assert_ne!(script.multi.id(), LockId::new("/x"));
}

#[test]
fn two_objects_on_one_path_are_refused() {
    let clients = [client(), client()];
    let root = fresh_path("multi-twice");
    let [a, b] = members(&clients[0], &root, ["a", "b"]);
    let own = DistributedReentrantLock::new(&clients[0], a.path()).unwrap();
    let rw = DistributedRwLock::new(&clients[1], a.path()).unwrap();
    let single = EphemeralLock::new(&clients[0], a.path()).unwrap();
    let twins: [Box<dyn Lock>; 6] = [
        lock_of(&clients[0], a.path()).into(),
        lock_of(&clients[1], a.path()).into(),
        own.into(),
        rw.read_lock().into(),
        rw.write_lock().into(),
        single.into(),
    ];
    for twin in twins {
        let reason = refused([a.clone().into(), b.clone().into(), twin, a.clone().into()]);
        assert!(reason.contains(&format!("{:?}", a.path())), "{reason}");
    }

    // The two sides of a read-write lock exclude each other, a side is the same however got.
    let reason = refused([rw.read_lock().into(), rw.write_lock().into()]);
    assert!(reason.contains(&format!("{:?}", rw.path())), "{reason}");
    let readers = [rw.read_lock().into(), rw.read_lock().into()];
    assert_eq!(MultiLock::new(readers).unwrap().locks().len(), 1);

    // Of a user's own locks nothing is known but their paths, not even that one is the other.
    let own: Arc<dyn Lock> = Arc::new(Scripted::new("/x", Does::Well, Does::Well, Arc::default()));
    let reason = refused([Box::new(Arc::clone(&own)) as Box<dyn Lock>, Box::new(own)]);
    assert!(reason.contains("\"/x\""), "{reason}");
}

#[test]
fn one_path_below_different_chroots_is_one_path() {
    let (server, root) = (shared_address(), fresh_path("multi-chroot"));
    let top = client_of(&server.to_string(), Duration::from_secs(10));
    let below = client_of(&format!("{server}{root}"), Duration::from_secs(10));
    let probe = shared_probe().unwrap();
    probe.create_all(&root).unwrap();
    let (outer, inner) = (lock_of(&top, &format!("{root}/a")), lock_of(&below, "/a"));
    let reason = refused([outer.clone().into(), inner.clone().into()]);
    assert!(reason.contains(outer.path()), "{reason}");
    // They do exclude each other.
    outer.lock().unwrap();
    assert!(!inner.try_lock().unwrap());
    outer.unlock().unwrap();

    // Sorted by the whole path, not by what is below the chroot.
    let (high, low) = (lock_of(&top, &format!("{root}/b")), lock_of(&below, "/c"));
    let both = MultiLock::new([low.clone().into(), high.clone().into()]).unwrap();
    println!("{}", both.path());
    assert_eq!(paths(&both), [high.path(), low.path()]);
    both.lock().unwrap();
    both.unlock().unwrap();
    // The same path below different chroots is two.
    let [one, two] = [lock_of(&top, "/zoolock-test-a"), lock_of(&below, "/zoolock-test-a")];
    assert_eq!(MultiLock::new([one.into(), two.into()]).unwrap().locks().len(), 2);
}

#[test]
fn the_same_servers_in_another_order_are_the_same_ensemble() {
    let proxies = [shared_proxy(), shared_proxy()];
    let [first, second] = proxies.each_ref().map(|proxy| proxy.connect_string());
    let path = fresh_path("multi-servers");
    let connect = |hosts: &str| client_of(hosts, Duration::from_secs(10));
    let one = lock_of(&connect(&format!("{first},{second}")), &path);
    let other = lock_of(&connect(&format!("{second}, {first} ,{second}/")), &path);
    let fewer = lock_of(&connect(&first), &path);
    println!("{:?}\n{:?}\n{:?}", one.id(), other.id(), fewer.id());
    refused([one.clone().into(), other.into()]);
    assert!(MultiLock::new([one.into(), fewer.into()]).is_ok(), "another list");
}

#[test]
fn an_empty_one_and_a_nested_one_are_refused() {
    assert_eq!(refused([]), "it is empty");
    let client = client();
    let root = fresh_path("multi-nested");
    let inner = multi(&client, &root, ["b", "c"]);
    let [a] = members(&client, &root, ["a"]);
    for nested in [inner.clone().into(), Box::new(Arc::new(inner.clone())) as Box<dyn Lock>] {
        let reason = refused([a.clone().into(), nested]);
        assert!(reason.contains(inner.path()) && reason.contains("its members"), "{reason}");
    }
    refused([inner.clone().into(), inner.into()]);
}

#[test]
fn it_can_go_to_any_thread() {
    fn both<T: Send + Sync + 'static>() {}
    both::<MultiLock>();
    both::<LockId>();
}
