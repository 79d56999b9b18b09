//! The interface through which a client registers its session, so that another process, a reaper,
//! ends the session if this process dies. Its methods do not wait.

use std::fmt::Debug;
use std::time::Duration;

use zookeeper::SessionKey;

/// A connection to a reaper, the process that ends the sessions of dead processes.
pub(crate) trait Registrar: Debug + Send + Sync {
    /// Registers the client's session instead of the previous one. This is called periodically,
    /// because the reaper may have been restarted. Returns a message for the log, if there is one.
    fn register(&self, key: SessionKey) -> Option<String>;

    /// Removes the registration of a session that has certainly ended.
    fn forget(&self);

    /// Ensures that from now on, the session outlives the process by at least this time.
    fn allow(&self, margin: Duration);

    /// Returns whether the session is registered, as far as the client knows.
    fn is_registered(&self) -> bool;
}
