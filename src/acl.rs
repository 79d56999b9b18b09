//! Access control lists, without a type of the crate below.

use std::ops::BitOr;

/// What somebody may do with a node: a set, joined with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permissions(u8);

impl Permissions {
    /// Read its data and list its children.
    pub const READ: Permissions = Permissions(1);
    /// Write its data.
    pub const WRITE: Permissions = Permissions(2);
    /// Create children.
    pub const CREATE: Permissions = Permissions(4);
    /// Delete children.
    pub const DELETE: Permissions = Permissions(8);
    /// Change this list.
    pub const ADMIN: Permissions = Permissions(16);
    /// All of these.
    pub const ALL: Permissions = Permissions(31);
    /// What a client needs to take part in a lock: all but [`Permissions::ADMIN`].
    pub const CONTEND: Permissions = Permissions(15);

    /// Are all of `others` among these?
    #[must_use]
    pub fn contains(self, others: Permissions) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Permissions {
    type Output = Permissions;

    fn bitor(self, other: Permissions) -> Permissions {
        Permissions(self.0 | other.0)
    }
}

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
    pub(crate) entries: Vec<(Permissions, String, String)>,
}

impl Acl {
    /// Everybody may do everything. The default.
    #[must_use]
    pub fn open() -> Acl {
        Acl::none().and("world", "anyone", Permissions::ALL)
    }

    /// Whoever makes a node, by all the credentials given to
    /// [`ClientBuilder::auth`](crate::ClientBuilder::auth), may do everything with it, and nobody
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

    /// Adds an entry: a scheme of the server such as `digest`, `ip` or `world`, an id of that
    /// scheme (for `digest`: `user:base64(sha1(user:password))`), and what it may do.
    #[must_use]
    pub fn and(
        mut self,
        scheme: impl Into<String>,
        id: impl Into<String>,
        permissions: Permissions,
    ) -> Acl {
        self.entries.push((permissions, scheme.into(), id.into()));
        self
    }
}

impl Default for Acl {
    fn default() -> Acl {
        Acl::open()
    }
}

impl Permissions {
    pub(crate) fn each(self) -> impl Iterator<Item = Permissions> {
        let all = [1, 2, 4, 8, 16].map(Permissions);
        all.into_iter().filter(move |one| self.contains(*one))
    }
}
