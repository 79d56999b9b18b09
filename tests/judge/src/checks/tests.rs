//! For each property, a wrong history that is rejected, by both judges where both check it, and similar
//! correct histories that pass.

use super::{Findings, Judge};
use crate::event::{
    Answer, Call, Carried, Commit, Doubt, Grant, HoldId, Loss, Missed, QueueSnapshot, Unlocked,
    Write,
};
use crate::history::{History, OpenCall};
use crate::linear::Linear;
use crate::lock::Mode;
use crate::rules::{Margins, Outage, Rules};
use crate::story::{EPHEMERAL, MUTEX, RW, SEMAPHORE, granted, hold, locks, permits, read};
use crate::time::Nanos;

const FAULTS: Rules = Rules { outage: Outage::Long, ..Rules::STRICT };

fn judge(history: &History) -> Findings {
    let found = Judge::new(locks(), Margins::EXACT).judge(&FAULTS, history);
    println!("{:?}", found.violations);
    found
}

/// The second judge's violations.
fn second(history: &History) -> Vec<String> {
    let violations = Linear::new(&locks()).check(history).violations;
    println!("{violations:?}");
    violations
}

#[track_caller]
fn right(history: &History) {
    assert_eq!(judge(history).violations, Vec::<String>::new());
    assert_eq!(second(history), Vec::<String>::new());
}

/// Expects both judges to reject the history.
#[track_caller]
fn wrong(history: &History, what: &str) {
    first_alone(history, what);
    assert_eq!(second(history).len(), 1);
}

/// Expects the first judge to reject the history, since the second cannot know.
#[track_caller]
fn first_alone(history: &History, what: &str) {
    let violations = judge(history).violations;
    assert!(violations.iter().any(|violation| violation.contains(what)), "{violations:?}");
}

#[track_caller]
fn second_alone(history: &History) {
    assert_eq!(judge(history).violations, Vec::<String>::new());
    assert_eq!(second(history).len(), 1);
}

fn history_of(grants: impl IntoIterator<Item = Grant>) -> History {
    let mut history = History::new(0);
    grants.into_iter().for_each(|grant| history.granted(grant));
    history
}

fn release(history: &mut History, hold: HoldId, at: Nanos) {
    history.left(hold, at);
    history.unlocked(hold, Some(at + 5), Unlocked::Fine);
}

fn lose(history: &mut History, hold: HoldId, at: Nanos) {
    history.lost(hold, Loss { at, reason: "expired".into() });
}

fn commit(history: &mut History, hold: HoldId, times: (Nanos, Nanos), answer: Answer) {
    let (started, ended) = times;
    history.committed(Commit { holds: vec![hold], number: 0, held: true, started, ended, answer });
    if answer == Answer::Done {
        let path = history.grant(hold).map_or(MUTEX, |grant| grant.path);
        history.carried_out.push(Carried { path, token: 1, hold, number: 0, zxid: 1 });
    }
}

/// Two holds of different clients.
const A: fn() -> HoldId = || hold(0, 1);
const B: fn() -> HoldId = || hold(1, 1);

#[test]
fn two_holders_are_a_violation() {
    for path in [MUTEX, EPHEMERAL] {
        let both = || history_of([granted(A(), path, 1, 10), granted(B(), path, 2, 50)]);
        wrong(&both(), "overlap");
        let mut history = both();
        release(&mut history, A(), 60);
        wrong(&history, "overlap");
        let mut history = both();
        release(&mut history, A(), 40);
        right(&history);
    }
}

#[test]
fn loss_after_the_next_grant_is_a_violation() {
    let mut history = history_of([granted(A(), MUTEX, 1, 10), granted(B(), MUTEX, 2, 50)]);
    lose(&mut history, A(), 51);
    wrong(&history, "overlap");
    lose(&mut history, A(), 49);
    right(&history);
}

#[test]
fn dead_clients_hold_blocks_nobody() {
    let mut history = history_of([granted(A(), MUTEX, 1, 10), granted(B(), MUTEX, 2, 50)]);
    history.died(A().by.incarnation(), 50);
    right(&history);
}

#[test]
fn only_uninformed_holders_may_overlap() {
    let both = || history_of([granted(A(), MUTEX, 1, 10), granted(B(), MUTEX, 2, 50)]);
    let doubt = |process| Doubt { process, path: Some(MUTEX), begun: 40, over: 45 };
    let mut history = both();
    history.doubts.push(doubt(0));
    right(&history);
    assert_eq!(judge(&history).sum(|tally| tally.overlaps_expected), 1);
    // Its unlock cannot know either. A guarded write is different: the servers look.
    release(&mut history, A(), 60);
    right(&history);
    commit(&mut history, A(), (55, 58), Answer::Done);
    second_alone(&history);
    let mut history = both();
    history.doubts.push(Doubt { path: Some(RW), ..doubt(0) });
    wrong(&history, "overlap");
    let mut history = both();
    history.doubts.push(doubt(1));
    history.holds[1].grant.started = 46;
    wrong(&history, "overlap");
}

