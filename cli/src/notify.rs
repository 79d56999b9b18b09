//! What a service manager is told, by the protocol of sd_notify(3). By a thread of its own: whoever
//! should read it may not, and there is a lock to take care of meanwhile. The crate `sd-notify` knows
//! no abstract sockets.

use std::convert::Infallible;
use std::env;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, Sender, bounded};

use crate::table::plain;

/// The environment variable with the socket. The program does not get it: its messages would be taken
/// for those of the service, or refused as not from its main process.
pub(crate) const SOCKET: &str = "NOTIFY_SOCKET";

/// How many messages wait for a reader. What does not fit is dropped.
const LONGEST: usize = 100;

/// For how long the end is put off until all is read.
const PATIENCE: Duration = Duration::from_secs(1);

static MANAGER: OnceLock<Option<Sender<Message>>> = OnceLock::new();

enum Message {
    Text(String),
    /// Dropped when all before it has been told.
    End(#[expect(dead_code, reason = "only its drop is heard of")] Sender<Infallible>),
}

/// The service has started, and is at this.
pub(crate) fn ready(status: &str) {
    send(Message::Text(format!("READY=1\nSTATUS={}", plain(status))));
}

/// What it is at, for people.
pub(crate) fn status(text: &str) {
    send(Message::Text(format!("STATUS={}", plain(text))));
}

/// The service is about to end.
pub(crate) fn stopping() {
    send(Message::Text("STOPPING=1\nSTATUS=ending".to_owned()));
}

/// Before the process ends.
pub(crate) fn finish() {
    let (end, told) = bounded(0);
    send(Message::End(end));
    let _ = told.recv_timeout(PATIENCE);
}

/// Is there anybody?
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
        // Without a thread nothing is said, which is no reason to do nothing.
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

/// A file, or behind an `@` a name that is no file's.
fn address() -> Option<SocketAddr> {
    let socket = env::var_os(SOCKET)?;
    match socket.as_bytes().split_first()? {
        #[cfg(target_os = "linux")]
        (b'@', name) => SocketAddr::from_abstract_name(name).ok(),
        (b'/', _) => SocketAddr::from_pathname(&socket).ok(),
        _ => None,
    }
}
