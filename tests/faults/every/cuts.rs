//! The connection is cut while something is held and waited for: the session outlives it, and with it
//! each hold and each place.

use std::time::Duration;

use zoolock::{Client, ClientState, Error, HoldState, LockOptions, LossReason};
use zoolock_test_support::{
    Direction, FaultProxy, Op, Stat, connect_string, fresh_path, shared_probe, wait_until,
};

use common::{
    Object, SOON, Subject, Task, TwoWays, Visitor, await_lost, await_resumed, client, client_of,
    every_subject, in_time, shared_proxy, stat,
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
    of_waiter: Vec<String>,
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
        token: hold.fencing_token().unwrap(),
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
        let of_ahead = subject.await_nodes(&queue, subject.nodes_of_one());
        let waiter = Visitor::start(subject.at(client, &queue));
        wait_until("it waits", SOON, || client.stats().waiting == 1);
        let mut of_waiter = subject.await_nodes(&queue, subject.nodes_with_waiters(1));
        of_waiter.retain(|node| !of_ahead.contains(node));
        let behind = subject.queues().then(|| Visitor::start(subject.rival(&others, &queue)));
        subject.await_nodes(&queue, subject.nodes_with_waiters(2));
        let before = seen(subject, &own, &queue);
        let client = client.clone();
        Between { subject, client, own, queue, ahead, waiter, of_waiter, behind, before }
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

/// The requests of a resume, and of the heartbeat behind it, and whether it is interrupted before or after
/// the server has them.
const STEPS: [(Op, bool); 6] = [
    (Op::Connect, false),
    (Op::Connect, true),
    (Op::SetWatches, false),
    (Op::SetWatches, true),
    (Op::SetData, false),
    (Op::SetData, true),
];

#[test]
fn a_resume_that_is_cut_at_any_of_its_requests_is_completed_on_the_next_connection() {
    every_subject(|subject| {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), LONG);
        let scene = Between::start(subject, &client);
        await_watch(&proxy, &client);
        for (op, answer) in STEPS {
            // Kept until the connections they are about are gone.
            let mut interrupted = Vec::new();
            for _ in 0..2 {
                let rule = proxy.on(op);
                let held = if answer { rule.hold_answer() } else { rule.hold_request() };
                proxy.cut();
                assert!(held.wait(SOON), "{op:?}, {answer}: {:#?}", proxy.log());
                assert!(scene.own.is_held());
                interrupted.push(held);
            }
            let before = client.stats().resumed;
            proxy.cut();
            await_resumed(&client, before + 1);
            scene.is_kept(&format!("{op:?}, answered: {answer}"));
        }
        println!("{}: {:?}", subject.name, client.stats());
        scene.ahead.unlock().unwrap();
        scene.ends_well();
    });
}

/// Until a node is watched, and the client knows that.
fn await_watch(proxy: &FaultProxy, client: &Client) {
    wait_until("a node is watched", SOON, || {
        // Who waits for a permit watches a list.
        let is_watch = |line: &String| {
            line.contains("< GetData") || line.contains("< GetChildren") && line.contains("/leases")
        };
        proxy.log().iter().any(is_watch)
    });
    // Its answer comes behind the other.
    client.contenders("/nothing-is-here").unwrap();
}

/// Cuts the connection; the answer that says that the session is resumed is on its way.
fn cut_and_hold_the_resume(proxy: &FaultProxy) -> zoolock_test_support::Hold {
    let answer = proxy.on(Op::Connect).hold_answer();
    proxy.cut();
    assert!(answer.wait(SOON), "{:#?}", proxy.log());
    answer
}

