//! The clients of one user, and the thread that serves them. A client that floods the reaper, or
//! sends a file that blocks whoever closes it, delays only clients of the same user.

use std::io::IoSliceMut;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io, iter};

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::cmsg_space;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, retry_on_intr, write};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, recvmsg, send,
};

use super::line::{ACCEPTED, FORGET};
use super::registration::Registration;

/// The longest message, in bytes.
const LONGEST: usize = 16 * 1024;

/// More messages than a socket buffers.
const UNREAD: usize = 300;

/// How many sessions are ended at a time. Each takes two threads, and one for each server's name.
const MOST_ATTEMPTS: usize = 250;

/// What the system reports for a handle to a process, and for no other file.
const PROCESS: &str = "Pid:";

pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// Waits until a file is ready, or at most for this long. Returns for each file whether it is
/// ready.
pub(super) fn wait<'a>(
    files: impl Iterator<Item = BorrowedFd<'a>>,
    seconds: Option<i64>,
) -> rustix::io::Result<Vec<bool>> {
    let limit = seconds.map(|tv_sec| Timespec { tv_sec, tv_nsec: 0 });
    let mut files: Vec<_> =
        files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
    retry_on_intr(|| poll(&mut files, limit.as_ref()))?;
    Ok(files.iter().map(|file| !file.revents().is_empty()).collect())
}

/// Returns whether a user may have one more of something that has copies of these. A user can have
/// at most half of what others leave: there is always room for another user.
pub(super) fn has_room<T>(all: &Arc<T>, own: &Arc<()>, most: usize) -> bool {
    Arc::strong_count(all) + Arc::strong_count(own) < most
}

/// What is needed to end sessions.
#[derive(Clone)]
pub(super) struct Ending {
    /// This channel is disconnected when the reaper ends.
    pub(super) over: Receiver<()>,
    /// Each thread that ends a session has this sender. It is gone when the reaper ends.
    pub(super) attempts: Weak<Sender<()>>,
}

/// A user, as the listener knows it. Its thread ends when this is dropped.
pub(super) struct User {
    pub(super) id: u32,
    /// Each client has a copy.
    pub(super) clients: Arc<()>,
    arriving: Sender<Option<Peer>>,
    /// Wakes the user's thread.
    wake: Arc<OwnedFd>,
}

impl User {
    pub(super) fn start(id: u32, ending: Ending) -> io::Result<User> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let ((arriving, arrived), woken) = (unbounded(), Arc::clone(&wake));
        let (peers, attempts) = (Vec::new(), Arc::default());
        let clients = Clients { arrived, woken, ending, peers, attempts };
        spawn("zoolock-reaper-user", move || clients.run())?;
        Ok(User { id, clients: Arc::default(), arriving, wake })
    }

    /// Hands a client to the user's thread, or `None` to end it.
    pub(super) fn send(&self, peer: Option<Peer>) {
        let _ = self.arriving.send(peer);
        let _ = write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.send(None);
    }
}

/// What the thread of a user works with.
struct Clients {
    arrived: Receiver<Option<Peer>>,
    woken: Arc<OwnedFd>,
    ending: Ending,
    peers: Vec<Peer>,
    /// Each thread that ends a session has a copy.
    attempts: Arc<()>,
}

/// A connection of a client.
pub(super) struct Peer {
    socket: Option<OwnedFd>,
    /// When the client closed its end. This does not mean that its process has ended.
    closed: Option<Instant>,
    registered: Option<Registered>,
    /// Counts this client, until its files are closed and its session has ended.
    slots: [Arc<()>; 2],
}

struct Registered {
    process: OwnedFd,
    /// Counts the milliseconds for which the session has to outlive the process.
    margin: OwnedFd,
    registration: Registration,
}

impl Clients {
    fn run(mut self) {
        let mut is_short = false;
        loop {
            let looks_again = is_short || self.peers.iter().any(|peer| peer.closed.is_some());
            // If there was no room, or the system was short of a resource, this waits for a second.
            let peers = if is_short { &[] } else { &self.peers[..] };
            let files = iter::once(self.woken.as_fd()).chain(peers.iter().flat_map(Peer::files));
            let ready = wait(files, looks_again.then_some(1));
            let _ = read(&self.woken, &mut [0; 8]);
            for arrived in self.arrived.try_iter() {
                let Some(peer) = arrived else { return };
                self.peers.push(peer);
            }
            is_short = ready.is_err();
            is_short |= self.attend(ready.unwrap_or_default().into_iter().skip(1));
        }
    }

    /// Receives from the peers with a file that is ready, and ends the sessions of those that have
    /// died. A file without an entry in `ready` may be ready. Returns true if that has to be tried
    /// again.
    fn attend(&mut self, mut ready: impl Iterator<Item = bool>) -> bool {
        let mut is_short = false;
        for mut peer in mem::take(&mut self.peers) {
            let is_ready = peer.files().fold(false, |any, _| any | ready.next().unwrap_or(true));
            if is_ready {
                let is_dead = peer.is_dead();
                // Messages that the process sent before its end are still valid.
                peer.hear();
                // Another process may have taken over the connection.
                if is_dead
                    && peer.is_dead()
                    && let Some(dead) = &peer.registered
                    && field(&dead.process, PROCESS).is_some()
                {
                    if self.reap(dead, peer.slots.clone()).is_some() {
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

    /// Starts a thread that ends this session. Fails if there is no room for that, or if the
    /// operating system is short of a resource.
    fn reap(&self, dead: &Registered, slots: [Arc<()>; 2]) -> Option<()> {
        let (all, own) = (self.ending.attempts.upgrade()?, Arc::clone(&self.attempts));
        if !has_room(&all, &own, MOST_ATTEMPTS) {
            return None;
        }
        let woken = Arc::clone(&self.woken);
        let (registration, over) = (dead.registration.clone(), self.ending.over.clone());
        // No hold has a longer margin than the session timeout.
        let margin = Duration::from_millis(counted(&dead.margin)?);
        let margin = margin.min(registration.session_timeout());
        let run = move || {
            registration.end_session_after(margin, &over);
            drop((slots, all, own));
            // There may now be room for another one.
            let _ = write(&*woken, &1_u64.to_ne_bytes());
        };
        spawn("zoolock-reaping", run).ok().map(drop)
    }
}

impl Peer {
    pub(super) fn new(socket: OwnedFd, slots: [Arc<()>; 2]) -> Peer {
        Peer { socket: Some(socket), closed: None, registered: None, slots }
    }

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
                    let is_long = matches!(end, Err(Errno::MSGSIZE));
                    is_long.then(|| self.answer("the registration is too long"));
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
        self.registered.as_ref().is_some_and(|one| is_ready(&one.process))
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
    let Ok([process, margin]) = <[OwnedFd; 2]>::try_from(files) else {
        return Err("the file descriptors of the process and the counter are missing".to_owned());
    };
    // A file of another kind would become ready for a different reason.
    if field(&process, PROCESS).is_none() || counted(&margin).is_none() {
        return Err("the file descriptors are not those of a process and a counter".to_owned());
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

fn is_ready(file: &OwnedFd) -> bool {
    wait(iter::once(file.as_fd()), Some(0)).is_ok_and(|ready| ready[0])
}
