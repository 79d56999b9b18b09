//! Settings of one lock.

use std::sync::Arc;

use crate::data;
use crate::error::{Error, Result};

/// A request of 1 MB makes a server drop the connection (`jute.maxbuffer`).
const MOST_IDENTITY: usize = 16 * 1024;

/// Settings of one lock, for the `with` of its type. The defaults are those of `new`.
///
/// ```no_run
/// # fn f(client: &zoolock::Client) -> zoolock::Result<()> {
/// use zoolock::{DistributedLock, LockOptions};
///
/// let options = LockOptions::new()
///     .identity("billing, instance 7")
///     .remove_empty_directory(true);
/// let lock = DistributedLock::with(client, "/locks/invoice/4711", options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "does nothing until it is given to a lock"]
pub struct LockOptions {
    pub(crate) identity: Option<Arc<str>>,
    pub(crate) remove_empty_directory: bool,
}

impl LockOptions {
    /// The defaults.
    pub fn new() -> LockOptions {
        LockOptions::default()
    }

    /// What the lock's nodes say of their maker, for people who look; at most 16 KiB. Default:
    /// what the client says, see [`ClientBuilder::identity`](crate::ClientBuilder::identity).
    pub fn identity(mut self, who: impl Into<String>) -> LockOptions {
        self.identity = Some(Arc::from(who.into()));
        self
    }

    /// Removes the lock's directory when a release leaves it empty: for locks with ever new paths,
    /// whose directories would pile up. Default: false.
    ///
    /// It costs two requests a release. A directory is removed only if its ACL is the one that
    /// this client gives its own; with an ACL of scheme `auth`, such as
    /// [`Acl::creator`](crate::Acl::creator), which the server turns into something else, only if
    /// this client has made it. Others who are about to queue make it again. The numbers of its
    /// nodes begin anew then; tokens go on rising. A release that is left to the background removes
    /// nothing.
    pub fn remove_empty_directory(mut self, remove: bool) -> LockOptions {
        self.remove_empty_directory = remove;
        self
    }

    pub(crate) fn check(self) -> Result<LockOptions> {
        let identity = self.identity.as_deref();
        identity.map_or(Ok(()), check_identity).map(|()| self)
    }
}

/// An identity that a node can carry.
pub(crate) fn check_identity(identity: &str) -> Result<()> {
    let reason = if identity.len() > MOST_IDENTITY {
        format!("it is longer than {MOST_IDENTITY} bytes")
    } else if data::decode(identity.as_bytes()) != (Some(identity.to_owned()), None)
        || data::split_turn(identity).1.is_some()
    {
        "it would be read as a request to let go, or as the origin of a lock that moved".to_owned()
    } else {
        return Ok(());
    };
    let what = "identity";
    Err(Error::InvalidArgument { what, reason })
}