#[test]
fn hold_that_ended_before_its_call_returned_promises_nothing() {
    // A's client was stopped while its call returned, from 12 to 60.
    let mut late = granted(A(), MUTEX, 1, 60);
    (late.started, late.still_held) = (5, false);
    let mut history = history_of([granted(B(), MUTEX, 2, 50), late]);
    lose(&mut history, A(), 30);
    history.left(A(), 61);
    history.unlocked(A(), Some(62), Unlocked::Lost);
    history.holds.iter_mut().for_each(|record| record.grant.nodes = vec![]);
    let found = second(&history);
    assert_eq!(found, Vec::<String>::new());
    assert_eq!(judge(&history).sum(|tally| tally.overlaps), 0);
}

#[test]
fn token_that_does_not_rise_is_a_violation() {
    for token in [5, 4] {
        let mut history = history_of([granted(A(), MUTEX, 5, 10), granted(B(), MUTEX, token, 50)]);
        history.holds[1].grant.nodes = vec!["lock-0000000007".into()];
        release(&mut history, A(), 20);
        wrong(&history, "tokens went down");
        // Threads of one client hand the node on.
        history.holds[1].grant.hold.by.process = 0;
        match token {
            5 => right(&history),
            _ => wrong(&history, "tokens went down"),
        }
    }
}

#[test]
fn token_that_does_not_rise_across_histories_is_a_violation() {
    let mut judge = Linear::new(&locks());
    for (token, violations) in [(5, 0), (6, 0), (3, 1)] {
        let mut history = history_of([granted(A(), MUTEX, token, 10)]);
        release(&mut history, A(), 20);
        assert_eq!(judge.check(&history).violations.len(), violations, "{token}");
    }
}

#[test]
fn release_by_a_stranger_is_a_violation() {
    // B's unlock reports success though its lock was lost, and A's was meanwhile.
    let mut history = history_of([granted(B(), MUTEX, 1, 10), granted(A(), MUTEX, 2, 50)]);
    lose(&mut history, B(), 30);
    release(&mut history, B(), 60);
    wrong(&history, "kept quiet");
    history.unlocked(B(), Some(65), Unlocked::Lost);
    right(&history);
}

#[test]
fn guarded_write_after_the_next_grant_is_a_violation() {
    let both = || {
        let mut history = history_of([granted(A(), MUTEX, 1, 10), granted(B(), MUTEX, 2, 50)]);
        lose(&mut history, A(), 30);
        history
    };
    let mut history = both();
    commit(&mut history, A(), (60, 70), Answer::Done);
    second_alone(&history);
    // It was applied before the grant, or not at all.
    for (times, answer) in
        [((60, 70), Answer::Unknown), ((60, 70), Answer::Refused), ((45, 70), Answer::Done)]
    {
        let mut history = both();
        commit(&mut history, A(), times, answer);
        right(&history);
    }
}

#[test]
fn late_write_accepted_by_the_register_is_a_violation() {
    let mut history = history_of([granted(A(), MUTEX, 1, 10), granted(B(), MUTEX, 2, 50)]);
    lose(&mut history, A(), 30);
    let write = |hold, token, at, accepted| Write { at, path: MUTEX, token, hold, accepted };
    history.writes = vec![write(A(), 1, 20, true), write(B(), 2, 60, true)];
    right(&history);
    history.writes.push(write(A(), 1, 70, false));
    right(&history);
    history.writes.push(write(A(), 1, 80, true));
    first_alone(&history, "stale write accepted");
    history.writes[3] = write(B(), 2, 80, false);
    first_alone(&history, "fresh write refused");
}

#[test]
fn writer_beside_a_reader_is_a_violation() {
    let mut history = history_of([read(A(), 1, 10), granted(B(), RW, 2, 50)]);
    wrong(&history, "overlap");
    release(&mut history, A(), 40);
    right(&history);
    let mut history = history_of([granted(A(), RW, 1, 10), read(B(), 2, 50)]);
    wrong(&history, "overlap");
    release(&mut history, A(), 40);
    right(&history);
    right(&history_of([read(A(), 1, 10), read(B(), 2, 50)]));
}

#[test]
fn downgraded_writer_excludes_writers_and_admits_readers() {
    let (write, kept, other) = (hold(0, 1), hold(0, 2), hold(1, 1));
    let under = || Grant { under: Some(write), ..read(kept, 1, 20) };
    let mut history = history_of([granted(write, RW, 1, 10), under(), read(other, 2, 50)]);
    history.holds[1].grant.nodes = vec!["read-0000000001".into()];
    release(&mut history, write, 30);
    right(&history);
    history.holds[2].grant.mode = Mode::Exclusive;
    wrong(&history, "overlap");
    // Another holder's write is no reason for a grant.
    history.holds[2].grant.mode = Mode::Shared;
    history.holds[1].grant.under = Some(other);
    wrong(&history, "overlap");
}

