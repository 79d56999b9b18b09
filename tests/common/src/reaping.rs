//! A client of a reaper that registers whatever a test wants.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, sendmsg, socket_with,
    sockopt::{Timeout, set_socket_timeout},
};
use zoolock::Client;

use crate::{Beside, SOON, handle_of};

/// Starts a process that sleeps. Dropping the result kills it.
pub fn sleeper() -> Beside {
    let mut command = Command::new("sleep");
    command.arg("1000");
    Beside::start(command)
}

/// A connection to a reaper, with which a test can register any process.
pub struct Line(pub OwnedFd);

impl Line {
    pub fn to(socket: &str) -> Line {
        let kind = SocketType::SEQPACKET;
        let line = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        set_socket_timeout(&line, Timeout::Recv, Some(SOON)).expect("a timeout");
        connect(&line, &SocketAddrUnix::new(socket).expect("a path")).expect("connect");
        Line(line)
    }

    /// Returns the answer, which is empty if the reaper closes the connection.
    pub fn ask(&self, message: &[u8], files: &[BorrowedFd<'_>]) -> String {
        // The reaper may refuse the connection before it receives anything.
        let _ = self.try_send(message, files);
        let answer = self.receive();
        println!("{answer}");
        answer
    }

    pub fn send(&self, message: &[u8], files: &[BorrowedFd<'_>]) {
        self.try_send(message, files).expect("sent");
    }

    fn try_send(&self, message: &[u8], files: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        beside.push(SendAncillaryMessage::ScmRights(files));
        sendmsg(&self.0, &[IoSlice::new(message)], &mut beside, SendFlags::NOSIGNAL).map(drop)
    }

    pub fn receive(&self) -> String {
        let mut answer = [0; 256];
        let mut receive = || recv(&self.0, &mut answer[..], RecvFlags::empty());
        // After a reset, the answer can still be read.
        let (length, _) = receive().or_else(|_| receive()).expect("an answer");
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }

    /// Registers a client's session as if it belonged to this other process. Returns the answer.
    pub fn register(&self, client: &Client, process: &Beside, margin: Duration) -> String {
        let margin = eventfd(margin.as_millis() as u32, EventfdFlags::CLOEXEC).expect("a counter");
        let registration = client.registration().expect("a session").to_text();
        let files = [handle_of(process.id()), margin];
        self.ask(registration.as_bytes(), &files.each_ref().map(AsFd::as_fd))
    }
}
