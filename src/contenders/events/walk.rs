//! A look at all locks below a path, one after the other.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::below::Below;
use super::seen::Seen;
use crate::contender::Contender;
use crate::error::{Error, Result};
use crate::inner::Inner;
use crate::path::LockPath;

pub(super) struct Walk {
    below: Below,
    found: BTreeSet<LockPath>,
    denied: Vec<LockPath>,
}

impl Walk {
    pub(super) fn new(inner: Arc<Inner>, root: LockPath) -> Walk {
        Walk { below: Below::new(inner, root), found: BTreeSet::new(), denied: Vec::new() }
    }

    /// Takes the next lock, if that passes the check. Returns false at the end.
    pub(super) fn step(
        &mut self,
        seen: &mut Seen,
        check: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        let next = self.below.next();
        check()?;
        match next {
            Some(Ok(contenders)) => {
                if let Some(path) = lock_of(&contenders) {
                    seen.look(&path, Some(Ok(contenders)));
                    self.found.insert(path);
                }
            }
            Some(Err(Error::Denied { path })) => {
                if let Ok(denied) = LockPath::parse_directory(&path) {
                    seen.look(&denied, Some(Err(Error::Denied { path })));
                    self.denied.push(denied);
                }
            }
            Some(Err(error)) => return Err(error),
            None => {
                seen.looked_at_all(&self.found, &self.denied);
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the path of a lock. `None` for nodes of ZooKeeper itself.
fn lock_of(contenders: &[Contender]) -> Option<LockPath> {
    contenders.first().and_then(|first| LockPath::parse_node(&first.path).ok())
}
