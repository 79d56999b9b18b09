//! Threads of one object that replace each other in one transaction: it deletes the old node and creates the
//! next one, or does neither.

use std::collections::VecDeque;
use std::ops::Deref;
use std::time::Duration;

use zoolock::Hold;
use zoolock_test_support::{self as support, Op};

use common::{
    SOON, Scene, Subject, Visitor, await_nothing_left, every_subject_that, in_time, stat,
};

/// No lease of this length ends during a test, and none needs a heartbeat.
const LONG: Duration = Duration::from_secs(60);

/// Limit of calls that wait for nothing.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Operations that a lock may request.
const OPS: [Op; 7] =
    [Op::Multi, Op::Exists, Op::Create, Op::Delete, Op::GetChildren, Op::GetData, Op::Sync];

/// A scene whose threads take turns.
struct Turns(Scene);

impl Deref for Turns {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.0
    }
}

impl Turns {
    fn start(subject: Subject, name: &str, session_timeout: Duration) -> Turns {
        Turns(Scene::start(subject, name, session_timeout))
    }

    fn is_held_up(&self, held: &support::Hold) {
        assert!(held.wait(SOON), "{}: {}", self.subject.name, self.log());
    }

    /// A visitor that holds, with the only node, and its token.
    fn first(&self) -> (Visitor, u64) {
        let first = Visitor::start(self.own.clone());
        let at = self.token_of(&first.hold());
        (first, at)
    }

    /// Another thread, which waits locally or for the servers.
    fn next(&self) -> Visitor {
        Visitor::start_asleep(self.own.clone())
    }

    /// Expects the token to be that of the node on the server.
    fn token_of(&self, hold: &Hold) -> u64 {
        let token = hold.fencing_token();
        assert_eq!(stat(&self.subject.node_of(hold)).czxid as u64, token, "{hold:?}");
        token
    }

    /// Ends with the last unlock and without a loss.
    #[track_caller]
    fn ends_well(&self) {
        self.subject.await_nodes(&self.path, 0);
        await_nothing_left(&self.client);
        assert!(self.rival.try_lock_for(SOON).unwrap(), "{}", self.subject.name);
        self.rival.unlock().unwrap();
        self.subject.await_nodes(&self.path, 0);
        assert_eq!(self.client.stats().holds_lost, 0, "{}", self.subject.name);
    }
}

/// Subjects whose threads wait locally and whose unlock deletes the node.
fn every_turns(contract: impl Fn(Subject) + Sync) {
    every_subject_that(|subject| queues_here(subject) && subject.is_plain(), contract);
}

fn queues_here(subject: Subject) -> bool {
    subject.has_a_first_level() && subject.has_a_directory()
}

/// The release must not wait for another thread.
#[test]
fn background_release_waits_for_no_other_thread() {
    let is_one = |subject| queues_here(subject) && subject.releases_in_the_background();
    every_subject_that(is_one, |subject| {
        let turns = Turns::start(subject, "turn-background", LONG);
        let ((first, _), next) = (turns.first(), turns.next());
        let held = turns.proxy.on(Op::Multi).path_contains(&turns.path).hold_request();
        in_time("unlock", AT_ONCE, || first.leaves());
        turns.is_held_up(&held);
        assert!(!next.is_in(), "{}", subject.name);
        held.release();
        next.comes_in();
        next.leaves();
        turns.ends_well();
    });
}

#[test]
fn turn_among_threads_costs_one_request() {
    const TURNS: u64 = 50;
    every_turns(|subject| {
        let turns = Turns::start(subject, "turns", LONG);
        let (first, mut before) = turns.first();
        let mut crowd = VecDeque::from([first]);
        crowd.extend((0..3).map(|_| turns.next()));
        let count = || OPS.map(|op| turns.proxy.requests(op));
        let begun = count();
        for turn in 0..TURNS {
            crowd.pop_front().unwrap().leaves();
            let at = turns.token_of(&crowd[0].hold());
            assert!(at > before, "{}, turn {turn}: {before:?}, then {at:?}", subject.name);
            before = at;
            crowd.push_back(turns.next());
        }
        let ended = count();
        let cost: [u64; 7] = std::array::from_fn(|at| ended[at] - begun[at]);
        println!("{}: {cost:?} for {TURNS} turns of {OPS:?}", subject.name);
        assert_eq!(cost, [TURNS, 0, 0, 0, 0, 0, 0], "{}: {}", subject.name, turns.log());
        for visitor in crowd {
            visitor.comes_in();
            visitor.leaves();
        }
        turns.ends_well();
    });
}
