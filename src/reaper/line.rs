//! A client's connection to a reaper: a Unix socket over which the client registers its session.
//! Never waits.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{PathBuf, absolute};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::cmsg_space;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, write};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, sendmsg, socket_with, sockopt::socket_peercred,
};
use rustix::process::{PidfdFlags, geteuid, getpid, pidfd_open};
use zookeeper::SessionKey;

use super::registration::Registration;
use crate::base::error::{Error, Result};
use crate::base::sys::{self, Mutex};
use crate::client::ClientBuilder;
use crate::session::Registrar;
use crate::settings::vars_of;

/// The message that withdraws a registration, and the answer to a registration that is accepted.
/// Any other answer describes an error.
pub(super) const FORGET: &[u8] = b"forget";
pub(super) const ACCEPTED: &str = "ok";
const LONGEST_ANSWER: usize = 256;

/// How long a reaper may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How Linux shows a user of another user namespace. It may also be a user.
const NOBODY: u32 = 65_534;

/// More answers than a reaper sends between two polls.
const MOST_ANSWERS: usize = 16;

/// The connection of one client.
struct Line {
    path: PathBuf,
    settings: Vec<(String, OsString)>,
    state: Mutex<State>,
    /// The largest margin of a hold so far, in milliseconds.
    margin: Mutex<u64>,
    /// A file with the same margin, which the reaper can still read after this process has died.
    counter: OwnedFd,
}

#[derive(Default)]
struct State {
    socket: Option<OwnedFd>,
    /// The session that was registered last, with its timeout; if the reaper has not answered yet,
    /// when that was; and whether the reaper accepted it.
    session: (i64, Duration),
    asked: Option<Instant>,
    is_accepted: bool,
    /// Why there is no registration, until that is logged.
    problem: Option<String>,
    /// What was last logged about the registration.
    said: Option<String>,
}

