//! The errors, and what each means for the request. Other modules detect them.

use std::fmt;
use std::sync::Arc;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The node does not exist, or the parent in which to create it does not exist.
    NoNode,
    /// The node already exists.
    NodeExists,
    /// The node does not have the requested version.
    BadVersion,
    /// The node has children and cannot be deleted.
    NotEmpty,
    /// The ACL denies permission to the credentials of the connection.
    NoAuth,
    /// The parent is an ephemeral node, which cannot have children.
    NoChildrenForEphemerals,
    /// The ACL is empty, or has an entry that the server cannot use.
    InvalidAcl,
    /// The server refused the credentials, or requires credentials (`enforce.auth.enabled`).
    AuthFailed,
    /// The server does not support this operation: it is too old, or the operation is disabled.
    Unimplemented,
    /// A quota of the server is exceeded.
    QuotaExceeded,
    /// Any other error that the server returned, by its code in `KeeperException.Code`.
    Server(i32),
    /// The connection broke after the request was sent. The request may or may not be carried out.
    ConnectionLoss,
    /// The deadline passed after the request was sent. The request may or may not be carried out.
    Timeout,
    /// The deadline passed while there was no connection. The request was not and will not be
    /// carried out.
    NoConnection,
    /// The session of the request has ended, and the request was not carried out. If the request had
    /// already been sent, it fails with [`ConnectionLoss`](Self::ConnectionLoss) instead.
    SessionExpired,
    /// The client was closed before the request was sent.
    Closed,
    /// The request cannot be sent, or a setting cannot be used: for example, ZooKeeper does not allow
    /// the path, or the data is too long.
    BadArguments,
    /// The first session could not be opened.
    ConnectFailed,
    /// The operating system refused to start a thread of the client.
    NoThread,
    /// A callback waited for an answer on the thread that reads answers. The request of a call was not
    /// sent; a request that had been submitted before may be carried out.
    WouldBlock,
}

/// The codes of `org.apache.zookeeper.KeeperException.Code`.
pub(crate) mod code {
    pub(crate) const OK: i32 = 0;
    pub(crate) const SYSTEM_ERROR: i32 = -1;
    pub(crate) const RUNTIME_INCONSISTENCY: i32 = -2;
    pub(crate) const DATA_INCONSISTENCY: i32 = -3;
    pub(crate) const CONNECTION_LOSS: i32 = -4;
    pub(crate) const MARSHALLING_ERROR: i32 = -5;
    pub(crate) const UNIMPLEMENTED: i32 = -6;
    pub(crate) const OPERATION_TIMEOUT: i32 = -7;
    pub(crate) const BAD_ARGUMENTS: i32 = -8;
    pub(crate) const NO_NODE: i32 = -101;
    pub(crate) const NO_AUTH: i32 = -102;
    pub(crate) const BAD_VERSION: i32 = -103;
    pub(crate) const NO_CHILDREN_FOR_EPHEMERALS: i32 = -108;
    pub(crate) const NODE_EXISTS: i32 = -110;
    pub(crate) const NOT_EMPTY: i32 = -111;
    pub(crate) const SESSION_EXPIRED: i32 = -112;
    pub(crate) const INVALID_ACL: i32 = -114;
    pub(crate) const AUTH_FAILED: i32 = -115;
    pub(crate) const SESSION_MOVED: i32 = -118;
    pub(crate) const NOT_READ_ONLY: i32 = -119;
    pub(crate) const EPHEMERAL_ON_LOCAL_SESSION: i32 = -120;
    pub(crate) const REQUEST_TIMEOUT: i32 = -122;
    pub(crate) const RECONFIG_DISABLED: i32 = -123;
    pub(crate) const SESSION_CLOSED_REQUIRE_SASL: i32 = -124;
    pub(crate) const QUOTA_EXCEEDED: i32 = -125;
    pub(crate) const THROTTLED: i32 = -127;
}

