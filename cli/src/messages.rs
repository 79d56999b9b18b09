//! The messages between zoolock, the supervisor and the step, the process that becomes the program. The
//! sockets between them preserve message boundaries. A message may carry open files.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::cmsg_space;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::{Deserialize, Serialize};

/// The maximum length of a message, in bytes. The longest message carries a registration.
pub(crate) const LONGEST: usize = 64 * 1024;

/// The maximum number of files in a message.
const FILES: usize = 1;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Message {
    // To the supervisor.
    /// Start the step, whose socket is attached.
    Prepare {
        /// Whether to ignore descendants in other sessions: neither wait for nor signal them.
        leaves_daemons: bool,
        /// The session to end if zoolock is killed, as text.
        registration: Option<String>,
    },
    /// All processes have to end at this time of [`now`](crate::descendants::now), unless zoolock sends
    /// a later one.
    RunUntil(Duration),
    /// Signal the program's group, and leave it to the program to signal its other descendants. If the
    /// program has ended, signal its descendants.
    Signal(i32),
    /// Signal the program's group and all orphans.
    SignalAll(i32),

    // To the step.
    /// Execute the program, whose command line has this many words. Its standard input is attached.
    Go(usize),

    // To zoolock.
    /// The program may start. Contains the process that will become the program.
    Ready(i32),
    /// The supervisor cannot work, for this reason. The program was not started.
    Failed(String),
    /// The program was stopped by this signal.
    Stopped(i32),
    /// The program has ended. Some of its descendants may still be running.
    ProgramEnded,
    /// All processes have ended. Contains the program's exit code, as shells report it, and the signal
    /// that ended the program, or 0.
    Ended(u8, i32),
    /// All processes were killed, because the lease was about to end.
    Overdue,
}

/// Returns two connected sockets. Neither outlives an exec, except as standard input.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message, without blocking: fails if the other side does not read.
pub(crate) fn send(
    socket: impl AsFd,
    message: &Message,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FILES))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        beside.push(SendAncillaryMessage::ScmRights(files));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let bytes = serde_json::to_vec(message)?;
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut beside, flags)?;
    Ok(())
}

/// Receives a message and the files attached to it. Returns `None` when the other side has closed its
/// socket.
pub(crate) fn receive(
    socket: impl AsFd,
    flags: RecvFlags,
) -> io::Result<Option<(Message, Vec<OwnedFd>)>> {
    let (mut bytes, mut space) =
        ([0; LONGEST], [MaybeUninit::uninit(); cmsg_space!(ScmRights(FILES))]);
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let length = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut beside, flags)?.bytes;
    let files = beside.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let files = files.flatten().collect();
    if length == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&bytes[..length])?, files)))
}
