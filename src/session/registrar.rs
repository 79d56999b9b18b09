//! Where a client registers its session, so that somebody outside of the process ends the session when
//! the process has died. None of it waits.

use std::fmt::Debug;
use std::time::Duration;

use zookeeper::SessionKey;

/// A way to a reaper.
pub(crate) trait Registrar: Debug + Send + Sync {
    /// Registers the client's session, in place of the one before. Called from time to time, because
    /// the reaper may have been started again. Returns what there is to say about that in the log.
    fn register(&self, key: SessionKey) -> Option<String>;

    /// Withdraws the registration of a session that is over for certain.
    fn forget(&self);

    /// Has the session outlive the process for this long at the least, from now on.
    fn allow(&self, margin: Duration);

    /// Returns whether the session is registered, as far as is known.
    fn is_registered(&self) -> bool;
}
