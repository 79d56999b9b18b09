//! Checks, by ZooKeeper's data and transaction ids, whether guarded writes were applied after their hold was over.

use std::collections::{HashMap, HashSet};

use super::{Case, Findings};
use crate::event::{Answer, Carried, Commit, HoldId, Overtaken};
use crate::history::History;
use crate::lock::Mode;

/// What happened to guarded writes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Guarded {
    /// How many times processes were stopped.
    pub stops: usize,
    /// Commits that were applied.
    pub commits: usize,
    /// Late commits, which were answered after another holder had acquired the lock and committed, that the client
    /// refused because of its lease, without sending a request.
    pub refused_by_lease: usize,
    /// Late commits that the servers refused.
    pub refused_by_servers: usize,
    /// Late commits that had been applied earlier, with the answer still in flight.
    pub late_answers: usize,
    /// Late commits that received no answer.
    pub unknown: usize,
    /// Writes that were applied although they should have been refused.
    pub stale: usize,
}

impl Guarded {
    /// Returns how many late commits were refused.
    pub fn refused(&self) -> usize {
        self.refused_by_lease + self.refused_by_servers
    }

    /// Adds the counts of another history.
    pub fn add(&mut self, other: &Guarded) {
        self.stops += other.stops;
        self.commits += other.commits;
        self.refused_by_lease += other.refused_by_lease;
        self.refused_by_servers += other.refused_by_servers;
        self.late_answers += other.late_answers;
        self.unknown += other.unknown;
        self.stale += other.stale;
    }
}

pub(super) fn check(found: &mut Findings, case: Case<'_>) {
    let history = case.history;
    found.guarded.stops = history.guards_stopped;
    check_order(found, case);
    check_answers(found, history);
    check_late(found, history);
}

/// Checks that the writes of a hold precede all writes of the next hold.
fn check_order(found: &mut Findings, case: Case<'_>) {
    // Holds of threads that hand a node over to each other have the same token, so their grants determine the order.
    let place = |entry: &&Carried| {
        let granted = case.history.grant(entry.hold).map_or(0, |grant| grant.at);
        (entry.path, entry.token, granted, entry.hold)
    };
    let mut entries: Vec<&Carried> = case.history.carried_out.iter().collect();
    entries.sort_by_key(place);
    // Readers write concurrently, so their writes only have to precede those of the next writer.
    let mut next: [Option<&Carried>; 2] = [None; 2];
    for writes in entries.chunk_by(|one, other| place(one) == place(other)).rev() {
        let first = writes[0];
        next = next.map(|next| next.filter(|next| next.path == first.path));
        let grant = case.history.grant(first.hold);
        let reads = grant.is_some_and(|grant| grant.mode == Mode::Shared);
        let [of_writer, of_any] = next;
        let behind = if reads { of_writer } else { of_any };
        for entry in writes {
            if let Some(next) = behind.filter(|next| next.zxid < entry.zxid) {
                found.guarded.stale += 1;
                found.violations.push(format!(
                    "stale write accepted: commit {} of {} at {} with token {} was carried out in \
                     {:#x}, after the first of {} with token {} in {:#x}",
                    entry.number,
                    entry.hold,
                    case.name(entry.path),
                    entry.token,
                    entry.zxid,
                    next.hold,
                    next.token,
                    next.zxid,
                ));
            }
        }
        let earliest = writes.iter().copied().min_by_key(|entry| entry.zxid);
        for next in if reads { &mut next[1..] } else { &mut next[..] } {
            *next = next.iter().copied().chain(earliest).min_by_key(|entry| entry.zxid);
        }
    }
}

/// Checks that refused writes are absent, and that accepted writes are present.
fn check_answers(found: &mut Findings, history: &History) {
    let entries: HashSet<_> =
        history.carried_out.iter().map(|entry| (entry.hold, entry.number)).collect();
    for commit in &history.commits {
        let (hold, number) = (commit.hold, commit.number);
        found.guarded.commits += usize::from(commit.answer == Answer::Done);
        let is_there = entries.contains(&(hold, number));
        let wrong = match commit.answer {
            Answer::Refused if is_there => "was refused and carried out",
            Answer::Done if !is_there => "was reported as carried out, and was not",
            _ => continue,
        };
        found.violations.push(format!("commit {number} of {hold} {wrong}"));
    }
}

