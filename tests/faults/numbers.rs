//! Locks whose turns take no list, since the numbers of their nodes tell that nobody has come: what makes
//! the numbers worthless is noticed, and then a list is asked for again.

use std::time::Duration;

use zoolock::Client;
use zoolock_test_support::{FaultProxy, Op, Then, fresh_path, wait_until};

use common::{Object, SOON, Subject, await_resumed, client_of, every_subject_that, shared_proxy};

/// No lease ends in it, however slow the machine is.
const LONG: Duration = Duration::from_secs(30);

/// A client whose turns at a path take no list any more.
struct Warm {
    subject: Subject,
    proxy: FaultProxy,
    client: Client,
    path: String,
    object: Object,
}

impl Warm {
    fn start(subject: Subject, name: &str) -> Warm {
        let (proxy, path) = (shared_proxy(), fresh_path(name));
        let client = client_of(&proxy.connect_string(), LONG);
        let object = subject.at(&client, &path);
        let warm = Warm { subject, proxy, client, path, object };
        wait_until("no list is asked for", SOON, || {
            let lists = warm.lists();
            warm.turn();
            lists == warm.lists()
        });
        warm
    }

    fn lists(&self) -> u64 {
        self.proxy.requests(Op::GetChildren)
    }

    /// Its node has gone when this returns.
    fn turn(&self) {
        self.object.lock().unwrap();
        self.object.unlock().unwrap();
        self.subject.await_nodes(&self.path, 0);
    }
}

fn every_warm(name: &str, contract: impl Fn(Warm) + Sync) {
    let is_one = |subject: Subject| subject.has_a_directory() && subject.goes_with_its_unlock();
    every_subject_that(is_one, |subject| contract(Warm::start(subject, name)));
}

/// Its node may be there still, and is not forgotten.
#[test]
fn a_turn_behind_a_delete_without_an_answer_asks_for_a_list() {
    every_warm("unanswered", |warm| {
        let lost = warm.proxy.on(Op::Delete).path_contains(&warm.path).drop_answer(Then::Cut);
        warm.turn();
        assert!(lost.wait(SOON), "{:#?}", warm.proxy.log());
        await_resumed(&warm.client, 1);
        let lists = warm.lists();
        warm.turn();
        assert!(warm.lists() > lists, "{}", warm.subject.name);
    });
}
