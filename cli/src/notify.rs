//! Reports the state to a service manager, by the protocol of sd_notify(3). A thread of its own sends
//! the messages, because their reader may be slow, which must not delay the work for the lock. The
//! crate `sd-notify` does not support abstract sockets.

use std::convert::Infallible;
use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, Sender, bounded};

use crate::table::plain;

/// The environment variable with the socket. The program does not get it, because the service manager
/// would treat the program's messages as those of the service, or reject them.
pub(crate) const SOCKET: &str = "NOTIFY_SOCKET";

/// How many messages may wait for a reader. Further messages are dropped.
const LONGEST: usize = 100;

/// How long the process waits before it ends until all messages are read.
const PATIENCE: Duration = Duration::from_secs(1);

static MANAGER: OnceLock<Option<Sender<Message>>> = OnceLock::new();

enum Message {
    Text(String),
    /// Dropped when all messages before it have been sent.
    End(#[expect(dead_code, reason = "dropping it is the message")] Sender<Infallible>),
}

/// Reports that the service has started, with this status.
pub(crate) fn ready(status: &str) {
    send(Message::Text(format!("READY=1\nSTATUS={}", plain(status))));
}

/// Reports the status, a text for operators.
pub(crate) fn status(text: &str) {
    send(Message::Text(format!("STATUS={}", plain(text))));
}

/// Reports that the service is about to end.
pub(crate) fn stopping() {
    send(Message::Text("STOPPING=1\nSTATUS=ending".to_owned()));
}

/// Waits until all messages are sent, for a limited time. Call this before the process ends.
pub(crate) fn finish() {
    let (end, told) = bounded(0);
    send(Message::End(end));
    let _ = told.recv_timeout(PATIENCE);
}

/// Returns whether there is a service manager.
pub(crate) fn is_heard() -> bool {
    manager().is_some()
}

fn send(message: Message) {
    if let Some(manager) = manager() {
        let _ = manager.try_send(message);
    }
}

fn manager() -> Option<&'static Sender<Message>> {
    let start = || {
        let (address, socket) = (address()?, UnixDatagram::unbound().ok()?);
        let (sender, messages) = bounded(LONGEST);
        let tell = move || tell(&messages, &socket, &address);
        // Without a thread there are no reports, but the command works.
        thread::Builder::new().spawn(tell).ok()?;
        Some(sender)
    };
    MANAGER.get_or_init(start).as_ref()
}

fn tell(messages: &Receiver<Message>, socket: &UnixDatagram, address: &SocketAddr) {
    for message in messages {
        if let Message::Text(text) = message {
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}

/// Returns the address of the socket: a file, or an abstract name (after an `@`).
fn address() -> Option<SocketAddr> {
    let socket = env::var_os(SOCKET)?;
    match socket.as_bytes().split_first()? {
        (b'@', name) => SocketAddr::from_abstract_name(name).ok(),
        (b'/', _) => SocketAddr::from_pathname(&socket).ok(),
        _ => None,
    }
}
