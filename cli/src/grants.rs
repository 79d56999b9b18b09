//! When locks were granted, as far as the looks have shown it. The nodes do not say: a node is as
//! old as its call, which may have waited first.

use std::collections::HashMap;
use std::time::SystemTime;

use zoolock::{Contender, Kind};

/// When the holders of the last look were first seen as holders. `None` for those of the first look.
#[derive(Default)]
pub(crate) struct Grants(Option<HashMap<Key, Option<SystemTime>>>);

type Key = (String, Kind, u64);

impl Grants {
    /// Takes the contenders of the next look.
    pub(crate) fn look(&mut self, contenders: &[Contender]) {
        let now = self.0.is_some().then(SystemTime::now);
        let before = self.0.take().unwrap_or_default();
        let holders = contenders.iter().filter(|contender| contender.holds).map(key);
        let seen = |key: Key| before.get(&key).copied().unwrap_or(now);
        self.0 = Some(holders.map(|key| (key.clone(), seen(key))).collect());
    }

    /// Returns when this holder was first seen as one. Returns `None` if it was one at the first
    /// look.
    pub(crate) fn granted(&self, holder: &Contender) -> Option<SystemTime> {
        *self.0.as_ref()?.get(&key(holder))?
    }
}

fn key(holder: &Contender) -> Key {
    (holder.path.clone(), holder.kind, holder.token)
}
