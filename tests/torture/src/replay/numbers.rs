//! Maps the simulated server's transaction ids and session ids to those of the real server.

use std::collections::BTreeMap;

/// A transaction id of at least this value stands for any time in the future.
const FUTURE: i64 = 1 << 48;

#[derive(Default)]
pub(crate) struct Numbers {
    /// Ids of transactions, mapped one to one in the same order.
    transactions: BTreeMap<i64, i64>,
    /// Ids of last transactions, from answers. Several simulated ids may be mapped to one real id.
    seen: BTreeMap<i64, i64>,
    pub(crate) sessions: BTreeMap<i64, Session>,
}

/// A session of the simulated server.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) real: i64,
    /// The passwords of the simulated session and of the real one.
    pub(crate) passwords: [Vec<u8>; 2],
    pub(crate) is_over: bool,
}

impl Numbers {
    /// Returns whether two ids can belong to the same transaction. If so, records that.
    pub(crate) fn is_transaction(&mut self, simulated: i64, real: i64) -> bool {
        if simulated <= 0 || real <= 0 {
            return simulated == real;
        }
        let known = &mut self.transactions;
        let is_new = known.get(&simulated).is_none_or(|known| *known == real);
        let is_later = known.range(..simulated).next_back().is_none_or(|(_, known)| *known < real);
        let is_earlier = known.range(simulated + 1..).next().is_none_or(|(_, known)| *known > real);
        known.insert(simulated, real);
        is_new && is_later && is_earlier
    }

    /// Returns whether two ids can belong to the same last applied transaction. If so, records that.
    pub(crate) fn is_seen(&mut self, simulated: i64, real: i64) -> bool {
        if simulated <= 0 || real <= 0 {
            return simulated == real;
        }
        let known = &self.transactions;
        self.seen.insert(simulated, real);
        known.range(..=simulated).next_back().is_none_or(|(_, known)| *known <= real)
            && known.range(simulated + 1..).next().is_none_or(|(_, known)| *known > real)
    }

    /// Returns the real server's id for a simulated transaction id in a client's request.
    pub(crate) fn transaction(&self, simulated: i64) -> i64 {
        if simulated <= 0 || simulated >= FUTURE {
            return simulated;
        }
        let last = [&self.transactions, &self.seen]
            .map(|known| known.range(..=simulated).next_back().map_or(0, |(_, real)| *real));
        last[0].max(last[1])
    }

    /// Returns whether two owners of nodes, or two sessions, correspond. A container also has an owner, which is not a
    /// session.
    pub(crate) fn is_owner(&self, simulated: i64, real: i64) -> bool {
        self.sessions.get(&simulated).map_or(simulated, |session| session.real) == real
    }
}