#[test]
fn whoever_gives_up_during_a_resume_leaves_no_node() {
    const DEADLINE: Duration = Duration::from_secs(6);
    every_subject(|subject| {
        for cancel in [true, false] {
            let (proxy, others) = (shared_proxy(), client());
            let client = client_of(&proxy.connect_string(), LONG);
            let path = fresh_path("given-up");
            let (own, ahead) = (subject.at(&client, &path), subject.rival(&others, &path));
            ahead.lock().unwrap();
            let nodes = subject.holding(&path);
            let waiting = {
                let own = own.clone();
                Task::spawn(move || match cancel {
                    true => own.lock().map(|()| true),
                    false => {
                        let limit = DEADLINE + Duration::from_secs(2);
                        in_time("try_lock_for()", limit, || own.try_lock_for(DEADLINE))
                    }
                })
            };
            subject.await_nodes(&path, subject.nodes_with_waiters(1));
            await_watch(&proxy, &client);
            let answer = cut_and_hold_the_resume(&proxy);
            if cancel {
                own.cancel_waiters();
            }
            let ended = waiting.result("the waiter");
            println!("{}, cancelled: {cancel}: {ended:?}", subject.name);
            match ended {
                Err(Error::Cancelled { .. }) => assert!(cancel),
                Ok(false) | Err(Error::Disconnected { .. }) => assert!(!cancel),
                other => panic!("{}: {other:?}", subject.name),
            }
            answer.release();
            wait_until("only the one ahead is left", SOON, || {
                subject.nodes(&path) == nodes && client.stats().deleting == 0
            });
            ahead.unlock().unwrap();
            assert!(own.try_lock_for(SOON).unwrap());
            own.unlock().unwrap();
            assert_eq!(client.stats().sessions, 1);
        }
    });
}

#[test]
fn an_unlock_without_a_connection_and_during_a_resume_lets_the_next_one_in() {
    every_subject(|subject| {
        for resuming in [false, true] {
            let (proxy, others) = (shared_proxy(), client());
            let client = client_of(&proxy.connect_string(), Duration::from_secs(60));
            let path = fresh_path("unlocked");
            let own = subject.at(&client, &path);
            own.lock().unwrap();
            subject.await_nodes(&path, subject.nodes_of_one());
            let hold = own.hold();
            let next = Visitor::start(subject.rival(&others, &path));
            let nodes = subject.await_nodes(&path, subject.nodes_with_waiters(1));
            let answer = resuming.then(|| cut_and_hold_the_resume(&proxy));
            if !resuming {
                proxy.refuse(true);
                proxy.cut();
            }
            await_suspended(&client);
            assert_eq!(hold.state(), HoldState::Suspended);
            own.unlock().unwrap();
            assert_eq!(hold.state(), HoldState::Released);
            assert_eq!(subject.nodes(&path), nodes, "the servers cannot know yet");
            assert!(!next.is_in());
            match answer {
                Some(answer) => answer.release(),
                None => proxy.refuse(false),
            }
            next.comes_in();
            next.leaves();
            subject.await_nodes(&path, 0);
            await_resumed(&client, 1);
            let stats = client.stats();
            println!("{}, resuming: {resuming}: {stats:?}", subject.name);
            assert_eq!((stats.sessions, stats.resumed, stats.holds_lost), (1, 1, 0));
        }
    });
}

#[test]
fn a_close_during_a_resume_leaves_no_node_and_lets_the_next_one_in() {
    const SHORT: Duration = Duration::from_secs(8);
    every_subject(|subject| {
        for answered in [true, false] {
            let proxy = shared_proxy();
            let client = client_of(&proxy.connect_string(), SHORT);
            let Between { own, queue, ahead, waiter, behind, .. } =
                Between::start(subject, &client);
            let hold = own.hold();
            let next = Visitor::start(subject.rival(&common::client(), own.base()));
            let answer = cut_and_hold_the_resume(&proxy);
            if answered {
                answer.release();
            }
            let closed = in_time("close()", SHORT + Duration::from_secs(1), || client.close());
            assert!(!hold.is_held(), "{hold:?}");
            let ended = waiter.result();
            assert!(matches!(ended, Err(Error::Closed)), "{}: {ended:?}", subject.name);
            let left = subject.nodes(&queue);
            let of_others = subject.nodes_of_one() + usize::from(behind.is_some());
            println!("{}, answered: {answered}: {closed:?}, {left:?}", subject.name);
            // A first one behind shows now what it wants.
            assert!(closed.is_err() || left.len() <= subject.nodes_with_waiters(1), "{left:?}");
            wait_until("the waiter's node is gone", SOON, || {
                let now = subject.nodes(&queue).len();
                now == of_others || now == subject.nodes_with_waiters(1)
            });
            next.comes_in();
            next.leaves();
            subject.await_nodes(own.base(), 0);
            ahead.unlock().unwrap();
            if let Some(behind) = behind {
                behind.comes_in();
                behind.leaves();
            }
        }
    });
}

