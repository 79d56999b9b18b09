//! Whether two leaders overlapped, by their deadlines at each act, and whether a leader followed soon after
//! each fault.

use std::collections::BTreeMap;

use super::{Case, Findings};
use crate::event::{Act, Fault, Incarnation, Nap};
use crate::history::{History, Record};
use crate::time::{Nanos, after, difference, millis, nanos};

/// Figures about leaders.
#[derive(Debug, Default)]
pub struct Leading {
    /// Terms that began.
    pub terms: usize,
    /// Acts of leaders.
    pub acts: usize,
    /// Acts before the deadline of another leader.
    pub overlaps: usize,
    /// The same, after the node of one of the two had vanished.
    pub overlaps_expected: usize,
    /// The time without a leader, for each fault and each path that it affected.
    pub gaps: Vec<(&'static str, i64)>,
    /// The longest delay of the machine.
    pub machine_late: i64,
}

impl Leading {
    /// Adds the figures of another history.
    pub fn add(&mut self, other: Leading) {
        self.terms += other.terms;
        self.acts += other.acts;
        self.overlaps += other.overlaps;
        self.overlaps_expected += other.overlaps_expected;
        self.gaps.extend(other.gaps);
        self.machine_late = self.machine_late.max(other.machine_late);
    }
}

/// An act of a leader before its deadline.
struct Timely<'h> {
    at: Nanos,
    /// Its deadline, or the time when it resigned.
    until: Nanos,
    record: &'h Record,
}

pub(super) fn check(found: &mut Findings, case: Case<'_>) {
    let Case { history, margins, rules, .. } = case;
    if !rules.leaders {
        return;
    }
    found.leading.terms = history.acquisitions;
    found.leading.acts = history.acts.len();
    let late = latest_nap(case);
    found.leading.machine_late = late;
    // The servers, the next leader's client and its function may each be this late.
    let most = nanos(margins.leader_again) + 3 * late;
    for path in 0..case.locks.len() {
        let acts = timely(history, path);
        check_overlaps(found, case, &acts);
        check_tokens(found, history, &acts);
        for fault in history.faults.iter().filter(|fault| fault.paths.contains(&path)) {
            check_gap(found, case, fault, &acts, (path, most));
        }
    }
    // A machine this late may itself have ended a session.
    if late <= nanos(margins.machine_late) {
        check_health(found, history, most + nanos(margins.rest));
    }
}

/// Only faults make a process unhealthy, and only for a short time.
fn check_health(found: &mut Findings, history: &History, most: i64) {
    let mut unwell: BTreeMap<Incarnation, Vec<Nanos>> = BTreeMap::new();
    for &(by, at) in &history.unwell {
        let its = |fault: &Fault| fault.process.is_none_or(|process| process == by.process);
        let explains = |fault: &Fault| fault.begun <= at && difference(at, fault.over) <= most;
        // This history lacks the last acts of the previous phase.
        let early = difference(at, history.begun) <= most;
        if !early && !history.faults.iter().any(|fault| its(fault) && explains(fault)) {
            unwell.entry(by.incarnation()).or_default().push(at);
        }
    }
    for ((process, incarnation), times) in unwell {
        let (Some(first), Some(last)) = (times.iter().min(), times.iter().max()) else {
            continue;
        };
        let before = history.faults.iter().map(|fault| {
            let [begun, over] = [fault.begun, fault.over].map(|at| millis(difference(at, *first)));
            format!("{} of {:?} from {begun} to {over} ms", fault.name, fault.process)
        });
        let before: Vec<_> = before.collect();
        found.violations.push(format!(
            "p{process}.{incarnation} was not well for {} ms, without a fault that explains it; seen from \
             its begin: {}",
            millis(difference(*last, *first)),
            before.join(", ")
        ));
    }
}

/// Naps of processes that no fault stopped.
fn latest_nap(case: Case<'_>) -> i64 {
    let Case { history, margins, .. } = case;
    let awake = |nap: &Nap| after(nap.since, margins.nap) + nap.late;
    let was_stopped = |nap: &Nap| {
        let its = |fault: &&Fault| fault.process == Some(nap.process);
        let beside = |fault: &Fault| fault.over >= nap.since && fault.begun <= awake(nap);
        history.faults.iter().filter(its).any(beside)
    };
    let naps = history.naps.iter().filter(|nap| !was_stopped(nap));
    naps.map(|nap| nap.late as i64).max().unwrap_or(0)
}

