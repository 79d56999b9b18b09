//! The role that a member claims, and whether it really serves.

use std::io;
use std::time::Duration;

use crate::{Probe, Server};

/// The time in which a member must answer to count as serving.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The session of an abandoned check lasts this long.
const SESSION_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Leader,
    Follower,
}

/// The role that `member` claims; `None` while it is stopped, paused or without a quorum. A member that has
/// just lost its quorum keeps its claim for a while.
pub(crate) fn role(member: &Server) -> Option<Role> {
    if !is_active(member) {
        return None;
    }
    let answer = member.four_letter_within("srvr", ANSWER_WITHIN).ok()?;
    let mut modes = answer.lines().filter_map(|line| line.strip_prefix("Mode: "));
    match modes.next()?.trim() {
        "leader" => Some(Role::Leader),
        "follower" => Some(Role::Follower),
        _ => None,
    }
}

/// Returns whether `member` runs and is not paused.
pub(crate) fn is_active(member: &Server) -> bool {
    member.process_id().is_some() && !member.is_paused()
}

/// Reads from `member`, and writes: opening a session is a transaction, which only a quorum can commit and
/// which this member must have seen.
pub(crate) fn serves(member: &Server) -> io::Result<()> {
    let probe = Probe::connect_within(member.address(), SESSION_TIMEOUT, ANSWER_WITHIN)?;
    probe.exists("/")?;
    probe.close()
}
