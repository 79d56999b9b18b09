//! The access control lists of a lock's nodes.

use zookeeper::Permissions;

/// The access control list of the nodes that a client creates: the nodes of its locks, and their
/// directories.
///
/// Every contender of a lock needs [`Permissions::CONTEND`].
///
/// ```
/// use zoolock::{Acl, Permissions};
///
/// let acl = Acl::creator().and("world", "anyone", Permissions::READ);
/// # let _ = acl;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl {
    pub(crate) entries: Vec<zookeeper::Acl>,
}

impl Acl {
    /// All clients have all permissions. This is the default.
    #[must_use]
    pub fn open() -> Acl {
        Acl::none().and("world", "anyone", Permissions::ALL)
    }

    /// The creator of a node has all permissions on it, and other clients have none. The creator is
    /// identified by all credentials of [`ClientBuilder::auth`](crate::ClientBuilder::auth) and
    /// `ClientBuilder::sasl`.
    #[must_use]
    pub fn creator() -> Acl {
        Acl::none().and("auth", "", Permissions::ALL)
    }

    /// No client has any permission: a starting point for [`and`](Acl::and).
    #[must_use]
    pub fn none() -> Acl {
        Acl { entries: Vec::new() }
    }

    /// Adds an entry: an authentication scheme of the server such as `digest`, `sasl`, `ip` or
    /// `world`, an id of that scheme, and its permissions. The id is
    /// `user:base64(sha1(user:password))` for `digest`, and the user's name for `sasl`.
    #[must_use]
    pub fn and(
        mut self,
        scheme: impl Into<String>,
        id: impl Into<String>,
        permissions: Permissions,
    ) -> Acl {
        self.entries.push(zookeeper::Acl::new(permissions, scheme, id));
        self
    }
}