/// Checks that no commit is applied after another holder has taken over.
fn check_late(found: &mut Findings, history: &History) {
    let overtaken: HashMap<HoldId, &Overtaken> =
        history.overtaken_guards.iter().map(|overtaken| (overtaken.hold, overtaken)).collect();
    let is_late = |commit: &Commit, overtaken: &Overtaken| commit.ended > overtaken.overtaken;
    for commit in &history.commits {
        let Some(late) = overtaken.get(&commit.hold).filter(|late| is_late(commit, late)) else {
            continue;
        };
        let guarded = &mut found.guarded;
        match commit.answer {
            Answer::Refused if commit.held => guarded.refused_by_servers += 1,
            Answer::Refused => guarded.refused_by_lease += 1,
            Answer::Unknown => guarded.unknown += 1,
            Answer::Done if commit.started <= late.stopped => guarded.late_answers += 1,
            Answer::Done => found.violations.push(format!(
                "late commit accepted: {} of {}, which had been overtaken",
                commit.number, late.hold
            )),
        }
    }
    let is_refused = |commit: &&Commit| commit.answer == Answer::Refused;
    let refused: HashSet<_> =
        history.commits.iter().filter(is_refused).map(|one| one.hold).collect();
    for hold in overtaken.keys() {
        let has_left = history.hold(*hold).is_some_and(|record| record.left.is_some());
        if !refused.contains(hold) && !has_left {
            let text = format!("{hold} reported nothing after it had been overtaken");
            found.violations.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notation::{commit, history_of, hold, locks};
    use crate::rules::{Margins, Rules};

    /// Returns a history of these holds, in which the servers applied these writes: for each, the hold, its token, the
    /// number of the commit, and the transaction id.
    fn history(carried: &[(&str, u64, u32, i64)]) -> History {
        let mut history = history_of("1 A mutex 10, 20 A2 mutex 10, 50 B mutex 20, 90 C mutex 30");
        let entry = |&(name, token, number, zxid)| {
            let hold = hold(name);
            Carried { path: 0, token, hold, number, zxid }
        };
        history.carried_out = carried.iter().map(entry).collect();
        history
    }

    fn findings(history: &History) -> Findings {
        let mut found = Findings::default();
        let (rules, margins) = (Rules::STRICT, Margins::EXACT);
        check(&mut found, Case { locks: &locks(), margins: &margins, rules: &rules, history });
        println!("{:?} {:?}", found.guarded, found.violations);
        found
    }

    #[test]
    fn writes_in_hold_order_pass_and_late_ones_are_counted() {
        let mut history = history(&[("A", 10, 0, 11), ("A", 10, 1, 12), ("B", 20, 0, 21)]);
        let (first, stopped, overtaken) = (hold("A"), 300, 600);
        commit(&mut history, first, 0, (110, 120), Answer::Done);
        commit(&mut history, first, 1, (290, 700), Answer::Done);
        commit(&mut history, first, 2, (710, 720), Answer::Refused);
        commit(&mut history, hold("B"), 0, (510, 520), Answer::Done);
        history.overtaken_guards.push(Overtaken { hold: first, stopped, overtaken });
        let found = findings(&history);
        assert_eq!(found.violations, Vec::<String>::new());
        assert_eq!((found.guarded.late_answers, found.guarded.refused_by_servers), (1, 1));
        history.commits[2].held = false;
        assert_eq!(findings(&history).guarded.refused_by_lease, 1);
    }

    #[test]
    fn write_after_the_next_holders_first_is_stale() {
        let stale = |carried: &[_]| findings(&history(carried)).guarded.stale;
        assert_eq!(stale(&[("A", 10, 0, 22), ("B", 20, 0, 21)]), 1);
        // The write is also stale if a third holder wrote in between.
        assert_eq!(stale(&[("C", 30, 0, 31), ("B", 20, 0, 21), ("A", 10, 0, 40)]), 1);
        // Threads of one process that share a token must write one after another.
        assert_eq!(stale(&[("A", 10, 0, 11), ("A2", 10, 0, 12)]), 0);
        assert_eq!(stale(&[("A", 10, 0, 13), ("A2", 10, 0, 12)]), 1);
    }

    #[test]
    fn answer_that_contradicts_the_servers_is_a_violation() {
        let mut history = history(&[("A", 10, 0, 11)]);
        commit(&mut history, hold("A"), 0, (110, 120), Answer::Refused);
        assert_eq!(findings(&history).violations.len(), 1, "refused and carried out");
        history.commits[0].answer = Answer::Done;
        assert_eq!(findings(&history).violations.len(), 0);
        history.carried_out.clear();
        assert_eq!(findings(&history).violations.len(), 1, "not there");
    }

    #[test]
    fn commit_of_an_overtaken_holder_must_be_refused() {
        let (mut history, first) = (history(&[("A", 10, 0, 11)]), hold("A"));
        history.overtaken_guards.push(Overtaken { hold: first, stopped: 300, overtaken: 600 });
        assert_eq!(findings(&history).violations.len(), 1, "it reported nothing");
        commit(&mut history, first, 0, (610, 620), Answer::Done);
        history.left(first, 630);
        let violations = findings(&history).violations;
        assert!(violations.len() == 1 && violations[0].contains("late commit"), "{violations:?}");
    }
}
