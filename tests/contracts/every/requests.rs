//! The cost of calls, counted by a proxy. The sessions are so long that clients send nothing else.

use std::time::Duration;

use zoolock_test_support::{FaultProxy, Op, fresh_path, wait_until};

use common::{Object, SOON, Subject, Task, behind_a_proxy, every_subject_that};

/// Operations that a lock may request.
const OPS: [Op; 8] = [
    Op::Create,
    Op::Delete,
    Op::GetChildren,
    Op::GetData,
    Op::Multi,
    Op::Exists,
    Op::Sync,
    Op::SetWatches,
];

struct Counted {
    subject: Subject,
    proxy: FaultProxy,
}

impl Counted {
    /// Counts a background release after it has finished.
    #[track_caller]
    fn cost(&self, what: &str, expected: [u64; 5], step: impl FnOnce()) {
        let count = || OPS.map(|op| self.proxy.requests(op));
        let (name, before) = (self.subject.name, count());
        let cost = || -> [u64; OPS.len()] {
            let after = count();
            std::array::from_fn(|at| after[at] - before[at])
        };
        step();
        if self.subject.releases_in_the_background() || !self.subject.guards_the_object() {
            let are_sent = || cost()[1] + cost()[4] >= expected[1] + expected[4];
            wait_until("what is deleted in the background", SOON, are_sent);
        }
        let cost = cost();
        println!("{name}, {what}: [create, delete, list, get_data, ..] = {cost:?}");
        assert_eq!((&cost[..5], &cost[5..]), (&expected[..], &[0; 3][..]), "{name}, {what}");
    }
}

fn cycle(object: &Object) {
    object.lock().unwrap();
    object.unlock().unwrap();
}

fn tries(object: &Object) {
    assert!(object.try_lock().unwrap());
    object.unlock().unwrap();
}

/// Numbers of creates, deletions, lists, reads and transactions.
#[test]
#[cfg_attr(zoolock_without_shortcuts, ignore = "without shortcuts there are more requests")]
fn lock_cycle_try_and_refusal_have_fixed_request_counts() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let (proxy, client) = behind_a_proxy(Duration::from_secs(60));
        let path = fresh_path("cost");
        let object = subject.at(&client, &path);
        let counted = Counted { subject, proxy };
        // The directories above exist from now on.
        cycle(&subject.rival(&super::client(), &path));
        let await_vacant = || {
            subject.await_nodes(&path, 0);
            // This answer comes after that of the last deletion.
            client.contenders(&path).unwrap();
        };
        await_vacant();
        counted.cost("lock, unlock", subject.cost_of_a_cycle(), || cycle(&object));
        await_vacant();
        counted.cost("try_lock, unlock", subject.cost_of_a_try(), || tries(&object));

        object.lock().unwrap();
        subject.await_nodes(&path, subject.nodes_of_one());
        // Permits of the own process are counted like all others.
        let lists = if subject.is_one_lock() && !subject.guards_the_object() { 2 } else { 0 };
        counted.cost("entering again, or a local rival", [0, 0, lists, 0, 0], || {
            let elsewhere = object.clone();
            let again = object.try_lock().unwrap();
            assert_eq!(again, subject.is_a_threads());
            if again {
                object.unlock().unwrap();
            }
            if subject.is_exclusive() {
                let tried = Task::spawn(move || elsewhere.try_lock()).result("another thread");
                assert!(!tried.unwrap());
            }
        });
        object.unlock().unwrap();
        subject.await_nodes(&path, 0);

        let rival = subject.rival(&super::client(), &path);
        rival.lock().unwrap();
        counted.cost("a refusal", subject.cost_of_a_refusal(), || {
            assert!(!object.try_lock().unwrap());
        });
        rival.unlock().unwrap();
    });
}