/// The kinds of errors, their texts, and the codes by which servers report them.
const KINDS: &[(ErrorKind, Option<i32>, &str)] = &[
    (
        ErrorKind::Unimplemented,
        Some(code::UNIMPLEMENTED),
        "the server does not support this operation, or has disabled it",
    ),
    (ErrorKind::NoNode, Some(code::NO_NODE), "the node does not exist"),
    (ErrorKind::NoAuth, Some(code::NO_AUTH), "the ACL denies permission"),
    (ErrorKind::BadVersion, Some(code::BAD_VERSION), "the node has another version"),
    (
        ErrorKind::NoChildrenForEphemerals,
        Some(code::NO_CHILDREN_FOR_EPHEMERALS),
        "an ephemeral node cannot have children",
    ),
    (ErrorKind::NodeExists, Some(code::NODE_EXISTS), "the node already exists"),
    (ErrorKind::NotEmpty, Some(code::NOT_EMPTY), "the node has children"),
    (ErrorKind::InvalidAcl, Some(code::INVALID_ACL), "the ACL is invalid"),
    (
        ErrorKind::AuthFailed,
        Some(code::AUTH_FAILED),
        "the server refused the credentials, or requires credentials",
    ),
    (ErrorKind::QuotaExceeded, Some(code::QUOTA_EXCEEDED), "a quota is exceeded"),
    (
        ErrorKind::ConnectionLoss,
        None,
        "the connection broke; the request may have been carried out",
    ),
    (
        ErrorKind::Timeout,
        None,
        "no answer before the deadline; the request may have been carried out",
    ),
    (
        ErrorKind::NoConnection,
        None,
        "no connection before the deadline; the request was not carried out",
    ),
    (ErrorKind::SessionExpired, None, "the session has expired"),
    (ErrorKind::Closed, None, "the client is closed"),
    (ErrorKind::BadArguments, None, "invalid arguments"),
    (ErrorKind::ConnectFailed, None, "no session"),
    (ErrorKind::NoThread, None, "failed to start a thread"),
    (ErrorKind::WouldBlock, None, "a callback must not wait for an answer"),
];

/// The texts of codes without a kind.
const OTHERS: &[(i32, &str)] = &[
    (code::SYSTEM_ERROR, "system error"),
    (
        code::RUNTIME_INCONSISTENCY,
        "not carried out, because another operation of the same request failed",
    ),
    (code::DATA_INCONSISTENCY, "inconsistent data"),
    (code::MARSHALLING_ERROR, "the server failed to decode the request"),
    (code::OPERATION_TIMEOUT, "the operation timed out in the server"),
    (code::BAD_ARGUMENTS, "invalid arguments"),
    (code::SESSION_MOVED, "the session has moved to another server"),
    (code::NOT_READ_ONLY, "the server is read-only"),
    (code::EPHEMERAL_ON_LOCAL_SESSION, "a local session cannot have ephemeral nodes"),
    (code::REQUEST_TIMEOUT, "the request waited in the server for too long"),
    (code::RECONFIG_DISABLED, "reconfiguration is disabled"),
    (code::THROTTLED, "the server is overloaded and throttled the request"),
];

impl ErrorKind {
    pub(crate) fn of_code(code: i32) -> ErrorKind {
        // Servers with `enforce.auth.enabled` send this code whatever scheme they require.
        let code = match code {
            code::SESSION_CLOSED_REQUIRE_SASL => code::AUTH_FAILED,
            code => code,
        };
        let known = KINDS.iter().find(|known| known.1 == Some(code));
        known.map_or(ErrorKind::Server(code), |known| known.0)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(known) = KINDS.iter().find(|known| known.0 == *self) {
            return f.write_str(known.2);
        }
        let ErrorKind::Server(code) = self else {
            return write!(f, "{self:?}");
        };
        match OTHERS.iter().find(|other| other.0 == *code) {
            Some((_, text)) => write!(f, "the server answered: {text} ({code})"),
            None => write!(f, "the server answered with the code {code}"),
        }
    }
}

/// Why a client could not open its first session.
///
/// If several servers failed, this is the failure of the one that came furthest. The variants are in
/// this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// No name of a server could be resolved to an address.
    Name,
    /// No server accepted a connection: the port is closed, or the network or the host is not
    /// reachable.
    Unreachable,
    /// A server, or the network in between, did not answer in time.
    Silent,
    /// TLS failed: one side does not trust the other's certificate, they have no version in common,
    /// or the server does not expect TLS at this port.
    Tls,
    /// A server answered without opening a session. It may not be serving, or may not be a ZooKeeper
    /// server, or it expects TLS at this port.
    NoSession,
    /// A server refused the credentials.
    Credentials,
}

/// Why a request was not carried out, or may not have been carried out.
///
/// It prints as `failed to create `/a`: the node already exists`, followed by the cause if one is known,
/// such as which server could not be reached and why. It never contains data or credentials.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    reason: Option<Arc<str>>,
    request: Option<Attempt>,
    failed: Option<usize>,
    connect_failure: Option<ConnectFailure>,
}

/// What a call attempted: a verb and its object.
#[derive(Debug, Clone)]
struct Attempt {
    verb: &'static str,
    object: Box<str>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Error {
        Error { kind, reason: None, request: None, failed: None, connect_failure: None }
    }

