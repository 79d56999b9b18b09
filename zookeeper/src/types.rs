//! Nodes and events, in ZooKeeper's terms.

use std::fmt;
use std::time::Duration;

/// How a node is created, and how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateMode {
    /// The node stays until it is deleted.
    Persistent,
    /// The server deletes the node when the session ends.
    Ephemeral,
    /// As [`Persistent`](Self::Persistent), with a number of ten digits appended to the name, one more
    /// than the number of the previous child.
    PersistentSequential,
    /// As [`Ephemeral`](Self::Ephemeral), with a number appended in the same way.
    EphemeralSequential,
    /// A directory that the server deletes some time after its last child. Needs servers from 3.5.3 on.
    Container,
    /// The server deletes the node when it has no children and was not changed for this long, in
    /// whole milliseconds from 1 to 2^40 - 1. Needs servers from 3.5.3 on, with
    /// `zookeeper.extendedTypesEnabled`.
    PersistentWithTtl(Duration),
    /// As [`PersistentWithTtl`](Self::PersistentWithTtl), with a number appended in the same way.
    PersistentSequentialWithTtl(Duration),
}

impl CreateMode {
    /// Returns the number of the mode in `org.apache.zookeeper.CreateMode`.
    pub(crate) fn flag(self) -> i32 {
        match self {
            CreateMode::Persistent => 0,
            CreateMode::Ephemeral => 1,
            CreateMode::PersistentSequential => 2,
            CreateMode::EphemeralSequential => 3,
            CreateMode::Container => 4,
            CreateMode::PersistentWithTtl(_) => 5,
            CreateMode::PersistentSequentialWithTtl(_) => 6,
        }
    }

    pub(crate) fn is_sequential(self) -> bool {
        matches!(self.flag(), 2 | 3 | 6)
    }

    pub(crate) fn ttl(self) -> Option<Duration> {
        match self {
            CreateMode::PersistentWithTtl(ttl) | CreateMode::PersistentSequentialWithTtl(ttl) => {
                Some(ttl)
            }
            _ => None,
        }
    }
}

/// What the servers store about a node, apart from its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stat {
    /// The transaction that created it. Later ones are greater.
    pub czxid: i64,
    /// The transaction that last set its data.
    pub mzxid: i64,
    /// When it was created, in milliseconds since 1970 by a server's clock.
    pub ctime: i64,
    /// When its data was last set, in milliseconds since 1970 by a server's clock.
    pub mtime: i64,
    /// How often its data was set.
    pub version: i32,
    /// How often its children changed.
    pub cversion: i32,
    /// How often its ACL was set.
    pub aversion: i32,
    /// The session that an ephemeral node belongs to; 0 for other nodes.
    pub ephemeral_owner: i64,
    /// The length of its data, in bytes.
    pub data_length: i32,
    /// How many children it has.
    pub num_children: i32,
    /// The transaction that last created or deleted a child.
    pub pzxid: i64,
}

/// What happened to a watched node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventType {
    /// It was created.
    NodeCreated,
    /// It was deleted.
    NodeDeleted,
    /// Its data was set.
    NodeDataChanged,
    /// A child was created or deleted.
    NodeChildrenChanged,
    /// The watch has ended without a known change: the session has expired, or the client is closed.
    WatchEnded,
}

/// An event for a [`Watcher`](crate::Watcher).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WatchedEvent {
    /// What happened.
    pub event_type: EventType,
    /// The path of the node, as it was passed to the client.
    pub path: String,
}

/// What happened to the session of a client. Apart from the events of its lease, the order is:
/// `Connected`, then `Suspended` and `Resumed` any number of times, then `Expired` or `Closed`.
/// After `Expired` the next session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionEventKind {
    /// A new session was opened: the first, or the one after an expired one.
    Connected,
    /// The connection is lost. What the session holds is kept as long as the lease lasts. Requests
    /// in flight have failed with [`ConnectionLoss`](crate::ErrorKind::ConnectionLoss).
    Suspended,
    /// The same session continues on another connection, with its ephemeral nodes and watches.
    Resumed,
    /// The servers have ended the session: its ephemeral nodes and watches are gone.
    Expired,
    /// The certified lease ran out although the client tried to renew it
    /// ([`keep_lease`](crate::ZooKeeper::keep_lease)). The session may still be alive, but the client
    /// cannot be certain of that. This precedes `Expired`, but may come before or after the other
    /// events.
    LeaseEnded,
    /// A lease that had ended is certified again, under a new term and in the same session.
    LeaseRenewed,
    /// The client is closed.
    Closed,
}

/// An event of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionEvent {
    /// What happened.
    pub kind: SessionEventKind,
    /// The session.
    pub session_id: i64,
}

/// The id and the password of a session. Any client that has them can resume the session, or
/// [end](crate::Builder::end_session) it.
///
/// They are not a secret: servers compute the password from the id, and any client that can read a node
/// of the session can read the id.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey {
    /// The id of the session.
    pub id: i64,
    /// The password of the session.
    pub password: Vec<u8>,
    /// The session timeout that the servers granted.
    pub timeout: Duration,
}

/// Prints without the password.
impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionKey({:#x})", self.id)
    }
}

/// What a client has sent and received since it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Requests sent, including heartbeats and pings.
    pub requests: u64,
    /// Watch events received.
    pub events: u64,
    /// Connections on which the client had its session.
    pub connections: u64,
    /// Sessions that the client had.
    pub sessions: u64,
}

/// The state of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// There is no session; the client is opening one.
    Connecting,
    /// There is a session and a connection.
    Connected,
    /// There is a session, and the client is looking for a connection.
    Suspended,
    /// The client is closed, or about to be.
    Closed,
}
