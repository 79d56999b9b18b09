//! What nodes are and what is told of them, in ZooKeeper's own terms.

use std::time::Duration;

/// How a node is made, and what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateMode {
    /// It stays until it is deleted.
    Persistent,
    /// The server deletes it when the session ends.
    Ephemeral,
    /// As [`Persistent`](Self::Persistent), with a number of ten digits behind its name, one more
    /// than that of the child created before it.
    PersistentSequential,
    /// Both.
    EphemeralSequential,
    /// A directory that the server deletes some time after its last child. Servers from 3.5.3 on.
    Container,
    /// The server deletes it when it has not been changed for so long and has no children.
    /// Milliseconds count, from 1 and below 2^40. Servers from 3.5.3 on, if they have
    /// `zookeeper.extendedTypesEnabled`.
    PersistentWithTtl(Duration),
    /// The same, with a number.
    PersistentSequentialWithTtl(Duration),
}

impl CreateMode {
    /// The number of the mode in `org.apache.zookeeper.CreateMode`.
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

    /// The mode with this number, and a time to live in milliseconds if it has one.
    #[cfg(feature = "testing")]
    pub(crate) fn of_flag(flag: i32, ttl: i64) -> Option<CreateMode> {
        let ttl = Duration::from_millis(u64::try_from(ttl).unwrap_or_default());
        Some(match flag {
            0 => CreateMode::Persistent,
            1 => CreateMode::Ephemeral,
            2 => CreateMode::PersistentSequential,
            3 => CreateMode::EphemeralSequential,
            4 => CreateMode::Container,
            5 => CreateMode::PersistentWithTtl(ttl),
            6 => CreateMode::PersistentSequentialWithTtl(ttl),
            _ => return None,
        })
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

/// What the servers keep about a node beside its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stat {
    /// The transaction that created it. Later ones are greater.
    pub czxid: i64,
    /// The transaction that last set its data.
    pub mzxid: i64,
    /// When it was created, in milliseconds since 1970 by a server's clock.
    pub ctime: i64,
    /// When its data was last set, likewise.
    pub mtime: i64,
    /// How often its data was set.
    pub version: i32,
    /// How often its children changed.
    pub cversion: i32,
    /// How often its ACL was set.
    pub aversion: i32,
    /// The session that an ephemeral node belongs to, 0 for others.
    pub ephemeral_owner: i64,
    /// The length of its data, in bytes.
    pub data_length: i32,
    /// How many children it has.
    pub num_children: i32,
    /// The transaction that last created or deleted a child.
    pub pzxid: i64,
}

/// What has happened to a node that was watched.
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
    /// Nothing that is known of: the session has expired or the client is closed, and with it the
    /// watch is over.
    WatchEnded,
}

/// What a [`Watcher`](crate::Watcher) is told, once for each watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WatchedEvent {
    /// What has happened.
    pub event_type: EventType,
    /// The node that was watched, as it was given.
    pub path: String,
}

/// What happens to the session of a client, but for its lease in this order: `Connected`, then `Suspended` and
/// `Resumed` any number of times, then `Expired`, whereupon the next session begins, or `Closed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionEventKind {
    /// A new session was opened: the first, or the one after an expired one.
    Connected,
    /// The connection is lost. What is held is kept as long as the lease lasts; requests in flight
    /// have failed with [`ConnectionLoss`](crate::ErrorKind::ConnectionLoss).
    Suspended,
    /// The same session goes on, on another connection. Its ephemeral nodes and watches are there.
    Resumed,
    /// The servers have ended the session: its ephemeral nodes and watches are gone.
    Expired,
    /// The certified lease has run out while it was kept ([`keep_lease`](crate::ZooKeeper::keep_lease)):
    /// the session may go on, but that is not known. It comes before `Expired`, and otherwise in no
    /// fixed order with the others.
    LeaseEnded,
    /// The lease that had ended is certified again, under a new term and in the same session.
    LeaseRenewed,
    /// The client is closed.
    Closed,
}

/// Something has happened to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionEvent {
    /// What has happened.
    pub kind: SessionEventKind,
    /// To which session.
    pub session_id: i64,
}

/// What a client has done since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Requests sent, with the heartbeats and pings that nobody asked for.
    pub requests: u64,
    /// Watch events received.
    pub events: u64,
    /// Connections on which it had its session.
    pub connections: u64,
}

/// Where a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// There is no session: the next one is being opened.
    Connecting,
    /// There is a session and a connection.
    Connected,
    /// There is a session, and a connection is being looked for.
    Suspended,
    /// It is closed, or about to be.
    Closed,
}
