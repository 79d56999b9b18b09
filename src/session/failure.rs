//! What an error of the ZooKeeper client means for a call.

use zookeeper::ErrorKind;

/// Why a request has no result.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// The connection broke. The request may have been carried out.
    Broken,
    /// The deadline came first. The request may still be carried out.
    Deadline,
    /// The session that the request was meant for is over.
    SessionOver,
    /// The caller was cancelled. The request may still be carried out.
    Cancelled,
    Closed,
    /// The server answered, with this error.
    Refused(zookeeper::Error),
}

impl From<zookeeper::Error> for Failure {
    fn from(error: zookeeper::Error) -> Failure {
        match error.kind() {
            ErrorKind::ConnectionLoss => Failure::Broken,
            ErrorKind::Timeout | ErrorKind::NoConnection => Failure::Deadline,
            ErrorKind::SessionExpired => Failure::SessionOver,
            ErrorKind::Closed => Failure::Closed,
            _ => Failure::Refused(error),
        }
    }
}

impl Failure {
    /// Returns whether the servers may have carried it out, or may do so later. False is certain.
    pub(crate) fn is_outcome_unknown(&self) -> bool {
        match self {
            Failure::SessionOver => false,
            Failure::Refused(error) => is_outcome_unknown(error),
            Failure::Broken | Failure::Deadline | Failure::Cancelled | Failure::Closed => true,
        }
    }

    /// Returns whether the server had too much to do. It may have time later.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Failure::Refused(error) if error.is_busy())
    }

    pub(crate) fn is(&self, kind: ErrorKind) -> bool {
        matches!(self, Failure::Refused(error) if error.kind() == kind)
    }
}

/// Returns whether the servers may have carried out a request with this error, or may do so later.
/// A code that no client knows does not tell what the server has done.
pub(crate) fn is_outcome_unknown(error: &zookeeper::Error) -> bool {
    error.is_maybe_done() || matches!(error.kind(), ErrorKind::Server(_))
}

/// Returns whether the session of a request is over, and so are its nodes.
pub(super) fn is_session_over(error: &zookeeper::Error) -> bool {
    matches!(error.kind(), ErrorKind::SessionExpired | ErrorKind::Closed)
}
