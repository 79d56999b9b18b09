//! What a client reads first after a resume.

use std::time::Duration;

use zoolock_test_support::{fresh_path, shared_probe};

use common::{await_resumed, behind_a_proxy};

/// The session does not end during the test.
const LONG: Duration = Duration::from_secs(30);

/// An event carries no transaction id. The server of a resumed session may lag behind the event that grants
/// a lock, and still show data that the previous holder has overwritten.
#[test]
fn first_read_after_a_resume_follows_a_write() {
    let data = fresh_path("data");
    shared_probe().unwrap().create(&data, b"new", false, false).unwrap();
    let (proxy, own) = behind_a_proxy(LONG);
    for round in 1..=20 {
        proxy.cut();
        await_resumed(&own, round);
        let before = proxy.log().len();
        let (read, _) = own.read(&data).unwrap().expect("it is there");
        assert_eq!(read, b"new");
        let log = proxy.log().split_off(before);
        let sent = || log.iter().filter(|line| line.contains(" > "));
        let at = |what: &str| sent().position(|line| line.contains(what));
        let (write, read_at) = (at("> SetData"), at("> GetData"));
        println!("round {round}: {:?}", sent().collect::<Vec<_>>());
        assert!(write.is_some() && write < read_at, "not behind a write: {log:#?}");
    }
}