fn timely(history: &History, path: usize) -> Vec<Timely<'_>> {
    let timely = |&Act { term, at, until }: &Act| {
        let record = history.hold(term).filter(|record| record.grant.path == path)?;
        let until = record.end(&history.deaths).map_or(until, |end| end.min(until));
        (until > at).then_some(Timely { at, until, record })
    };
    let mut acts: Vec<_> = history.acts.iter().filter_map(timely).collect();
    acts.sort_by_key(|act| act.at);
    acts
}

fn check_overlaps(found: &mut Findings, case: Case<'_>, acts: &[Timely<'_>]) {
    let mut open: Vec<&Timely<'_>> = Vec::new();
    for act in acts {
        let term = act.record.grant.hold;
        // The latest deadline of a term counts.
        open.retain(|other| other.until > act.at && other.record.grant.hold != term);
        for other in &open {
            if vanished(case.history, other.record) || vanished(case.history, act.record) {
                found.leading.overlaps_expected += 1;
                continue;
            }
            found.leading.overlaps += 1;
            found.violations.push(format!(
                "two leaders: {term} acted at {} at {} ns with token {:?}, {} ms before the deadline \
                 of {} with token {:?}",
                case.name(act.record.grant.path),
                act.at,
                act.record.grant.token,
                millis(difference(other.until, act.at)),
                other.record.grant.hold,
                other.record.grant.token,
            ));
        }
        open.push(act);
    }
}

/// Whether a fault deleted its node, whatever the term's deadline was.
fn vanished(history: &History, term: &Record) -> bool {
    let end = term.end(&history.deaths).unwrap_or(Nanos::MAX);
    let hit = |fault: &Fault| {
        let its = fault.breaks_leases && fault.process == Some(term.grant.hold.by.process);
        its && term.grant.at <= fault.over && end >= fault.begun
    };
    history.faults.iter().any(hit)
}

