//! What a node is called, and what it says.

use std::fs;
use std::process;
use std::thread;

use zoolock::{Client, DistributedLock, DistributedReentrantLock};
use zoolock_test_support::{connect_string, fresh_path, shared_probe};

use common::{children, client, lock_of};

#[test]
fn a_node_says_who_made_it() {
    let probe = shared_probe().unwrap();
    let of_lock = |lock: &DistributedLock| {
        lock.lock().unwrap();
        let node = format!("{}/{}", lock.path(), lock.hold().unwrap().node());
        let (data, _) = probe.get(&node).unwrap().expect("the node");
        lock.unlock().unwrap();
        String::from_utf8(data).unwrap()
    };
    let lock = DistributedLock::new(&client(), fresh_path("identity")).unwrap();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let (host, process) = (host.trim(), process::id());
    let seen = thread::scope(|scope| {
        let named = thread::Builder::new().name("Jürgen".into());
        let named = named.spawn_scoped(scope, || of_lock(&lock)).unwrap();
        named.join().unwrap()
    });
    println!("{seen}");
    assert_eq!(seen, format!("{host}/{process}/Jürgen"));

    let seen = thread::scope(|scope| scope.spawn(|| of_lock(&lock)).join().unwrap());
    println!("{seen}");
    let thread = seen.strip_prefix(&format!("{host}/{process}/"));
    assert!(thread.is_some_and(|thread| !thread.is_empty()), "{seen}");

    let builder = Client::builder(&connect_string()).identity("the night shift, line 3 ✓");
    let client = builder.connect().unwrap();
    let lock = DistributedLock::new(&client, fresh_path("identity")).unwrap();
    assert_eq!(of_lock(&lock), "the night shift, line 3 ✓");
}

/// Takes `_c_<uuid>-lock-<seq>` apart.
fn uuid_and_sequence(name: &str) -> Option<(&str, i64)> {
    let (uuid, rest) = name.strip_prefix("_c_")?.split_at_checked(36)?;
    let is_dash = |at: usize| [8, 13, 18, 23].contains(&at);
    let is_uuid = uuid.bytes().enumerate().all(|(at, byte)| match byte {
        b'-' => is_dash(at),
        b'0'..=b'9' | b'a'..=b'f' => !is_dash(at),
        _ => false,
    });
    let digits = rest.strip_prefix("-lock-")?;
    let is_sequence = digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_uuid && is_sequence).then_some((uuid, digits.parse().ok()?))
}

#[test]
fn node_names_are_curators() {
    let client = client();
    let path = fresh_path("names");
    let lock = lock_of(&client, &path);
    let reentrant = DistributedReentrantLock::new(&client, &path).unwrap();
    let mut names = Vec::new();
    for _ in 0..3 {
        lock.lock().unwrap();
        names.extend(children(&path));
        lock.unlock().unwrap();
        reentrant.lock().unwrap();
        names.extend(children(&path));
        reentrant.unlock().unwrap();
    }
    println!("{names:#?}");
    assert_eq!(names.len(), 6, "{names:?}");
    let parsed: Vec<_> = names.iter().map(|name| uuid_and_sequence(name)).collect();
    assert!(parsed.iter().all(Option::is_some), "{names:?}");
    for (at, (uuid, sequence)) in parsed.iter().flatten().enumerate() {
        assert_eq!(*sequence, at as i64, "{names:?}");
        let same = parsed.iter().flatten().filter(|(other, _)| other == uuid);
        assert_eq!(same.count(), 1, "a uuid is new for every create: {names:?}");
    }
}
