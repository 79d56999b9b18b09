//! Access control lists: what users may do with a node. This module is independent of requests.

use std::fmt;
use std::ops::BitOr;

/// The permissions of an ACL entry: any of [`READ`](Self::READ), [`WRITE`](Self::WRITE),
/// [`CREATE`](Self::CREATE), [`DELETE`](Self::DELETE) and [`ADMIN`](Self::ADMIN), joined by `|`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permissions(pub(crate) i32);

impl Permissions {
    /// Data and children may be read.
    pub const READ: Permissions = Permissions(1);
    /// Data may be set.
    pub const WRITE: Permissions = Permissions(2);
    /// Children may be created.
    pub const CREATE: Permissions = Permissions(4);
    /// Children may be deleted.
    pub const DELETE: Permissions = Permissions(8);
    /// The ACL may be set.
    pub const ADMIN: Permissions = Permissions(16);
    /// All except [`ADMIN`](Self::ADMIN): what a program needs to share nodes with others.
    pub const CONTEND: Permissions = Permissions(15);
    /// All permissions.
    pub const ALL: Permissions = Permissions(31);

    /// Returns whether these permissions include all of `others`.
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

/// Prints the permissions as ZooKeeper's command line does:
///
/// ```
/// use zoolock_zookeeper::Permissions;
///
/// assert_eq!(format!("{:?}", Permissions::READ | Permissions::CREATE), "cr");
/// ```
impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [(4, 'c'), (8, 'd'), (1, 'r'), (2, 'w'), (16, 'a')];
        let has = |bit| self.0 & bit != 0;
        let letters = letters.iter().filter(|(bit, _)| has(*bit));
        f.write_str(&letters.map(|(_, letter)| letter).collect::<String>())
    }
}

/// One entry of an ACL: a user, by scheme and id, and the user's permissions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acl {
    /// The permissions.
    pub permissions: Permissions,
    /// The scheme of the id: `world`, `auth`, `digest`, `ip`, `x509` or another one.
    pub scheme: String,
    /// The user, for example `anyone`, `user:hash` or `10.0.0.0/8`.
    pub id: String,
}

impl Acl {
    /// Creates an entry.
    pub fn new(permissions: Permissions, scheme: impl Into<String>, id: impl Into<String>) -> Acl {
        Acl { permissions, scheme: scheme.into(), id: id.into() }
    }

    /// Returns an ACL that grants all permissions to all users, ZooKeeper's `OPEN_ACL_UNSAFE`.
    #[must_use]
    pub fn open() -> Vec<Acl> {
        vec![Acl::new(Permissions::ALL, "world", "anyone")]
    }

    /// Returns an ACL that allows all users to read, ZooKeeper's `READ_ACL_UNSAFE`.
    #[must_use]
    pub fn read_only() -> Vec<Acl> {
        vec![Acl::new(Permissions::READ, "world", "anyone")]
    }

    /// Returns an ACL that grants all permissions to clients with the credentials of the connection
    /// that sends it, ZooKeeper's `CREATOR_ALL_ACL`.
    #[must_use]
    pub fn creator_all() -> Vec<Acl> {
        vec![Acl::new(Permissions::ALL, "auth", "")]
    }
}