fn check_tokens(found: &mut Findings, history: &History, acts: &[Timely<'_>]) {
    let mut highest: Option<&Record> = None;
    for Timely { record, .. } in acts {
        let (term, token) = (record.grant.hold, record.grant.token);
        let Some(before) = highest.filter(|before| before.grant.hold != term) else {
            highest = Some(record);
            continue;
        };
        if token > before.grant.token {
            highest = Some(record);
        } else if !vanished(history, record) {
            found.violations.push(format!(
                "tokens went down: {term} led with {token:?} after {} with {:?}",
                before.grant.hold, before.grant.token
            ));
        }
    }
}

/// The longest time without a leader at a path that the fault can have caused.
fn check_gap(
    found: &mut Findings,
    case: Case<'_>,
    fault: &Fault,
    acts: &[Timely<'_>],
    (path, most): (usize, i64),
) {
    let effect = after(fault.over, case.margins.effect);
    let behind = acts.iter().filter(|act| act.at > fault.counts_from).map(|act| act.at);
    let mut before = fault.counts_from;
    let mut longest = None;
    for at in behind {
        if before > effect {
            break;
        }
        longest = longest.max(Some(difference(at, before)));
        before = at;
    }
    let Some(gap) = longest else {
        let text = format!("no leader again: at {} after {}", case.name(path), fault.name);
        found.violations.push(text);
        return;
    };
    found.leading.gaps.push((fault.name, gap));
    let lasted = difference(fault.over, fault.begun);
    let rests = fault.answers_nobody && lasted > nanos(case.margins.silence);
    let most = if rests { most + nanos(case.margins.rest) } else { most };
    if gap > most {
        found.violations.push(format!(
            "no leader for {} ms at {} ({}), and {} ms are the most",
            millis(gap),
            case.name(path),
            fault.name,
            millis(most)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::event::HoldId;
    use crate::rules::{Margins, Outage, Rules};
    use crate::story::{granted, hold, locks};

    const SECOND: Nanos = 1_000_000_000;

    fn judge(history: &History) -> Findings {
        let mut found = Findings::default();
        let rules =
            Rules { overlaps_expected: true, punctual: false, outage: Outage::Long, leaders: true };
        let margins = Margins {
            leader_again: Duration::from_millis(3500),
            rest: Duration::from_millis(3750),
            silence: Duration::from_millis(1250),
            effect: Duration::from_millis(100),
            nap: Duration::from_millis(500),
            ..Margins::EXACT
        };
        let case = Case { locks: &locks(), margins: &margins, rules: &rules, history };
        check(&mut found, case);
        println!("{:?} {:?}", found.leading, found.violations);
        found
    }

    /// A term with an act at the beginning of each second, and deadlines 2 s later.
    fn lead(history: &mut History, term: HoldId, token: u64, seconds: std::ops::Range<u64>) {
        history.granted(granted(term, 0, token, seconds.start * SECOND));
        for second in seconds {
            let (at, until) = (second * SECOND, (second + 2) * SECOND);
            history.acted(Act { term, at, until });
        }
    }

    fn fault(name: &'static str, process: usize, begun: u64, over: u64) -> Fault {
        let (begun, over) = (begun * SECOND, over * SECOND);
        let process = Some(process);
        let (breaks_leases, answers_nobody, counts_from) = (false, false, begun);
        let paths = vec![0];
        Fault { name, process, paths, begun, over, counts_from, breaks_leases, answers_nobody }
    }

    #[test]
    fn next_leader_is_valid_after_a_release_or_a_deadline() {
        let mut history = History::new(0);
        lead(&mut history, hold(0, 1), 10, 1..4);
        history.left(hold(0, 1), 3 * SECOND + 1);
        lead(&mut history, hold(1, 1), 20, 4..6);
        lead(&mut history, hold(2, 1), 30, 7..9);
        assert_eq!(judge(&history).violations, Vec::<String>::new());
    }

    #[test]
    fn act_before_another_terms_deadline_is_a_second_leader() {
        let mut history = History::new(0);
        lead(&mut history, hold(0, 1), 10, 1..4);
        lead(&mut history, hold(1, 1), 20, 4..6);
        let found = judge(&history);
        assert_eq!((found.leading.overlaps, found.leading.overlaps_expected), (1, 0));
        // Unless the first leader lost its node.
        history.faults.push(Fault { breaks_leases: true, ..fault("deleted", 0, 3, 3) });
        let found = judge(&history);
        assert_eq!((found.leading.overlaps, found.leading.overlaps_expected), (0, 1));
    }

    #[test]
    fn later_term_with_a_lower_token_is_a_violation() {
        let mut history = History::new(0);
        lead(&mut history, hold(0, 1), 20, 1..2);
        lead(&mut history, hold(1, 1), 10, 5..6);
        assert_eq!(judge(&history).violations.len(), 1);
    }

    #[test]
    fn long_gap_after_the_last_leaders_act_is_a_violation() {
        let mut history = History::new(0);
        lead(&mut history, hold(0, 1), 10, 1..3);
        history.faults.push(fault("cut off", 0, 1, 20));
        lead(&mut history, hold(1, 1), 20, 5..6);
        lead(&mut history, hold(2, 1), 30, 20..21);
        let found = judge(&history);
        assert_eq!(found.leading.gaps, [("cut off", 15 * SECOND as i64)]);
        assert_eq!(found.violations.len(), 1);
        // A client may rest after servers that heard it did not answer for long.
        history.faults[0].answers_nobody = true;
        history.faults[0].begun = 10 * SECOND;
        assert_eq!(judge(&history).violations.len(), 1, "not for so long");
        history.faults[0].answers_nobody = false;
        // Counted from the end, where nobody can lead before.
        history.faults[0].counts_from = 19 * SECOND;
        let found = judge(&history);
        assert_eq!(found.leading.gaps, [("cut off", SECOND as i64)]);
        assert_eq!(found.violations, Vec::<String>::new());
    }

    #[test]
    fn missing_leader_after_a_fault_is_a_violation() {
        let mut history = History::new(0);
        lead(&mut history, hold(0, 1), 10, 1..3);
        history.faults.push(fault("killed", 0, 3, 3));
        assert_eq!(judge(&history).violations.len(), 1);
    }

    #[test]
    fn bad_health_without_a_fault_is_a_violation() {
        let mut history = History::new(0);
        let at = 20 * SECOND;
        history.unwell.push((hold(1, 1).by, at));
        lead(&mut history, hold(0, 1), 10, 18..21);
        history.faults.push(fault("cuts", 0, 19, 19));
        assert_eq!(judge(&history).violations.len(), 1);
        history.faults[0].process = Some(1);
        assert_eq!(judge(&history).violations, Vec::<String>::new());
    }
}
