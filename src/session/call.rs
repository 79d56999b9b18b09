//! How long a request may take, and why it has no result.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, never};
use zookeeper::ZkError;

use crate::signal::Ended;

/// Why a request has no result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Failure {
    /// The connection is dead. Whether the request was carried out is not known.
    Dead,
    /// The server answered, with this error.
    Refused(ZkError),
    /// The caller's deadline came first. The request may still be carried out.
    Deadline,
    /// The caller was cancelled. The request may still be carried out.
    Cancelled,
}

impl Failure {
    pub(crate) fn is_no_node(self) -> bool {
        self == Failure::Refused(ZkError::NoNode)
    }

    pub(crate) fn is_node_exists(self) -> bool {
        self == Failure::Refused(ZkError::NodeExists)
    }
}

/// How long a call may wait.
#[derive(Debug, Clone)]
pub(crate) struct Until {
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancelled: Ended,
}

impl Until {
    /// Until an instant; nobody can cancel it.
    pub(crate) fn deadline(deadline: Instant) -> Until {
        Until { deadline: Some(deadline), cancelled: never() }
    }

    /// For `limit` from now; nobody can cancel it.
    pub(crate) fn within(limit: Duration) -> Until {
        Until::deadline(Instant::now() + limit)
    }

    /// A channel that is ready at the deadline.
    pub(crate) fn expiry(&self) -> Receiver<Instant> {
        self.deadline.map_or_else(never, crossbeam_channel::at)
    }
}
