//! What a contender calls itself.

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    EphemeralLock, Error, LockOptions,
};
use zoolock_test_support::{connect_string, fresh_path};

use super::{client_called, identities, look};
use common::{client, lock_of};

#[test]
fn an_identity_may_have_16_kib_and_no_more() {
    let client = client();
    let long = "x".repeat(16 * 1024);
    let path = fresh_path("long-identity");
    let options = LockOptions::new().identity(&*long);
    let lock = DistributedLock::with(&client, &path, options).unwrap();
    let guard = lock.acquire().unwrap();
    let seen = lock.contenders().unwrap();
    assert_eq!(identities(&seen), [Some(&*long)]);
    guard.release().unwrap();
    let named = client_called(&long);
    assert!(lock_of(&named, &path).try_lock().unwrap());
    named.close().unwrap();

    let long = format!("{long}y");
    is_no_identity(&client, &path, &long);
}

#[test]
fn an_identity_that_would_be_read_as_something_else_is_refused() {
    let client = client();
    let path = fresh_path("odd-identity");
    is_no_identity(&client, &path, "__REVOKE__");
    for identity in ["", " ", "a __REVOKE__", "__REVOKE__ a", "a\n_zoolock token=1 since=2"] {
        let options = LockOptions::new().identity(identity);
        let lock = DistributedLock::with(&client, &path, options).unwrap();
        let guard = lock.acquire().unwrap();
        let seen = look("odd", lock.contenders());
        assert_eq!(identities(&seen), [Some(identity)]);
        guard.release().unwrap();
    }
}

fn is_no_identity(client: &Client, path: &str, identity: &str) {
    let options = || LockOptions::new().identity(identity);
    let builder = Client::builder(&connect_string()).identity(identity);
    let seen = [
        DistributedLock::with(client, path, options()).map(drop),
        DistributedReentrantLock::with(client, path, options()).map(drop),
        DistributedRwLock::with(client, path, options()).map(drop),
        EphemeralLock::with(client, path, options()).map(drop),
        DistributedSemaphore::with(client, path, 1, options()).map(drop),
        builder.connect().map(drop),
    ];
    for seen in seen {
        let refused = matches!(&seen, Err(Error::InvalidArgument { what: "identity", .. }));
        let shown: String = identity.chars().take(40).collect();
        assert!(refused, "{shown:?}: {seen:?}");
    }
}

/// `<host>/<process>/<thread>`; the host may be anything.
#[test]
fn unless_told_otherwise_it_is_the_host_the_process_and_the_thread() {
    let path = fresh_path("default-identity");
    let lock = lock_of(&client(), &path);
    lock.lock().unwrap();
    let seen = look("by default", lock.contenders());
    let who = seen[0].identity.as_deref().unwrap();
    let tail = format!("/{}/{}", std::process::id(), std::thread::current().name().unwrap());
    assert!(who.ends_with(&tail) && who.len() > tail.len(), "{who:?}, {tail:?}");
}
