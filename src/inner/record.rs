//! The record of a lock-delay: a node beside the directory of a lock, for as long as the lock is
//! held. Its holder creates it before the grant, and a release deletes it with the holder's node, in
//! one transaction. So a record without its holder says that the holder was lost.
//!
//! Only the contender that is first in the queue writes the record, in a transaction that checks
//! the contender's own node.

use std::time::Duration;

use super::claim::Node;

const HELD: &str = "held";
const LOST: &str = "lost";

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// How long after its loss the holder keeps others out.
    pub(crate) delay: Duration,
    /// The name of the holder's node.
    pub(crate) node: String,
    pub(crate) state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Held,
    /// A later contender has found out that the holder was lost: at this time of the servers, in
    /// milliseconds since the epoch, or when the record was written.
    Lost(Option<i64>),
}

impl Record {
    /// Returns the record of the holder with this node.
    pub(crate) fn held(delay: Duration, node: &Node) -> Record {
        Record { delay, node: node.name.clone(), state: State::Held }
    }

    pub(crate) fn encode(&self) -> String {
        let Record { delay, node, state } = self;
        let delay = delay.as_nanos().div_ceil(1_000_000);
        match state {
            State::Held => format!("{HELD} {delay} {node}"),
            State::Lost(None) => format!("{LOST} {delay} {node}"),
            State::Lost(Some(since)) => format!("{LOST} {delay} {node} {since}"),
        }
    }

    /// Reads the data of a node. Returns `None` if it is not a record.
    pub(crate) fn decode(data: &[u8]) -> Option<Record> {
        let mut words = str::from_utf8(data).ok()?.split(' ');
        let (state, delay, node) = (words.next()?, words.next()?, words.next()?);
        let state = match (state, words.next()) {
            (HELD, None) => State::Held,
            (LOST, None) => State::Lost(None),
            (LOST, Some(since)) => State::Lost(Some(since.parse().ok()?)),
            _ => return None,
        };
        let delay = Duration::from_millis(delay.parse().ok()?);
        words.next().is_none().then(|| Record { delay, node: node.to_owned(), state })
    }

    /// Returns the record after a later contender has seen that its holder was lost. The record was
    /// written at `written`, by the clock of the servers.
    pub(crate) fn seen(self, written: i64) -> Record {
        let since = match self.state {
            State::Held => None,
            State::Lost(since) => Some(since.unwrap_or(written)),
        };
        Record { state: State::Lost(since), ..self }
    }

    /// Returns how much of the delay is left at `now`, by the clock of the servers.
    pub(crate) fn left(&self, now: i64) -> Duration {
        let State::Lost(Some(since)) = self.state else {
            return self.delay;
        };
        // Both are rounded down, and the clock of another leader may be behind.
        let over = now.saturating_sub(since).saturating_sub(1).max(0).unsigned_abs();
        self.delay.saturating_sub(Duration::from_millis(over))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn lost(since: Option<i64>) -> Record {
        Record { delay: SECOND, node: "lock-1".to_owned(), state: State::Lost(since) }
    }

    #[test]
    fn record_is_read_as_it_was_written() {
        let held = Record { state: State::Held, ..lost(None) };
        for record in [held, lost(None), lost(Some(1_790_000_000_000))] {
            println!("{}", record.encode());
            assert_eq!(Record::decode(record.encode().as_bytes()), Some(record));
        }
        for other in
            ["", "held", "held 1", "held x lock-1", "lost 1 lock-1 x", "held 1 a 2", "lost 1 a 2 3"]
        {
            assert_eq!(Record::decode(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn delay_is_rounded_up() {
        let record = Record { delay: Duration::from_nanos(1_000_001), ..lost(None) };
        assert_eq!(record.encode(), "lost 2 lock-1");
    }

    #[test]
    fn delay_runs_by_the_servers_clock_from_when_the_loss_was_seen() {
        let held = Record { state: State::Held, ..lost(None) };
        let seen = held.seen(3_000);
        assert_eq!((&seen, seen.left(9_000)), (&lost(None), SECOND), "nobody knew it before");
        let later = seen.seen(4_000);
        assert_eq!((&later, later.left(4_401)), (&lost(Some(4_000)), Duration::from_millis(600)));
        let last = later.seen(4_500);
        assert_eq!((&last, last.left(5_001)), (&lost(Some(4_000)), Duration::ZERO));
        assert_eq!(last.left(3_000), SECOND, "the clock of another leader");
        assert_eq!(lost(Some(i64::MIN)).left(i64::MAX), Duration::ZERO, "a foreign record");
        assert_eq!(lost(Some(i64::MAX)).left(i64::MIN), SECOND, "a foreign record");
    }
}