impl ClientBuilder {
    /// Registers the client's session with the [reaper](crate::Reaper) that listens at this socket.
    /// The reaper ends the session when this process has died. Before you use it, read the
    /// documentation of [`Reaper`](crate::Reaper), which explains when this is safe.
    ///
    /// The registration is independent of the locks and never delays them. If there is no reaper,
    /// everything works as if this had not been called. A log line and
    /// [`Stats::is_registered`](crate::Stats::is_registered) report that the reaper is missing. The
    /// client tries again eight times per session timeout.
    ///
    /// The reaper must belong to the user of this process or to root, and be able to reach the
    /// servers, of which the builder may name at most 16, in the same way as this client. The
    /// credentials of `sasl` or of the first `auth` are sent to it. Certificates are read from their files,
    /// which must have been named through [`from_env`](ClientBuilder::from_env) or
    /// [`from_vars`](ClientBuilder::from_vars). With other TLS settings, or credentials that
    /// `ZOOKEEPER_AUTH` cannot represent, such as a SASL user with a colon, connecting fails.
    pub fn reaper(mut self, socket: impl Into<PathBuf>) -> ClientBuilder {
        let path: PathBuf = socket.into();
        // The program may change its current directory.
        let path = absolute(&path).unwrap_or(path);
        self.make_registrar = Some(Arc::new(move |builder| {
            let settings = vars_of(builder).ok_or_else(|| {
                let reason = "it can use only TLS settings that were read from files (`from_vars`), and only credentials that ZOOKEEPER_AUTH can represent";
                Error::invalid("reaper", reason)
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
            let listener = socket_peercred(&socket)?.uid;
            let is_nobody = listener.as_raw() == NOBODY && !are_all_users_known();
            if !listener.is_root() && listener != geteuid() || is_nobody {
                return Err(io::Error::other("it belongs to another user"));
            }
            state.socket = Some(socket);
        }
        // The handle is opened here, by the process that sends it. A forked child would therefore
        // send a handle that refers to the child.
        let process = pidfd_open(getpid(), PidfdFlags::empty())?;
        let files = [process.as_fd(), self.counter.as_fd()];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        beside.push(SendAncillaryMessage::ScmRights(&files));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let socket = state.socket.as_ref().ok_or(Errno::NOTCONN)?;
        Ok(sendmsg(socket, &[IoSlice::new(message)], &mut beside, flags).map(drop)?)
    }
}

/// Returns whether this process is in no user namespace that hides other users.
fn are_all_users_known() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map");
    map.is_ok_and(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}

impl State {
    /// Notes what the reaper has answered so far.
    fn listen(&mut self) {
        self.read().unwrap_or_else(|problem| self.fail(problem));
    }

    fn read(&mut self) -> Result<(), String> {
        let mut answer = [0; LONGEST_ANSWER];
        for _ in 0..MOST_ANSWERS {
            let Some(socket) = &self.socket else { return Ok(()) };
            match recv(socket, &mut answer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => {
                    let is_asked = self.asked.is_some();
                    self.end();
                    // Another reaper may already be listening.
                    let problem = is_asked.then(|| "it closed the connection".to_owned());
                    return problem.map_or(Ok(()), Err);
                }
                Ok((length, _)) => {
                    self.asked = None;
                    if answer[..length] != *ACCEPTED.as_bytes() {
                        return Err(String::from_utf8_lossy(&answer[..length]).into());
                    }
                    self.is_accepted = true;
                }
                Err(Errno::AGAIN) => return Ok(()),
                // After a reset, the answer can still be read.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn fail(&mut self, problem: String) {
        self.end();
        self.problem.get_or_insert(problem);
    }

    fn end(&mut self) {
        (self.socket, self.asked, self.is_accepted) = (None, None, false);
    }
}

impl Registrar for Line {
    fn register(&self, key: SessionKey) -> Option<String> {
        let mut state = self.state.lock();
        state.listen();
        let session = (key.id, key.timeout);
        if state.is_accepted && state.session == session {
            state.said = None;
            return None;
        }
        match state.asked {
            Some(asked) if sys::now() - asked < PATIENCE => return None,
            // Files in transit count against the user's limit. Therefore, no more files are sent
            // until an answer arrives.
            Some(_) => state.problem = Some("it does not answer".to_owned()),
            None => {
                (state.session, state.asked, state.is_accepted) =
                    (session, Some(sys::now()), false);
                let message = Registration::new(self.settings.clone(), key).to_text();
                if let Err(error) = self.send(&mut state, message.as_bytes()) {
                    // The reaper may have answered before it hung up.
                    state.listen();
                    state.fail(error.to_string());
                }
            }
        }
        let problem =
            state.problem.take().filter(|problem| state.said.as_ref() != Some(problem))?;
        state.said = Some(problem.clone());
        Some(format!("failed to register with the reaper at {:?}: {problem}", self.path))
    }

    fn forget(&self) {
        let mut state = self.state.lock();
        if state.socket.is_some() {
            // Without this message, the reaper would try to end a session that is already over.
            let _ = self.send(&mut state, FORGET);
        }
    }

    fn allow(&self, margin: Duration) {
        let wanted = margin.as_nanos().div_ceil(1_000_000) as u64;
        let mut allowed = self.margin.lock();
        if let Some(more @ 1..) = wanted.checked_sub(*allowed) {
            // Never waits: margins are far below the maximum of the counter.
            let _ = write(&self.counter, &more.to_ne_bytes());
            *allowed = wanted;
        }
    }

    fn is_registered(&self) -> bool {
        let mut state = self.state.lock();
        state.listen();
        state.is_accepted
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reaper;

    #[test]
    fn session_with_another_timeout_is_registered_again() {
        let path = std::env::temp_dir().join(format!("zoolock-line-{}", std::process::id()));
        let _reaper = Reaper::start(&path).unwrap();
        let line = Line::new(path, Vec::new()).unwrap();
        let key = |timeout| SessionKey { id: 1, password: vec![0; 16], timeout };
        for (seconds, is_known) in [(4, false), (4, true), (9, false)] {
            let timeout = Duration::from_secs(seconds);
            line.register(key(timeout));
            assert_eq!(line.state.lock().asked.is_none(), is_known, "{timeout:?}");
            while !line.is_registered() {
                std::thread::yield_now();
            }
        }
        // It is refused, which a program may read before it is logged.
        line.register(key(Duration::ZERO));
        while line.state.lock().asked.is_some() {
            line.is_registered();
        }
        assert!(line.register(key(Duration::ZERO)).is_some_and(|said| said.contains("version")));
    }
}
