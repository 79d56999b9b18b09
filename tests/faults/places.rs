//! Releases after the end of the session.

use zoolock_test_support::fresh_path;

use common::{Task, client, lock_of, warnings};

#[test]
fn drops_after_a_close_or_of_a_stale_guard_are_logged_and_do_not_hang() {
    let closing = client();
    let path = fresh_path("close");
    warnings(&path);
    let [lock, raw] = ["a", "b"].map(|name| lock_of(&closing, &format!("{path}/{name}")));
    let stale = lock.acquire().unwrap();
    lock.unlock().unwrap();
    drop(stale);
    assert!(warnings(&path).iter().any(|line| line.contains("is not held")), "{path}");
    let guard = lock.acquire().unwrap();
    raw.lock().unwrap();
    let dropped = Task::spawn(move || {
        closing.close().unwrap();
        drop((guard, raw, lock));
        closing.close().unwrap();
    });
    dropped.result("drops after a close");
    let logged = warnings(&path);
    println!("{logged:#?}");
    let told = logged.iter().filter(|line| line.contains("the client was closed"));
    assert!(told.count() >= 2, "{logged:#?}");
}
