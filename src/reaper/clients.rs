//! The thread of a reaper: accepts its clients, and waits for their processes to end.

use std::collections::HashMap;
use std::io::IoSliceMut;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io, iter, thread};

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::cmsg_space;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, retry_on_intr, write};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, SocketFlags,
    accept_with, recvmsg, send,
};
use rustix::process::{Resource, getrlimit};

use super::line::{ACCEPTED, FORGET};
use super::registration::Registration;
use crate::settings::CONNECT;

/// The longest message, in bytes, and the answer if not all of a message arrived.
const LONGEST: usize = 16 * 1024;
const TOO_LONG: &str = "the registration is too long, or the reaper has too many open files";

/// More messages than a socket buffers, and more connections than are accepted between two polls.
const UNREAD: usize = 300;

/// How many clients may be registered at a time, how many files each of them may take, and how many
/// sessions may wait for their end.
const MOST: usize = 10_000;
const FILES: usize = 4;

/// How many attempts to end a session run at a time. Each takes three threads, and one for each
/// server's name.
const MOST_ATTEMPTS: usize = 64;

/// What a reaper that ends adds to its thread's counter.
pub(super) const OVER: u64 = 1 << 32;

/// How long to wait for what the operating system is short of.
const SHORT: Duration = Duration::from_secs(1);

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

/// Waits until a file is ready, or at most for this long. Returns for each file whether it is
/// ready.
fn wait<'a>(
    files: impl Iterator<Item = BorrowedFd<'a>>,
    limit: Option<Duration>,
) -> rustix::io::Result<Vec<bool>> {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let mut files: Vec<_> =
        files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
    retry_on_intr(|| poll(&mut files, limit.as_ref()))?;
    Ok(files.iter().map(|file| !file.revents().is_empty()).collect())
}

/// What the thread works with.
pub(super) struct Clients {
    /// Where they connect.
    socket: OwnedFd,
    peers: Vec<Peer>,
    /// The sessions that are to be ended, except those that a thread tries to end.
    dead: Vec<Dead>,
    /// How many peers there can be, according to the limit for open files.
    most: usize,
    /// For each list of servers: something of which each attempt has copies.
    tried: HashMap<Vec<u8>, Arc<()>>,
    /// The sessions for which an attempt has failed. Each attempt has a sender.
    failed: (Sender<Dead>, Receiver<Dead>),
    /// The counter that wakes the thread.
    wake: Arc<OwnedFd>,
}

/// Wakes the thread when it is dropped.
#[derive(Clone)]
struct Wake(Arc<OwnedFd>);

