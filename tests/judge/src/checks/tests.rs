//! For each property: a wrong history, which the judges that look at the property reject, and
//! similar right histories.

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

/// What the second judge says.
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

/// By both.
#[track_caller]
fn wrong(history: &History, what: &str) {
    first_alone(history, what);
    assert_eq!(second(history).len(), 1);
}

/// By the first, since the second cannot know.
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
fn two_holders() {
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
fn a_loss_after_the_next_grant() {
    let mut history = history_of([granted(A(), MUTEX, 1, 10), granted(B(), MUTEX, 2, 50)]);
    lose(&mut history, A(), 51);
    wrong(&history, "overlap");
    lose(&mut history, A(), 49);
    right(&history);
}

#[test]
fn a_holder_whose_client_died_is_in_nobodys_way() {
    let mut history = history_of([granted(A(), MUTEX, 1, 10), granted(B(), MUTEX, 2, 50)]);
    history.died(A().by.incarnation(), 50);
    right(&history);
}

#[test]
fn holders_that_could_not_know_are_expected_to_overlap_and_others_are_not() {
    let both = || history_of([granted(A(), MUTEX, 1, 10), granted(B(), MUTEX, 2, 50)]);
    let doubt = |process| Doubt { process, path: Some(MUTEX), begun: 40, over: 45 };
    let mut history = both();
    history.doubts.push(doubt(0));
    right(&history);
    assert_eq!(judge(&history).sum(|tally| tally.overlaps_expected), 1);
    // Its unlock cannot know, either. A guarded write is another matter: the servers look.
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
fn a_hold_that_was_over_before_its_call_came_back_promises_nothing() {
    // A's client stood still while its call returned, from 12 to 60.
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
fn a_token_that_does_not_rise() {
    for token in [5, 4] {
        let mut history = history_of([granted(A(), MUTEX, 5, 10), granted(B(), MUTEX, token, 50)]);
        history.holds[1].grant.nodes = vec!["lock-0000000007".into()];
        release(&mut history, A(), 20);
        wrong(&history, "tokens went down");
        // Threads of one client leave it to each other.
        history.holds[1].grant.hold.by.process = 0;
        match token {
            5 => right(&history),
            _ => wrong(&history, "tokens went down"),
        }
    }
}

#[test]
fn a_token_that_does_not_rise_from_one_history_to_the_next() {
    let mut judge = Linear::new(&locks());
    for (token, violations) in [(5, 0), (6, 0), (3, 1)] {
        let mut history = history_of([granted(A(), MUTEX, token, 10)]);
        release(&mut history, A(), 20);
        assert_eq!(judge.check(&history).violations.len(), violations, "{token}");
    }
}

#[test]
fn a_release_by_one_who_does_not_hold_it() {
    // B's unlock says that all is well though its lock was lost, and A's in the meantime.
    let mut history = history_of([granted(B(), MUTEX, 1, 10), granted(A(), MUTEX, 2, 50)]);
    lose(&mut history, B(), 30);
    release(&mut history, B(), 60);
    wrong(&history, "kept quiet");
    history.unlocked(B(), Some(65), Unlocked::Lost);
    right(&history);
}

#[test]
fn a_guarded_write_behind_the_next_grant() {
    let both = || {
        let mut history = history_of([granted(A(), MUTEX, 1, 10), granted(B(), MUTEX, 2, 50)]);
        lose(&mut history, A(), 30);
        history
    };
    let mut history = both();
    commit(&mut history, A(), (60, 70), Answer::Done);
    second_alone(&history);
    // It was carried out before the grant, or not at all.
    for (times, answer) in
        [((60, 70), Answer::Unknown), ((60, 70), Answer::Refused), ((45, 70), Answer::Done)]
    {
        let mut history = both();
        commit(&mut history, A(), times, answer);
        right(&history);
    }
}

#[test]
fn a_late_write_that_the_register_takes() {
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
fn a_writer_beside_a_reader() {
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
fn a_writer_who_goes_on_as_a_reader_keeps_writers_out_and_lets_readers_in() {
    let (write, kept, other) = (hold(0, 1), hold(0, 2), hold(1, 1));
    let under = || Grant { under: Some(write), ..read(kept, 1, 20) };
    let mut history = history_of([granted(write, RW, 1, 10), under(), read(other, 2, 50)]);
    history.holds[1].grant.nodes = vec!["read-0000000001".into()];
    release(&mut history, write, 30);
    right(&history);
    history.holds[2].grant.mode = Mode::Exclusive;
    wrong(&history, "overlap");
    // Somebody else's write is no reason to be let in.
    history.holds[2].grant.mode = Mode::Shared;
    history.holds[1].grant.under = Some(other);
    wrong(&history, "overlap");
}

#[test]
fn a_reader_with_a_lower_token_than_the_writer_before() {
    let mut history = history_of([granted(A(), RW, 5, 10), read(B(), 4, 50)]);
    history.holds[1].grant.nodes = vec!["read-0000000007".into()];
    release(&mut history, A(), 30);
    wrong(&history, "tokens went down");
    let mut readers = history_of([read(A(), 5, 10), read(B(), 4, 50)]);
    readers.holds[1].grant.nodes = vec!["read-0000000007".into()];
    right(&readers);
}

#[test]
fn more_permits_than_there_are() {
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
fn one_who_passes_another_in_the_queue() {
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
fn a_loss_that_nothing_excuses_or_that_is_kept_quiet() {
    let mut history = history_of([granted(A(), MUTEX, 1, 10)]);
    lose(&mut history, A(), 20);
    right(&history);
    let strict = Judge::new(locks(), Margins::EXACT).judge(&Rules::STRICT, &history);
    assert!(strict.violations[0].contains("lost for nothing"), "{:?}", strict.violations);
    history.left(A(), 30);
    history.unlocked(A(), Some(31), Unlocked::Fine);
    first_alone(&history, "a loss was kept quiet");
}

#[test]
fn a_call_that_comes_back_late_or_never() {
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
fn a_waiter_that_nobody_lets_in() {
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
    // A reader behind a writer that waits is well.
    let mut history = history_of([read(A(), 1, 10)]);
    history.over = Some(100);
    waits(&mut history, B(), RW, Mode::Shared);
    first_alone(&history, "not let in");
    waits(&mut history, hold(2, 1), RW, Mode::Exclusive);
    right(&history);
}

#[test]
fn operations_whose_outcome_is_unknown_are_right_whatever_came_of_them() {
    // A's first call was given up without an answer. It may have had the lock at any time.
    let mut history = History::new(0);
    let missed = Some(Missed { mode: Mode::Exclusive, certain: false });
    let (op, path, started, ended) = ("try_lock".into(), MUTEX, 1, 8);
    history.called(A().by, Call { op, path, started, deadline: None, ended, missed });
    history.granted(granted(B(), MUTEX, 2, 50));
    // B's guard was dropped, and C's write had no answer, nor its unlock.
    history.left(B(), 60);
    history.unlocked(B(), None, Unlocked::Silent);
    let c = hold(2, 1);
    history.granted(granted(c, MUTEX, 3, 70));
    commit(&mut history, c, (75, 80), Answer::Unknown);
    history.left(c, 90);
    history.died(c.by.incarnation(), 95);
    history.granted(granted(hold(3, 1), MUTEX, 4, 92));
    right(&history);
    // But nobody gets in before anything of that has begun.
    history.holds[2].grant.at = 89;
    wrong(&history, "overlap");
}
