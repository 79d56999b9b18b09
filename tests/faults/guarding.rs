//! Guarded writes that have no answer.

use std::time::Duration;

use zoolock::{DistributedLock, Error, LockOptions};
use zoolock_test_support::{Op, Then, fresh_path, shared_probe};

use common::{Visitor, await_resumed, client_of, shared_proxy};

/// No lease ends in it, however slow the machine is.
const LONG: Duration = Duration::from_secs(30);

fn node(name: &str) -> String {
    let path = fresh_path(name);
    shared_probe().unwrap().create(&path, b"old", false, false).unwrap();
    path
}

/// With its node it would be carried out for whoever has the lock by then.
#[test]
fn nothing_is_left_to_another_thread_while_a_write_may_yet_be_carried_out() {
    let options = LockOptions::new;
    for (what, options, is_left) in [
        ("handed on", options().local_handoffs(8), true),
        ("kept", options().keep_idle(LONG), true),
        ("handed on, unanswered", options().local_handoffs(8), false),
        ("kept, unanswered", options().keep_idle(LONG), false),
    ] {
        let (proxy, guarded) = (shared_proxy(), node("guarded"));
        let own = client_of(&proxy.connect_string(), LONG);
        let lock = DistributedLock::with_options(&own, fresh_path("unanswered"), options).unwrap();
        let visitor = Visitor::start_asleep(lock.clone());
        let hold = visitor.hold();
        let next = Visitor::start_asleep(lock.clone());
        let write = hold.transaction().set(&guarded, "new", None);
        if is_left {
            write.commit().unwrap();
        } else {
            let lost = proxy.drop_answer(Op::Multi, 1, Then::Cut);
            let unknown = write.commit();
            println!("{what}: {unknown:?}");
            assert!(matches!(unknown, Err(Error::Disconnected { .. })), "{what}: {unknown:?}");
            assert!(lost.fired());
            await_resumed(&own, 1);
            hold.transaction().commit().unwrap();
        }
        visitor.leaves();
        let heir = next.hold();
        println!("{what}: {} and {}", hold.node(), heir.node());
        assert_eq!(heir.node() == hold.node(), is_left, "{what}");
        next.leaves();
    }
}