    pub(crate) fn because(kind: ErrorKind, reason: impl Into<Arc<str>>) -> Error {
        let mut error = Error::new(kind);
        error.reason = Some(reason.into());
        error
    }

    /// Creates the error of a request or a setting that cannot be used.
    pub(crate) fn bad(reason: impl Into<Arc<str>>) -> Error {
        Error::because(ErrorKind::BadArguments, reason)
    }

    /// Sets the index of the operation of a `multi` that failed.
    pub(crate) fn at(mut self, failed: usize) -> Error {
        self.failed = Some(failed);
        self
    }

    pub(crate) fn connecting(mut self, failure: ConnectFailure) -> Error {
        self.connect_failure = Some(failure);
        self
    }

    /// Sets the request, unless a more specific one has been set.
    pub(crate) fn of(mut self, verb: &'static str, what: &str) -> Error {
        self.request.get_or_insert_with(|| Attempt { verb, object: what.into() });
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the cause, as far as it is known.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Returns the index of the operation that failed, for a `multi` that the server refused.
    #[must_use]
    pub fn failed_op(&self) -> Option<usize> {
        self.failed
    }

    /// Returns why [`connect`](crate::Builder::connect) could not open a session. `None` if a setting
    /// cannot be used ([`ErrorKind::BadArguments`]), if a thread could not be started
    /// ([`ErrorKind::NoThread`]), and for the errors of all other calls.
    #[must_use]
    pub fn connect_failure(&self) -> Option<ConnectFailure> {
        self.connect_failure
    }

    /// Returns whether the server was overloaded: it throttled the request, or the request timed out in
    /// the server. The same request may succeed later.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let busy = [code::OPERATION_TIMEOUT, code::REQUEST_TIMEOUT, code::THROTTLED];
        matches!(self.kind, ErrorKind::Server(code) if busy.contains(&code))
    }

    /// Returns whether the servers may have carried out the request, or may do so later. If this is
    /// false, the request was certainly not carried out.
    #[must_use]
    pub fn is_maybe_done(&self) -> bool {
        match self.kind {
            ErrorKind::ConnectionLoss | ErrorKind::Timeout | ErrorKind::WouldBlock => true,
            // The server gave up on the request, or failed after carrying it out.
            ErrorKind::Server(code) => matches!(
                code,
                code::SYSTEM_ERROR
                    | code::CONNECTION_LOSS
                    | code::MARSHALLING_ERROR
                    | code::OPERATION_TIMEOUT
            ),
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Attempt { verb, object }) = &self.request {
            write!(f, "failed to {verb} `{object}`: ")?;
        }
        self.kind.fmt(f)?;
        if let Some(reason) = &self.reason {
            write!(f, ": {reason}")?;
        }
        match self.failed {
            Some(index) => write!(f, " (operation {index} of the list)"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        Error::new(kind)
    }
}

/// The result of the calls of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_request_the_problem_and_its_cause() {
        let kind = ErrorKind::NodeExists;
        for (error, text) in [
            (Error::new(kind), "the node already exists"),
            (Error::new(kind).of("create", "/a"), "failed to create `/a`: the node already exists"),
            (
                Error::new(kind).of("create", "/a").of("delete", "/b"),
                "failed to create `/a`: the node already exists",
            ),
            (Error::new(kind).at(2), "the node already exists (operation 2 of the list)"),
            (
                Error::because(ErrorKind::ConnectFailed, "a:1: Connection refused"),
                "no session: a:1: Connection refused",
            ),
            (
                Error::because(ErrorKind::ConnectionLoss, "the server hung up").of("read", "/a"),
                "failed to read `/a`: the connection broke; the request may have been carried out: \
                 the server hung up",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
        assert_eq!(Error::new(kind).at(2).failed_op(), Some(2));
        assert_eq!(Error::new(kind).failed_op(), None);
    }

    #[test]
    fn only_a_request_that_may_have_reached_a_server_is_maybe_done() {
        for (kind, is_maybe) in [
            (ErrorKind::ConnectionLoss, true),
            (ErrorKind::Timeout, true),
            (ErrorKind::Server(-7), true),
            (ErrorKind::NoConnection, false),
            (ErrorKind::SessionExpired, false),
            (ErrorKind::Closed, false),
            (ErrorKind::BadArguments, false),
            (ErrorKind::NodeExists, false),
            (ErrorKind::Server(-8), false),
        ] {
            assert_eq!(Error::new(kind).is_maybe_done(), is_maybe, "{kind:?}");
        }
    }
}