#[test]
fn reader_with_a_lower_token_than_the_writer_is_a_violation() {
    let mut history = history_of([granted(A(), RW, 5, 10), read(B(), 4, 50)]);
    history.holds[1].grant.nodes = vec!["read-0000000007".into()];
    release(&mut history, A(), 30);
    wrong(&history, "tokens went down");
    let mut readers = history_of([read(A(), 5, 10), read(B(), 4, 50)]);
    readers.holds[1].grant.nodes = vec!["read-0000000007".into()];
    right(&readers);
}

#[test]
fn permits_over_the_limit_are_a_violation() {
    let all = || history_of([permits(A(), 2, 10), permits(B(), 2, 50)]);
    wrong(&all(), "overlap");
    let mut history = all();
    history.holds[1].grant.mode = Mode::Permits(1);
    right(&history);
    let mut history = all();
    release(&mut history, A(), 40);
    right(&history);
}

#[test]
fn overtaking_in_the_queue_is_a_violation() {
    let mut history = history_of([granted(A(), MUTEX, 5, 10), granted(B(), MUTEX, 9, 50)]);
    history.holds[1].grant.nodes = vec!["lock-0000000003".into()];
    release(&mut history, A(), 20);
    first_alone(&history, "order inverted");
    let mut history = history_of([permits(A(), 3, 50)]);
    history.holds[0].grant.started = 30;
    for (asked, answered) in [(10, 20), (60, 70)] {
        let queued = vec![7];
        history.queue_snapshots.push(QueueSnapshot { path: SEMAPHORE, asked, answered, queued });
    }
    first_alone(&history, "order inverted");
}

#[test]
fn unexcused_or_unreported_loss_is_a_violation() {
    let mut history = history_of([granted(A(), MUTEX, 1, 10)]);
    lose(&mut history, A(), 20);
    right(&history);
    let strict = Judge::new(locks(), Margins::EXACT).judge(&Rules::STRICT, &history);
    assert!(strict.violations[0].contains("lost for nothing"), "{:?}", strict.violations);
    history.served(15, 16);
    let slow = Judge::new(locks(), Margins::EXACT).judge(&Rules::STRICT, &history);
    assert!(slow.violations.is_empty(), "{:?}", slow.violations);
    history.slowest_write = 0;
    history.left(A(), 30);
    history.unlocked(A(), Some(31), Unlocked::Fine);
    first_alone(&history, "a loss was kept quiet");
}

#[test]
fn late_or_missing_return_is_a_violation() {
    let call = |ended| Call {
        op: "try_lock_for".into(),
        path: MUTEX,
        started: 10,
        deadline: Some(20),
        ended,
        missed: Some(Missed { mode: Mode::Exclusive, certain: true }),
    };
    let mut history = History::new(0);
    history.called(A().by, call(20));
    right(&history);
    history.called(A().by, call(21));
    first_alone(&history, "too late");
    let mut history = History::new(0);
    let op = "try_lock_for".into();
    let (path, mode, started) = (MUTEX, Some(Mode::Exclusive), 10);
    history.began(A().by, OpenCall { op, path, mode, started, deadline: Some(20) });
    history.granted(granted(B(), MUTEX, 1, 5));
    history.over = Some(20);
    right(&history);
    history.over = Some(21);
    first_alone(&history, "hung call");
}

#[test]
fn starved_waiter_is_a_violation() {
    let waits = |history: &mut History, thread: HoldId, path, mode| {
        let op = "lock".into();
        let call = OpenCall { op, path, mode: Some(mode), started: 20, deadline: None };
        history.began(thread.by, call);
    };
    let mut history = history_of([granted(A(), MUTEX, 1, 10)]);
    waits(&mut history, B(), MUTEX, Mode::Exclusive);
    history.over = Some(100);
    right(&history);
    release(&mut history, A(), 50);
    first_alone(&history, "not let in");
    // A reader behind a waiting writer is correct.
    let mut history = history_of([read(A(), 1, 10)]);
    history.over = Some(100);
    waits(&mut history, B(), RW, Mode::Shared);
    first_alone(&history, "not let in");
    waits(&mut history, hold(2, 1), RW, Mode::Exclusive);
    right(&history);
}

#[test]
fn operations_with_an_unknown_outcome_pass_either_way() {
    // A's first call was abandoned without an answer. It may have had the lock at any time.
    let mut history = History::new(0);
    let missed = Some(Missed { mode: Mode::Exclusive, certain: false });
    let (op, path, started, ended) = ("try_lock".into(), MUTEX, 1, 8);
    history.called(A().by, Call { op, path, started, deadline: None, ended, missed });
    history.granted(granted(B(), MUTEX, 2, 50));
    // B's guard was dropped, and neither C's write nor its unlock had an answer.
    history.left(B(), 60);
    history.unlocked(B(), None, Unlocked::Silent);
    let c = hold(2, 1);
    history.granted(granted(c, MUTEX, 3, 70));
    commit(&mut history, c, (75, 80), Answer::Unknown);
    history.left(c, 90);
    history.died(c.by.incarnation(), 95);
    history.granted(granted(hold(3, 1), MUTEX, 4, 92));
    right(&history);
    // But nobody enters before any of that has begun.
    history.holds[2].grant.at = 89;
    wrong(&history, "overlap");
}