impl Drop for Wake {
    fn drop(&mut self) {
        let _ = write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// A session whose process has died.
#[derive(Debug, Clone)]
pub(super) struct Dead {
    registration: Registration,
    died: Instant,
    /// When to try to end it.
    due: Instant,
}

/// A connection of a client.
#[derive(Default)]
struct Peer {
    socket: Option<OwnedFd>,
    /// When the client closed its end. This does not mean that its process has ended.
    closed: Option<Instant>,
    registered: Option<Registered>,
}

struct Registered {
    process: OwnedFd,
    /// Counts the milliseconds for which the session has to outlive the process.
    margin: OwnedFd,
    registration: Registration,
}

impl Clients {
    /// Starts the thread. Returns the counter that wakes it, and a channel that is disconnected when
    /// no thread ends a session any more.
    pub(super) fn start(socket: OwnedFd) -> io::Result<(Arc<OwnedFd>, Receiver<Dead>)> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let ((failed, ended), files) = (unbounded(), getrlimit(Resource::Nofile).current);
        let most = MOST.min(files.unwrap_or(u64::MAX) as usize / FILES);
        let (peers, dead, tried) = Default::default();
        let (failed, ended, woken) = ((failed, ended.clone()), ended, Arc::clone(&wake));
        let clients = Clients { socket, peers, dead, most, tried, failed, wake };
        spawn("zoolock-reaper", move || clients.run())?;
        Ok((woken, ended))
    }

    /// Runs until the reaper ends.
    fn run(mut self) {
        let (mut is_short, mut woken) = (false, [0; 8]);
        while u64::from_ne_bytes(woken) < OVER {
            let looks_again = is_short || self.peers.iter().any(|peer| peer.closed.is_some());
            let limit = [looks_again.then_some(SHORT), self.reap()].into_iter().flatten().min();
            // If the operating system was short of a resource, this does not wait for clients.
            let files = [&self.wake, &self.socket].into_iter().map(AsFd::as_fd);
            let files = files.chain(self.peers.iter().flat_map(Peer::files));
            let files = files.take(if is_short { 1 } else { usize::MAX });
            let ready = wait(files, limit);
            woken = [0; 8];
            let _ = read(&self.wake, &mut woken);
            is_short = ready.is_err();
            is_short |= self.attend(ready.unwrap_or_default().into_iter().skip(2));
            is_short |= self.accept().is_err_and(|error| error != Errno::AGAIN);
        }
    }

    /// Accepts those who wait. Fails if there are no more, or the operating system is short of a
    /// resource.
    fn accept(&mut self) -> rustix::io::Result<()> {
        for _ in 0..UNREAD {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = Some(accept_with(&self.socket, flags)?);
            let peer = Peer { socket, ..Peer::default() };
            match self.peers.len() < self.most && self.dead.len() < MOST {
                true => self.peers.push(peer),
                false => peer.answer("it has too many clients"),
            }
        }
        Ok(())
    }

    /// Receives from the peers with a file that is ready, and notes those that have died. A file
    /// without an entry in `ready` may be ready. Returns true if that has to be tried again.
    fn attend(&mut self, mut ready: impl Iterator<Item = bool>) -> bool {
        let mut is_short = false;
        for mut peer in mem::take(&mut self.peers) {
            let is_ready = peer.files().fold(false, |any, _| any | ready.next().unwrap_or(true));
            if is_ready {
                let is_dead = peer.is_dead();
                // Messages that the process sent before its end are still valid.
                peer.hear();
                // Another process may have taken over the connection.
                if is_dead && peer.is_dead() {
                    if let Some(dead) = peer.registered.as_ref().and_then(Registered::dead) {
                        self.dead.push(dead);
                        continue;
                    }
                    is_short = true;
                }
            }
            if !peer.is_over() {
                self.peers.push(peer);
            }
        }
        is_short
    }

    /// Starts a thread for each session that is due, as far as there is room: first for those that
    /// have been due for longest. Returns how long it is until the next one is due. The sessions of
    /// the same servers can have at most half of what others leave. Therefore, outages of up to five
    /// ensembles do not delay the clients of another one.
    fn reap(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let dead = mem::take(&mut self.dead).into_iter().chain(self.failed.1.try_iter());
        let (mut due, later): (Vec<_>, _) = dead.partition(|dead| dead.due <= now);
        self.dead = later;
        due.sort_by_key(|dead| dead.due);
        self.tried.retain(|_, like| Arc::strong_count(like) > 1);
        let running = self.tried.values().map(|like| Arc::strong_count(like) - 1);
        let mut room = MOST_ATTEMPTS.saturating_sub(running.sum());
        for mut dead in due {
            let like = Arc::clone(self.tried.entry(servers_of(&dead.registration)).or_default());
            if Arc::strong_count(&like) <= room {
                if self.try_to_end(dead.clone(), like).is_ok() {
                    room -= 1;
                    continue;
                }
                dead.due = now + SHORT;
            }
            self.dead.push(dead);
        }
        // Those that are due wait for room.
        let next = self.dead.iter().map(|dead| dead.due).filter(|due| *due > now).min();
        next.map(|due| due - now)
    }

    /// Starts a thread that tries to end this session. Fails if the operating system is short of a
    /// resource.
    fn try_to_end(&self, mut dead: Dead, like: Arc<()>) -> io::Result<()> {
        let (failed, wake) = (self.failed.0.clone(), Wake(Arc::clone(&self.wake)));
        // Lookups of names may outlast the attempt. Until they end, they take its room.
        let room = (like, wake.clone());
        let run = move || {
            if let Some(wait) = dead.registration.attempt(dead.died, room) {
                dead.due = Instant::now() + wait;
                let _ = failed.send(dead);
            }
            drop(wake);
        };
        spawn("zoolock-reaping", run)
    }
}

impl Registered {
    /// Returns the session of the process, which has just died, or `None` if the operating system is
    /// short of a resource.
    fn dead(&self) -> Option<Dead> {
        // No hold has a longer margin than the session timeout.
        let margin = Duration::from_millis(counted(&self.margin)?);
        let margin = margin.min(self.registration.session_timeout());
        let (registration, died) = (self.registration.clone(), Instant::now());
        Some(Dead { registration, died, due: died + margin })
    }
}

impl Peer {
    /// Reads what the peer has sent so far.
    fn hear(&mut self) {
        for _ in 0..UNREAD {
            let Some(socket) = &self.socket else { return };
            match receive(socket) {
                Ok(Some((message, _))) if message == FORGET => self.registered = None,
                Ok(Some((message, files))) => match registered(&message, files) {
                    Ok(registered) => {
                        self.answer(ACCEPTED);
                        self.registered = Some(registered);
                    }
                    Err(problem) => {
                        self.answer(&problem);
                        // In case of doubt, no session is ended.
                        (self.registered, self.socket) = (None, None);
                    }
                },
                Err(Errno::AGAIN) => return,
                // After a reset, messages that the process sent earlier can still be read.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                end => {
                    if end.is_err_and(|error| error == Errno::MSGSIZE) {
                        self.answer(TOO_LONG);
                    }
                    (self.socket, self.closed) = (None, Some(Instant::now()));
                }
            }
        }
    }

    fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let process = self.registered.iter().map(|registered| &registered.process);
        self.socket.iter().chain(process).map(OwnedFd::as_fd)
    }

    fn is_dead(&self) -> bool {
        self.registered.as_ref().is_some_and(|registered| {
            let process = iter::once(registered.process.as_fd());
            wait(process, Some(Duration::ZERO)).is_ok_and(|ready| ready[0])
        })
    }

    /// Returns whether nothing more can come from this peer: its client has gone, and so has its
    /// session. A client that is alive registers again.
    fn is_over(&self) -> bool {
        let over = |registered: &Registered| {
            let session = registered.registration.session_timeout() * 2;
            self.closed.is_some_and(|closed| closed.elapsed() > session)
        };
        self.registered.as_ref().map_or(self.socket.is_none(), over)
    }

    fn answer(&self, text: &str) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = self.socket.as_ref().map(|socket| send(socket, text.as_bytes(), flags));
    }
}

/// Returns the next message and the files beside it, or `None` at the end.
fn receive(socket: &OwnedFd) -> rustix::io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut message = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut message)], &mut beside, flags)?;
    let files = beside.drain().filter_map(|beside| match beside {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let files = files.flatten().collect();
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Errno::MSGSIZE);
    }
    message.truncate(received.bytes);
    Ok((received.bytes > 0).then_some((message, files)))
}

/// Returns what a message registers.
fn registered(message: &[u8], files: Vec<OwnedFd>) -> Result<Registered, String> {
    let text = String::from_utf8_lossy(message);
    let registration = Registration::from_text(&text).map_err(|error| error.to_string())?;
    let wrong = "the file descriptors are not those of a process and a counter, or the reaper has too many open files";
    let [process, margin] = <[OwnedFd; 2]>::try_from(files).map_err(|_| wrong)?;
    // A file of another kind would become ready for a different reason. No other kind has a pid.
    if field(&process, "Pid:").is_none() || counted(&margin).is_none() {
        return Err(wrong.to_owned());
    }
    Ok(Registered { process, margin, registration })
}

/// Returns the value of a counter. Never waits, whatever kind of file it is.
fn counted(counter: &OwnedFd) -> Option<u64> {
    u64::from_str_radix(&field(counter, "eventfd-count:")?, 16).ok()
}

/// Returns what the system reports about an open file.
fn field(file: &OwnedFd, name: &str) -> Option<String> {
    let number = file.as_fd().as_raw_fd();
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    let value = info.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().to_owned())
}

/// Returns the servers of a session, without the chroot.
fn servers_of(registration: &Registration) -> Vec<u8> {
    let servers = registration.setting(CONNECT).unwrap_or_default().into_vec();
    servers.split(|byte| *byte == b'/').next().unwrap_or_default().to_vec()
}
