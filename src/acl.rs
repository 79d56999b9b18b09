//! Access control lists, as a lock needs them.

use zookeeper::Permissions;

/// The access control list that a client's nodes are made with: the nodes of its locks and the
/// directories that it has to make for them.
///
/// Everybody who shall take part in a lock needs [`Permissions::CONTEND`].
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
    /// Everybody may do everything. The default.
    #[must_use]
    pub fn open() -> Acl {
        Acl::none().and("world", "anyone", Permissions::ALL)
    }

    /// Whoever makes a node, by all the credentials given to
    /// [`ClientBuilder::auth`](crate::ClientBuilder::auth) and `ClientBuilder::sasl`, may do everything with it, and nobody
    /// else anything.
    #[must_use]
    pub fn creator() -> Acl {
        Acl::none().and("auth", "", Permissions::ALL)
    }

    /// Nobody may do anything: to add to.
    #[must_use]
    pub fn none() -> Acl {
        Acl { entries: Vec::new() }
    }

    /// Adds an entry: a scheme of the server such as `digest`, `sasl`, `ip` or `world`, an id of that
    /// scheme (for `digest`: `user:base64(sha1(user:password))`, for `sasl` the user's name), and what
    /// it may do.
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

impl Default for Acl {
    fn default() -> Acl {
        Acl::open()
    }
}