fn delete(nodes: &[String]) {
    nodes.iter().for_each(|node| shared_probe().unwrap().delete(node).unwrap());
}

#[test]
fn at_a_resume_a_deleted_hold_is_lost_and_a_deleted_waiter_queues_again() {
    // Short enough that what is held is watched soon.
    const SESSION: Duration = Duration::from_secs(12);
    const DELETED: HoldState = HoldState::Lost(LossReason::NodeDeleted);
    every_subject(|subject| {
        for (watched, resumed) in [(false, false), (false, true), (true, false), (true, true)] {
            let proxy = shared_proxy();
            let client = client_of(&proxy.connect_string(), SESSION);
            let scene = Between::start(subject, &client);
            let Between { own, queue, ahead, of_waiter, before, .. } = &scene;
            let rival = Visitor::start(subject.rival(&common::client(), own.base()));
            if watched {
                wait_until("the hold is watched", SOON, || {
                    let read = |line: &String| {
                        line.contains("< GetData") && line.contains(&before.own[0].0)
                    };
                    proxy.log().iter().any(read)
                });
            }
            let answer = resumed.then(|| cut_and_hold_the_resume(&proxy));
            if !resumed {
                proxy.refuse(true);
                proxy.cut();
            }
            await_suspended(&client);
            let holds = own.holds();
            let of_own: Vec<_> = before.own.iter().map(|(node, _)| node.clone()).collect();
            delete(&of_own);
            delete(of_waiter);
            assert_eq!(own.hold().state(), HoldState::Suspended);
            match answer {
                Some(answer) => answer.release(),
                None => proxy.refuse(false),
            }
            let took: Vec<_> = holds.iter().map(await_lost).collect();
            println!("{}, watched: {watched}, resumed: {resumed}: {took:?}", subject.name);
            assert!(holds.iter().all(|hold| hold.state() == DELETED), "{holds:?}");
            rival.comes_in();
            assert!(own.unlock().unwrap_err().is_lost());
            rival.leaves();
            wait_until("it has queued again", SOON, || {
                let now = subject.nodes(queue);
                now.len() == subject.nodes_with_waiters(2)
                    && !now.iter().any(|node| of_waiter.contains(node))
            });
            if subject.queues() {
                // Until it knows that its turn was lost, it has a permit of it in front of the next one's.
                subject.await_waiting(queue, &[], 2);
            }
            scene.nobody_is_in();
            let stats = client.stats();
            assert_eq!((stats.sessions, stats.resumed), (1, 1));
            // The turn of a waiter is held, too.
            let most = subject.nodes_of_one() + of_waiter.len().saturating_sub(1);
            let lost = subject.nodes_of_one() as u64..=most as u64;
            assert!(lost.contains(&stats.holds_lost), "{}: {stats:?}", subject.name);
            ahead.unlock().unwrap();
            let Between { waiter, behind, .. } = scene;
            if let Some(behind) = behind {
                behind.comes_in();
                assert!(!waiter.is_in(), "it has another place now");
                behind.leaves();
            }
            waiter.comes_in();
            waiter.leaves();
        }
    });
}

/// Whoever has unlocked is not there any more to see to it.
#[test]
fn what_is_to_be_held_for_longer_is_kept_over_a_cut() {
    every_subject(|subject| {
        let (proxy, path, others) = (shared_proxy(), fresh_path("longer"), client());
        let own = client_of(&proxy.connect_string(), LONG);
        let options = LockOptions::new().hold_at_least(Duration::MAX);
        let object = subject.with(&own, &path, options);
        object.lock().unwrap();
        object.unlock().unwrap();
        let kept = subject.holding(&path);
        for times in 1..=2 {
            proxy.cut();
            await_resumed(&own, times);
        }
        let rival = subject.rival(&others, &path);
        assert!(!rival.try_lock().unwrap(), "{}", subject.name);
        assert_eq!(subject.holding(&path), kept, "{}", subject.name);
        println!("{}: {kept:?}", subject.name);
    });
}
