//! Judges deadlocks: who really waited for whom when a call was ended, and whether a circle was left alone.

use std::collections::BTreeSet;
use std::time::Duration;

use kernel::Process;
use zoolock::{Contender, Deadlock};

use super::{Held, READ, SECOND, judged, parent, witness};
use crate::client::node_of;
use crate::plan::{Kind, Place};

/// Something that a thread did for a while: it waited at a path for a lock of this kind, or held a node with a token.
struct Span {
    process: Process,
    who: String,
    what: String,
    kind: Kind,
    from: Duration,
    to: Option<Duration>,
}

/// Who waited and held when.
#[derive(Default)]
pub(crate) struct Circles {
    waits: Vec<Span>,
    holds: Vec<Span>,
    /// The waiting nodes and calls of the circles that were broken.
    broken: BTreeSet<Vec<(i64, String, Option<i64>)>>,
}

/// A wait for others, until this is dropped.
pub(crate) struct Waits(usize);

impl Drop for Waits {
    fn drop(&mut self) {
        witness(|witness| witness.circles.waits[self.0].to = Some(kernel::elapsed()));
    }
}

/// Notes that a thread may wait for a lock from now on.
pub(crate) fn waits(who: &str, kind: Kind, place: Place) -> Waits {
    let process = kernel::own_process();
    let (who, what) = (who.to_owned(), place.path().to_owned());
    let span = Span { process, who, what, kind, from: kernel::elapsed(), to: None };
    Waits(witness(|witness| {
        witness.circles.waits.push(span);
        witness.circles.waits.len() - 1
    }))
}

impl Circles {
    pub(super) fn granted(&mut self, held: &Held) {
        let (process, kind, from) = (held.process, held.kind, kernel::elapsed());
        let span = |what| Span { process, who: held.who.clone(), what, kind, from, to: None };
        self.holds.extend(Circles::nodes(held).map(span));
    }

    pub(super) fn ended(&mut self, held: &Held) {
        for node in Circles::nodes(held) {
            self.end(|span| span.who == held.who && span.what == node);
        }
    }

    /// Notes that somebody else has deleted a node.
    pub(super) fn robbed(&mut self, node: &str) {
        self.end(|span| span.what.rsplit_once('#').is_some_and(|(path, _)| path == node));
    }

    fn end(&mut self, is_it: impl Fn(&Span) -> bool) {
        let open = self.holds.iter_mut().filter(|span| span.to.is_none() && is_it(span));
        open.for_each(|span| span.to = Some(kernel::elapsed()));
    }

    fn nodes(held: &Held) -> impl Iterator<Item = String> {
        held.nodes.iter().map(|(path, token)| with_token(path, *token))
    }

    /// Returns what is wrong with a circle that has ended a call: its threads have to have waited and held at one
    /// instant.
    fn judge(&mut self, deadlock: &Deadlock, longest: Duration) -> Option<String> {
        let key = |one: &Contender| (one.session, one.node.clone(), one.sequence);
        let mut members: Vec<_> = deadlock.waits.iter().map(|(one, _)| key(one)).collect();
        members.sort_unstable();
        if !self.broken.insert(members) {
            return Some("two calls of one deadlock are ended".to_owned());
        }
        let (mut from, mut to) = (Duration::ZERO, kernel::elapsed());
        let next = deadlock.waits.iter().cycle().skip(1).map(|(waiting, _)| waiting);
        let holders = deadlock.waits.iter().zip(next).filter(|((_, ahead), _)| ahead.holds);
        for ((_, ahead), next) in holders {
            let node = with_token(&node_of(ahead), ahead.token);
            // Not all holds are known here, for example those of members of a multi-lock. One that is younger
            // than the look may have had another thread before.
            let is_old = |span: &Span| span.from + longest < kernel::elapsed();
            let is_it = |span: &&Span| span.what == node && span.to.is_none() && is_old(span);
            let Some(held) = self.holds.iter().find(is_it) else {
                continue;
            };
            // A multi-lock waits at other paths, too.
            let is_there = |path: &str| path == next.path || [SECOND, READ].contains(&&*next.path);
            let is_its = |span: &&Span| span.who == held.who && is_there(&span.what);
            let Some(waited) = self.waits.iter().rev().find(is_its) else {
                return Some(format!(
                    "{} has {node}, and did not wait for {}",
                    held.who, next.path
                ));
            };
            for span in [held, waited] {
                from = from.max(span.from);
                to = to.min(span.to.unwrap_or(to));
            }
        }
        (from > to).then(|| format!("those of a circle waited by {to:?} and from {from:?}"))
    }

    /// Returns since when a thread that waits at `path` has been in a circle that its members could see: all hold
    /// exclusively, and nobody else of their processes waits there.
    fn in_circle_since(&self, who: &str, path: &str) -> Option<Duration> {
        let open = |span: &&Span| span.to.is_none();
        let (mut at, mut since) = (path, Duration::ZERO);
        for _ in 0..self.waits.len() {
            let here = |span: &&Span| parent(&span.what) == at;
            let mut holders = self.holds.iter().filter(open).filter(here);
            let (holder, None) = (holders.next()?, holders.next()) else {
                return None;
            };
            let is_exclusive =
                |span: &Span| matches!(span.kind, Kind::Exclusive | Kind::Reentrant | Kind::Write);
            let its = |span: &&Span| span.who == holder.who;
            let waits = self.waits.iter().filter(open).find(its)?;
            let beside = |span: &&Span| (span.process, &span.what) == (holder.process, &waits.what);
            if ![holder, waits].into_iter().all(is_exclusive)
                || self.waits.iter().filter(open).filter(beside).count() > 1
            {
                return None;
            }
            since = since.max(holder.from).max(waits.from);
            if holder.who == who {
                return Some(since);
            }
            at = &waits.what;
        }
        None
    }
}

/// Checks the circle that has ended a call.
pub(crate) fn broken(deadlock: &Deadlock) {
    judged(|witness| {
        let problem = witness.circles.judge(deadlock, witness.timeout / 3)?;
        Some(format!("{problem}: {deadlock}"))
    });
}

/// Checks that a thread which waits at `path`, where calls look for deadlocks `after` this time, was not left in one.
pub(crate) fn left_alone(who: &str, path: &str, after: Duration) {
    let now = kernel::elapsed();
    judged(|witness| {
        let limit = after + witness.soon();
        let since = witness.circles.in_circle_since(who, path)?;
        // A wait for a thread may have become one for a node meanwhile.
        let ended = witness.ended_at.values().copied().max();
        let since = since.max(ended.unwrap_or_default());
        // The object of a hold that is lost is in use until its owner unlocks it, and knows of it.
        let is_sure = |held: &Held| held.is_held() == Some(true) && !held.is_doubtful;
        let are_held = witness.held.values().all(is_sure);
        // Two looks at two locks are eight requests one after the other, and end with a limit.
        let is_quick = witness.slowest * 24 < witness.timeout / 3;
        (witness.is_well && is_quick && are_held && now - since > limit).then(|| {
            format!("{who} is in a deadlock at {path} since {since:?}, and no call is ended")
        })
    });
}

/// Returns what distinguishes a node from later ones of the same path.
fn with_token(path: &str, token: u64) -> String {
    format!("{path}#{token:#x}")
}
