//! The connection is cut while something is held and waited for: the session outlives it, and with it
//! each hold and each place.

use std::time::Duration;

use zoolock::{Client, ClientState, HoldState};
use zoolock_test_support::{Direction, FaultProxy, Stat, connect_string, fresh_path, wait_until};

use common::{
    Object, SOON, Subject, TwoWays, Visitor, await_resumed, client_of, every_subject, stat,
};

/// No lease ends in it, however slow the machine is.
const LONG: Duration = Duration::from_secs(30);

/// A client that holds one lock, and waits for another, between somebody ahead and somebody behind.
struct Between {
    subject: Subject,
    client: Client,
    own: Object,
    queue: String,
    ahead: Object,
    waiter: Visitor,
    behind: Option<Visitor>,
    before: Seen,
}

/// What a cut must not change.
#[derive(Debug, PartialEq)]
struct Seen {
    state: HoldState,
    node: String,
    token: u64,
    own: Vec<(String, Stat)>,
    queue: Vec<String>,
}

fn seen(subject: Subject, own: &Object, queue: &str) -> Seen {
    let hold = own.hold();
    let nodes = subject.holding(own.base());
    Seen {
        state: hold.state(),
        node: hold.node(),
        token: hold.fencing_token(),
        own: nodes.into_iter().map(|node| (node.clone(), stat(&node))).collect(),
        queue: subject.nodes(queue),
    }
}

impl Between {
    fn start(subject: Subject, client: &Client) -> Between {
        let others = client_of(&connect_string(), LONG);
        let path = fresh_path("cut");
        let (own, queue) = (subject.at(client, &format!("{path}/own")), format!("{path}/queue"));
        own.lock().unwrap();
        let ahead = subject.rival(&others, &queue);
        ahead.lock().unwrap();
        subject.await_nodes(&queue, subject.nodes_of_one());
        let waiter = Visitor::start(subject.at(client, &queue));
        wait_until("it waits", SOON, || client.stats().waiting == 1);
        subject.await_nodes(&queue, subject.nodes_with_waiters(1));
        let behind = subject.queues().then(|| Visitor::start(subject.rival(&others, &queue)));
        subject.await_nodes(&queue, subject.nodes_with_waiters(2));
        let before = seen(subject, &own, &queue);
        let client = client.clone();
        Between { subject, client, own, queue, ahead, waiter, behind, before }
    }

    #[track_caller]
    fn is_kept(&self, what: &str) {
        wait_until("it is held and not suspended", SOON, || {
            assert!(self.own.is_held(), "{}: {what}", self.subject.name);
            self.own.hold().state() == HoldState::Held
        });
        let now = seen(self.subject, &self.own, &self.queue);
        assert_eq!(now, self.before, "{}: {what}", self.subject.name);
        self.nobody_is_in();
    }

    #[track_caller]
    fn nobody_is_in(&self) {
        let behind = self.behind.as_ref().is_some_and(Visitor::is_in);
        assert!(!self.waiter.is_in() && !behind, "{}", self.subject.name);
    }

    /// Whoever was ahead has left.
    fn ends_well(self) {
        self.waiter.comes_in();
        let behind = self.behind.as_ref().is_some_and(Visitor::is_in);
        assert!(!behind, "{}: in before it was its turn", self.subject.name);
        self.waiter.leaves();
        if let Some(behind) = self.behind {
            behind.comes_in();
            behind.leaves();
        }
        self.subject.await_nodes(&self.queue, 0);
        assert!(self.own.is_held());
        self.own.unlock().unwrap();
        if self.subject.goes_with_its_unlock() {
            self.subject.await_nodes(self.own.base(), 0);
        }
        let stats = self.client.stats();
        assert_eq!((stats.sessions, stats.holds_lost), (1, 0), "{}", self.subject.name);
    }
}

/// How a connection ends, and its name.
type End = (&'static str, fn(&FaultProxy));

const ENDS: [End; 3] =
    [("cut", FaultProxy::cut), ("reset", FaultProxy::reset), ("silent", silence)];

fn silence(proxy: &FaultProxy) {
    proxy.black_hole(Direction::Both);
}

fn await_suspended(client: &Client) {
    wait_until("it is suspended", SOON, || client.state() == ClientState::Suspended);
}

#[test]
fn holds_and_places_outlive_the_connection_and_a_turn_that_came_meanwhile_is_taken() {
    for (what, end) in ENDS {
        every_subject(|subject| {
            let ways = TwoWays::start(LONG);
            let scene = Between::start(subject, &ways.client);
            end(&ways.first);
            let took = await_resumed(&ways.client, 1);
            println!("{}: {what}, resumed after {took:?}", subject.name);
            scene.is_kept(what);
            // Now there is no other way.
            for way in [&ways.first, &ways.second] {
                way.refuse(true);
                end(way);
            }
            await_suspended(&ways.client);
            scene.ahead.unlock().unwrap();
            scene.nobody_is_in();
            ways.second.restore();
            scene.ends_well();
        });
    }
}
