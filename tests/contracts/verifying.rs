//! `Client::verify_token` for third parties. `every` has the basics.

use zoolock::Error;
use zoolock_test_support::{Op, fresh_path, shared_probe};

use common::{SESSION, client, client_of, in_time, lock_of, owner, shared_proxy};

#[test]
fn verify_token_needs_read_permission_and_changes_nothing() {
    let (owner, path) = (owner(), fresh_path("verify-owned"));
    let held = lock_of(&owner, &path).acquire().unwrap();
    // Newer servers show a node's stat only to clients that may read it.
    let probe = shared_probe().unwrap();
    probe.add_auth("digest", b"owner:secret").unwrap();
    let stat = || format!("{:?}", probe.stat(&path).unwrap());
    let before = stat();
    assert!(owner.verify_token(&path, held.fencing_token()).unwrap());
    let refused = client().verify_token(&path, held.fencing_token());
    assert!(matches!(refused, Err(Error::Denied { .. })), "{refused:?}");
    assert_eq!(stat(), before);
}

#[test]
fn verify_token_asks_the_leader_within_a_third_of_the_timeout() {
    let (proxy, path) = (shared_proxy(), fresh_path("verify-silent"));
    let held = lock_of(&client(), &path).acquire().unwrap();
    let asking = client_of(&proxy.connect_string(), SESSION);
    let verify = || asking.verify_token(&path, held.fencing_token());
    let writes = proxy.requests(Op::SetData);
    assert!(verify().unwrap());
    assert!(proxy.requests(Op::SetData) > writes);
    let lost = proxy.hold_request(Op::SetData, 1);
    let answer = in_time("without an answer", SESSION / 2, verify);
    assert!(lost.fired());
    assert!(matches!(answer, Err(Error::Disconnected { .. })), "{answer:?}");
}
