//! A client's line to a reaper: a Unix socket over which it registers its session. Never waits.

use std::ffi::OsString;
use std::fmt;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, write};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, sendmsg, socket_with,
};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use rustix::{cmsg_space, io};
use zookeeper::SessionKey;

use super::registration::Registration;
use crate::base::error::{Error, Result};
use crate::base::sys::Mutex;
use crate::client::ClientBuilder;
use crate::session::Registrar;
use crate::settings::vars_of;

/// A message that withdraws a registration, and the answer to a registration that is accepted. Other
/// answers say what is wrong.
pub(super) const FORGET: &[u8] = b"forget";
pub(super) const ACCEPTED: &str = "ok";
const LONGEST_ANSWER: usize = 256;

/// The line of one client.
struct Line {
    path: PathBuf,
    settings: Vec<(String, OsString)>,
    state: Mutex<State>,
    /// The largest margin of a hold so far, in milliseconds.
    margin: Mutex<u64>,
    /// The same, where the reaper can see it when this process has died.
    counter: OwnedFd,
}

#[derive(Default)]
struct State {
    socket: Option<OwnedFd>,
    /// The session that was last registered, and whether the reaper has accepted that.
    session: i64,
    is_accepted: bool,
    /// What was last said of it in the log.
    said: Option<String>,
}

impl ClientBuilder {
    /// Registers the client's session with the [reaper](crate::Reaper) at this socket, which ends
    /// the session when this process has died. Read there what has to be safe first.
    ///
    /// The registration goes out beside the locks and never delays one. Without a reaper, everything
    /// is as if this was not called. A line in the log says so, and
    /// [`Stats::is_registered`](crate::Stats::is_registered). The client tries again each session
    /// timeout.
    ///
    /// The reaper needs to reach the servers as this client does. The credentials of `sasl` or of the
    /// first `auth` are sent to it; certificates are read from their files, which
    /// [`from_env`](ClientBuilder::from_env) or [`from_vars`](ClientBuilder::from_vars) must have
    /// named: with other settings for TLS, connecting fails.
    pub fn reaper(mut self, socket: impl Into<PathBuf>) -> ClientBuilder {
        let path: PathBuf = socket.into();
        self.make_registrar = Some(Arc::new(move |builder| {
            let settings = vars_of(builder).ok_or_else(|| {
                Error::invalid("reaper", "it can only use TLS settings from files, by `from_vars`")
            })?;
            let line = Line::new(path.clone(), settings);
            Ok(Arc::new(line.map_err(|error| Error::invalid("reaper", error.to_string()))?))
        }));
        self
    }
}

impl Line {
    fn new(path: PathBuf, settings: Vec<(String, OsString)>) -> io::Result<Line> {
        let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (state, margin) = (Mutex::default(), Mutex::default());
        Ok(Line { path, settings, state, margin, counter })
    }

    fn send(&self, state: &mut State, message: &[u8]) -> io::Result<()> {
        if state.socket.is_none() {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            connect(&socket, &SocketAddrUnix::new(&self.path)?)?;
            state.socket = Some(socket);
        }
        // Opened by whoever sends it: a forked child would send its own.
        let process = pidfd_open(getpid(), PidfdFlags::empty())?;
        let files = [process.as_fd(), self.counter.as_fd()];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        beside.push(SendAncillaryMessage::ScmRights(&files));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let socket = state.socket.as_ref().ok_or(Errno::NOTCONN)?;
        sendmsg(socket, &[IoSlice::new(message)], &mut beside, flags).map(drop)
    }
}

impl State {
    /// Reads what the reaper has answered so far.
    fn listen(&mut self) -> Result<(), String> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let mut answer = [0; LONGEST_ANSWER];
        loop {
            match recv(socket, &mut answer[..], RecvFlags::DONTWAIT) {
                // Another one may listen by now.
                Ok((0, _)) => {
                    self.end();
                    return Ok(());
                }
                Ok((length, _)) if answer[..length] == *ACCEPTED.as_bytes() => {
                    self.is_accepted = true
                }
                Ok((length, _)) => return Err(String::from_utf8_lossy(&answer[..length]).into()),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn end(&mut self) {
        (self.socket, self.is_accepted) = (None, false);
    }
}

impl Registrar for Line {
    fn register(&self, key: SessionKey) -> Option<String> {
        let mut state = self.state.lock();
        let (listened, session) = (state.listen(), key.id);
        if listened.is_err() {
            state.end();
        }
        if state.is_accepted && state.session == session {
            state.said = None;
            return None;
        }
        (state.session, state.is_accepted) = (session, false);
        let message = Registration::new(self.settings.clone(), key).to_text();
        let sent = self.send(&mut state, message.as_bytes()).map_err(|error| error.to_string());
        if sent.is_err() {
            state.end();
        }
        let problem =
            sent.and(listened).err().filter(|problem| state.said.as_ref() != Some(problem))?;
        state.said = Some(problem.clone());
        Some(format!("no reaper at {:?}: {problem}", self.path))
    }

    fn forget(&self) {
        let mut state = self.state.lock();
        if state.socket.is_some() {
            // A reaper that is not told asks the servers for a session that is over.
            let _ = self.send(&mut state, FORGET);
        }
    }

    fn allow(&self, margin: Duration) {
        let wanted = margin.as_nanos().div_ceil(1_000_000) as u64;
        let mut allowed = self.margin.lock();
        if let Some(more @ 1..) = wanted.checked_sub(*allowed) {
            // Never waits: margins are far below the counter's limit.
            let _ = write(&self.counter, &more.to_ne_bytes());
            *allowed = wanted;
        }
    }

    fn is_registered(&self) -> bool {
        let mut state = self.state.lock();
        state.listen().is_ok() && state.is_accepted
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("path", &self.path).finish_non_exhaustive()
    }
}
