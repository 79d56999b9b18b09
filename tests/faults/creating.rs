//! Making the node that stands for a place in the queue, and the directories above it.

mod lost_answers;

use std::ops::Deref;
use std::time::Duration;

use zoolock_test_support::{shared_probe, wait_until};

use common::{SOON, Stage, Task, children};

/// A client behind a proxy of its own, and a lock of it whose directory is there already, so that
/// the first create below it is that of the lock's node.
struct Faulty(Stage);

impl Deref for Faulty {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.0
    }
}

impl Faulty {
    fn start(name: &str, session_timeout: Duration) -> Faulty {
        let stage = Stage::new(name, session_timeout);
        shared_probe().unwrap().create_all(&stage.path).unwrap();
        Faulty(stage)
    }

    /// A call of `lock()` on a thread of its own.
    fn locking(&self) -> Task<zoolock::Result<()>> {
        let lock = self.lock.clone();
        Task::spawn(move || lock.lock())
    }

    /// Exactly one node, the lock's own, and none after the unlock.
    fn has_one_node_until_unlocked(&self) {
        let seen = children(&self.path);
        println!("held: {seen:?}");
        assert_eq!(seen, [self.lock.hold().expect("held").node()], "{}", self.log());
        self.lock.unlock().unwrap();
        self.becomes_empty();
    }

    fn becomes_empty(&self) {
        let took = wait_until("nothing is left behind", SOON, || children(&self.path).is_empty());
        println!("nothing left after {took:?}, {:?}", self.client.stats());
    }

    /// Nothing is remembered for ever: what may still appear goes with its session.
    fn has_nothing_to_delete(&self) {
        let took =
            wait_until("nothing is left to delete", SOON, || self.client.stats().deleting == 0);
        println!("nothing to delete after {took:?}");
    }

    fn log(&self) -> String {
        self.proxy.log().join("\n")
    }
}
