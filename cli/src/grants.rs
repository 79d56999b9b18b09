//! When locks were acquired, as far as the polls have shown it. The nodes do not contain that time: a
//! node is as old as the call that created it, and the call may have waited first.

use std::collections::HashMap;
use std::time::SystemTime;

use zoolock::{Contender, LockKind};

/// When the holders of the last poll first appeared as holders. `None` for those of the first poll.
#[derive(Default)]
pub(crate) struct Grants(Option<HashMap<Key, Option<SystemTime>>>);

type Key = (String, LockKind, u64);

impl Grants {
    /// Takes the contenders of the next poll.
    pub(crate) fn look(&mut self, contenders: &[Contender]) {
        let now = self.0.is_some().then(SystemTime::now);
        let before = self.0.take().unwrap_or_default();
        let holders = contenders.iter().filter(|contender| contender.holds).map(key);
        let seen = |key: Key| before.get(&key).copied().unwrap_or(now);
        self.0 = Some(holders.map(|key| (key.clone(), seen(key))).collect());
    }

    /// Returns when this contender first appeared as a holder. Returns `None` if it was one at the
    /// first poll.
    pub(crate) fn granted(&self, holder: &Contender) -> Option<SystemTime> {
        *self.0.as_ref()?.get(&key(holder))?
    }
}

fn key(holder: &Contender) -> Key {
    (holder.path.clone(), holder.kind, holder.token)
}
