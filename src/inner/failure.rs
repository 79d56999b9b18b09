//! What the errors of the client below come to for a lock.

use zookeeper::ErrorKind;

/// Why a request has no result.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// The connection broke. It may have been carried out.
    Broken,
    /// The deadline came first. It may still be carried out.
    Deadline,
    /// The session that it was meant for is over.
    SessionOver,
    /// The caller was cancelled. It may still be carried out.
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
    /// May the servers have carried it out, or do so later? False is certain.
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

/// What a server says with a code of its own does not tell what it has done.
pub(crate) fn may_be_done(error: &zookeeper::Error) -> bool {
    error.is_maybe_done() || matches!(error.kind(), ErrorKind::Server(_))
}
