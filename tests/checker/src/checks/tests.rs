//! For each property: a wrong history, which must be rejected (by both checkers if both check the property), and
//! similar correct histories, which must be accepted.

use Verdict::{Both, First, Right, Second};

use super::Findings;
use crate::event::{Call, Loss, Missed};
use crate::history::{History, OpenCall};
use crate::linear::Linear;
use crate::lock::Mode;
use crate::notation::{MUTEX, RW, history_of, hold, locks};
use crate::rules::{Margins, Outage, Rules};

const FAULTS: Rules = Rules { outage: Outage::Long, ..Rules::STRICT };

/// Which checkers reject a history, and the word that the first checker's report contains.
#[derive(Debug, Clone, Copy)]
enum Verdict {
    Right,
    Both(&'static str),
    /// Only the first checker can detect the violation.
    First(&'static str),
    Second,
}

fn check(history: &History) -> Findings {
    super::check(&locks(), &Margins::EXACT, &FAULTS, history)
}

#[track_caller]
fn is(verdict: Verdict, history: &History) {
    let first = check(history).violations;
    let second = Linear::new(&locks()).check(history).violations;
    println!("{verdict:?}: {first:?}, {second:?}");
    match verdict {
        Right | Second => assert_eq!(first, Vec::<String>::new()),
        Both(what) | First(what) => assert!(first.iter().any(|one| one.contains(what))),
    }
    assert_eq!(second.len(), usize::from(matches!(verdict, Both(_) | Second)));
}

/// Histories that consist only of holds, their ends and their writes.
const HISTORIES: &[(Verdict, &str)] = &[
    // Two holders at a time.
    (Both("overlap"), "10 A mutex 1, 50 B mutex 2"),
    (Both("overlap"), "10 A mutex 1, 50 B mutex 2, 60 A leaves"),
    (Right, "10 A mutex 1, 50 B mutex 2, 40 A leaves"),
    (Both("overlap"), "10 A ephemeral 1, 50 B ephemeral 2"),
    (Both("overlap"), "10 A ephemeral 1, 50 B ephemeral 2, 60 A leaves"),
    (Right, "10 A ephemeral 1, 50 B ephemeral 2, 40 A leaves"),
    // A loss that was reported after the next grant.
    (Both("overlap"), "10 A mutex 1, 50 B mutex 2, 51 A loses"),
    (Right, "10 A mutex 1, 50 B mutex 2, 49 A loses"),
    // The hold of a dead client does not block others.
    (Right, "10 A mutex 1, 50 B mutex 2, 50 A dies"),
    // Holds may overlap only while a client cannot detect that it has lost the lock.
    (Right, "10 A mutex 1, 50 B mutex 2, 40 A doubts 0 45"),
    (Right, "10 A mutex 1, 50 B mutex 2, 40 A doubts 0 45, 60 A leaves"),
    (Both("overlap"), "10 A mutex 1, 50 B mutex 2, 40 A doubts 1 45"),
    (Both("overlap"), "10 A mutex 1, 50 B mutex 2, 40 B doubts 0 45"),
    // An unlock in that state cannot detect the loss either. A guarded write can, because the servers check it.
    (Second, "10 A mutex 1, 50 B mutex 2, 40 A doubts 0 45, 60 A leaves, 55 A writes 58"),
    // Tokens must increase, except between threads of one client that hand the node over.
    (Second, "10 A mutex 5, 20 A leaves, 50 B mutex 5"),
    (Second, "10 A mutex 5, 20 A leaves, 50 B mutex 4"),
    (Right, "10 A mutex 5, 20 A leaves, 50 A2 mutex 5"),
    (Second, "10 A mutex 5, 20 A leaves, 50 A2 mutex 4"),
    (Second, "10 A writer 5, 30 A leaves, 50 B reader 4"),
    (Second, "10 A reader 5, 30 A leaves, 50 B writer 4"),
    (Right, "10 A reader 5, 50 B reader 4"),
    // B's unlock reports success although B lost the lock before it, and A has been granted the lock since.
    (Both("kept quiet"), "10 B mutex 1, 50 A mutex 2, 30 B loses, 60 B leaves"),
    (Right, "10 B mutex 1, 50 A mutex 2, 30 B loses, 60 B leaves, 65 B notified"),
    // A guarded write after the next grant. In the correct histories, it was applied earlier or was refused.
    (Second, "10 A mutex 1, 50 B mutex 2, 30 A loses, 60 A writes 70"),
    (Right, "10 A mutex 1, 50 B mutex 2, 30 A loses, 45 A writes 70"),
    (Right, "10 A mutex 1, 50 B mutex 2, 30 A loses, 60 A asks 70"),
    (Right, "10 A mutex 1, 50 B mutex 2, 30 A loses, 60 A fails 70"),
    // Readers and writers.
    (Both("overlap"), "10 A reader 1, 50 B writer 2"),
    (Right, "10 A reader 1, 50 B writer 2, 40 A leaves"),
    (Both("overlap"), "10 A writer 1, 50 B reader 2"),
    (Right, "10 A writer 1, 50 B reader 2, 40 A leaves"),
    (Right, "10 A reader 1, 50 B reader 2"),
    // A downgraded writer excludes writers and admits readers. Only its own write lock justifies its grant as a reader.
    (Right, "10 A writer 1, 20 A2 reader 1 A, 50 B reader 2, 30 A leaves"),
    (Both("overlap"), "10 A writer 1, 20 A2 reader 1 A, 50 B writer 2, 30 A leaves"),
    (Both("overlap"), "10 A writer 1, 20 A2 reader 1 B, 50 B reader 2, 30 A leaves"),
    // More permits than exist.
    (Both("overlap"), "10 A permits 2, 50 B permits 2"),
    (Right, "10 A permits 2, 50 B permits 1"),
    (Right, "10 A permits 2, 50 B permits 2, 40 A leaves"),
    // B's guard was dropped, and neither C's write nor C's unlock was answered.
    (Right, "50 B mutex 2, 60 B drops, 70 C mutex 3, 75 C asks 80, 90 C drops, 92 D mutex 4"),
    (
        Both("overlap"),
        "50 B mutex 2, 60 B drops, 70 C mutex 3, 75 C asks 80, 90 C drops, 89 D mutex 4",
    ),
    // This loss is excused, but must be reported.
    (Right, "10 A mutex 1, 20 A loses"),
    (First("kept quiet"), "10 A mutex 1, 20 A loses, 30 A leaves"),
];

#[test]
fn wrong_histories_are_rejected_and_right_ones_pass() {
    for (verdict, trace) in HISTORIES {
        println!("{trace}");
        is(*verdict, &history_of(trace));
    }
}

#[test]
fn overlap_of_a_holder_who_cannot_know_is_counted() {
    let history = history_of("10 A mutex 1, 50 B mutex 2, 40 A doubts 0 45");
    assert_eq!(check(&history).overlaps_expected, 1);
    let mut late = history_of("10 A mutex 1, 50 B mutex 2, 40 B doubts 0 45");
    late.holds[1].grant.started = 46;
    is(Both("overlap"), &late);
}

#[test]
fn hold_that_ended_before_its_call_returned_promises_nothing() {
    // A's client was stopped from 12 to 60, while its call was returning.
    let mut history = history_of("50 B mutex 2, 60 A mutex 1");
    history.lost(hold("A"), Loss { at: 30, reason: "expired".into() });
    let late = &mut history.holds[1].grant;
    late.started = 5;
    is(Right, &history);
}

#[test]
fn call_without_an_answer_may_have_had_the_lock_at_any_time() {
    let mut history = history_of("50 B mutex 2");
    let missed = Some(Missed { mode: Mode::Exclusive, certain: false });
    let (op, path, started, ended) = ("try_lock".into(), MUTEX, 1, 8);
    let call = Call { op, path, started, deadline: None, ended, missed };
    history.called(hold("A").by, call);
    is(Right, &history);
}

#[test]
fn token_that_does_not_rise_across_histories_is_a_violation() {
    let mut linear = Linear::new(&locks());
    for (token, violations) in [(5, 0), (6, 0), (3, 1)] {
        let history = history_of(&format!("10 A mutex {token}, 20 A leaves"));
        assert_eq!(linear.check(&history).violations.len(), violations, "{token}");
    }
}

#[test]
fn loss_without_an_excuse_is_a_violation() {
    let mut history = history_of("10 A mutex 1, 20 A loses");
    let strict = |history: &History| {
        super::check(&locks(), &Margins::EXACT, &Rules::STRICT, history).violations
    };
    assert!(strict(&history)[0].contains("lost for nothing"));
    history.served(15, 16);
    assert_eq!(strict(&history), Vec::<String>::new());
}

#[test]
fn late_or_missing_return_is_a_violation() {
    let (by, path, started, deadline) = (hold("A").by, MUTEX, 10, Some(20));
    let call = |ended| {
        let missed = Some(Missed { mode: Mode::Exclusive, certain: true });
        Call { op: "lock_within".into(), path, started, deadline, ended, missed }
    };
    let mut history = History::new(0);
    history.called(by, call(20));
    is(Right, &history);
    history.called(by, call(21));
    is(First("too late"), &history);
    let mut history = history_of("5 B mutex 1");
    let (op, mode) = ("lock_within".into(), Some(Mode::Exclusive));
    history.began(by, OpenCall { op, path, mode, started, deadline });
    history.over = Some(20);
    is(Right, &history);
    history.over = Some(21);
    is(First("hung call"), &history);
}

#[test]
fn starved_waiter_is_a_violation() {
    let waits = |trace: &str, waiters: &[(&str, usize, Mode)]| {
        let mut history = history_of(trace);
        history.over = Some(100);
        for &(name, path, mode) in waiters {
            let (op, mode) = ("lock".into(), Some(mode));
            let call = OpenCall { op, path, mode, started: 20, deadline: None };
            history.began(hold(name).by, call);
        }
        history
    };
    let writer = ("B", MUTEX, Mode::Exclusive);
    is(Right, &waits("10 A mutex 1", &[writer]));
    is(First("not let in"), &waits("10 A mutex 1, 50 A leaves", &[writer]));
    // A reader correctly waits behind a waiting writer.
    let reader = ("B", RW, Mode::Shared);
    is(First("not let in"), &waits("10 A reader 1", &[reader]));
    is(Right, &waits("10 A reader 1", &[reader, ("C", RW, Mode::Exclusive)]));
}
