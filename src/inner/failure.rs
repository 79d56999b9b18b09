//! What the errors of the client mean for a lock.

use zookeeper::ErrorKind;

/// Why a request has no result.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// The connection broke. The request may have been carried out.
    Broken,
    /// The deadline came first. The request may still be carried out.
    Deadline,
    /// The session of the request is over.
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
    /// Returns whether the servers may have carried out the request, or may do so later. False is
    /// certain.
    pub(super) fn is_maybe_done(&self) -> bool {
        match self {
            Failure::SessionOver => false,
            Failure::Refused(error) => may_be_done(error),
            Failure::Broken | Failure::Deadline | Failure::Cancelled | Failure::Closed => true,
        }
    }

    pub(crate) fn is(&self, kind: ErrorKind) -> bool {
        matches!(self, Failure::Refused(error) if error.kind() == kind)
    }
}

/// Returns whether the servers may have carried out a request with this error. An unknown code does
/// not show what the server has done.
pub(crate) fn may_be_done(error: &zookeeper::Error) -> bool {
    error.is_maybe_done() || matches!(error.kind(), ErrorKind::Server(_))
}
