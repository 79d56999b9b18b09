//! The kinds of frames that rules and counters distinguish.

/// A kind of request and its answer, or a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// A handshake: the first frame of a connection, which requests a new session or an existing one.
    Connect,
    /// `create`, with or without the stat in its answer. Creates of containers are not included.
    Create,
    /// `delete`
    Delete,
    /// `exists`
    Exists,
    /// `getData`
    GetData,
    /// `setData`
    SetData,
    /// `getChildren`, with or without the stat in its answer
    GetChildren,
    /// `sync`
    Sync,
    /// A heartbeat.
    Ping,
    /// `multi`
    Multi,
    /// `addAuth`
    Auth,
    /// `setWatches`, which clients send after they have reconnected
    SetWatches,
    /// `closeSession`
    CloseSession,
    /// A watch event. It is not the answer to a request, so only rules about answers apply to it.
    Event,
    /// Any other opcode.
    Other(i32),
}

impl Op {
    pub(crate) fn from_code(code: i32) -> Self {
        match code {
            1 | 15 => Self::Create,
            2 => Self::Delete,
            3 => Self::Exists,
            4 => Self::GetData,
            5 => Self::SetData,
            8 | 12 => Self::GetChildren,
            9 => Self::Sync,
            11 => Self::Ping,
            14 => Self::Multi,
            100 => Self::Auth,
            101 => Self::SetWatches,
            -11 => Self::CloseSession,
            other => Self::Other(other),
        }
    }

    /// Returns whether the body of the request begins with a path.
    pub(crate) fn has_path(self) -> bool {
        match self {
            Self::Connect | Self::Ping | Self::Multi | Self::Auth => false,
            Self::SetWatches | Self::CloseSession | Self::Event => false,
            // getACL, setACL, createContainer, createTTL
            Self::Other(code) => matches!(code, 6 | 7 | 19 | 21),
            _ => true,
        }
    }
}
