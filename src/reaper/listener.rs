//! The reaper itself: a socket at which clients register, and the thread that waits until their
//! processes end.

use std::fs::File;
use std::io::IoSliceMut;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io, process};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use rustix::cmsg_space;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, retry_on_intr, write};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, send,
    socket_with, sockopt::set_socket_linger,
};

use super::line::{ACCEPTED, FORGET};
use super::registration::Registration;
use crate::base::error::{Error, Result};

/// The longest message, in bytes.
const LONGEST: usize = 16 * 1024;

/// More messages than a socket buffers.
const UNREAD: usize = 300;

/// How many sessions are ended at a time.
const MOST_THREADS: usize = 1_000;

/// What the system reports for a handle to a process, and for no other file.
const PROCESS: &str = "Pid:";

/// How many processes may be registered at a time.
const MOST: usize = 10_000;

/// Ends the ZooKeeper sessions of processes that have died. The locks of a crashed process are then
/// free within milliseconds instead of a session timeout.
///
/// A client whose builder names [the same socket](crate::ClientBuilder::reaper) registers its
/// session together with a handle to its process: a pidfd, which Linux makes ready only when all
/// threads of the process have ended. When that happens, the reaper resumes the session at any
/// server and closes it. It keeps trying during outages, until a server reports that the session is
/// over. Nothing else makes it end a session: neither a socket that is closed, nor a process that
/// is stopped, forks or is debugged.
///
/// # What has to be safe first
///
/// **With a reaper, work that outlives its process no longer has a session timeout in which to
/// finish**: children of the process, statements that a database still runs, requests in transit.
/// Give such locks a [margin](crate::LockOptions::margin), for which the reaper waits, or check
/// [fencing tokens](crate::Hold::fencing_token). If the children of a program do the work, it is
/// better to run the program with the command `zoolock run`, which waits for all of them.
///
/// The reaper must not run where a process can continue elsewhere, that is, on machines or in
/// containers that are frozen, copied or moved while they run. It does nothing for a process whose
/// machine dies, or which dies together with the reaper, for example in a container that ends with
/// its first process.
///
/// # Examples
///
/// A parent process starts a reaper, and passes the path of its socket to the workers:
///
/// ```no_run
/// use std::process::Command;
/// use zoolock::Reaper;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let socket = std::env::temp_dir().join(format!("reaper-{}", std::process::id()));
/// let reaper = Reaper::start(&socket)?;
/// // `Client::from_env` reads this variable.
/// Command::new("worker").env("ZOOLOCK_REAPER", &socket).status()?;
/// # Ok(())
/// # }
/// ```
///
/// To have one reaper for all programs of a machine, run `zoolock reaper`.
#[derive(Debug)]
pub struct Reaper {
    path: PathBuf,
    /// Locked for as long as the reaper exists: no other process may replace its socket.
    lock: File,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
    /// The process that started the reaper. A forked child may drop a copy of it.
    process: u32,
}

impl Reaper {
    /// Starts a thread that listens at a new Unix socket, and leaves a file `.lock` beside it. Any
    /// process that may connect to the socket can make the reaper end sessions; anyone who can
    /// reach the servers already has that power. As for every new file, this process's umask
    /// decides who may connect.
    ///
    /// # Errors
    ///
    /// - [`Error::InvalidArgument`] if the socket cannot be created: another reaper listens there,
    ///   another file is there, or the path is longer than 107 bytes.
    /// - [`Error::SpawnThread`] if the operating system cannot create a thread.
    pub fn start(path: impl AsRef<Path>) -> Result<Reaper> {
        let path = path.as_ref().to_owned();
        let wrong =
            |reason: io::Error| Error::invalid("socket of a reaper", format!("{path:?}: {reason}"));
        let (lock, socket) = listen_at(&path).map_err(wrong)?;
        let no_thread = |cause: io::Error| Error::SpawnThread { cause: cause.to_string() };
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| no_thread(error.into()))?;
        let stopped = stop.try_clone().map_err(no_thread)?;
        let (litter, closing) = unbounded::<OwnedFd>();
        let close = move || {
            for file in closing {
                let _ = set_socket_linger(&file, None);
            }
        };
        spawn("zoolock-closing", close).map_err(no_thread)?;
        let (going_on, over) = bounded(0);
        let (peers, threads) = (Vec::new(), Vec::new());
        let listener = Listener { socket, peers, litter, over, threads };
        let run = move || listener.run(&stopped, going_on);
        let thread = Some(spawn("zoolock-reaper", run).map_err(no_thread)?);
        Ok(Reaper { path, lock, stop, thread, process: process::id() })
    }
}

/// Stops listening, and removes the socket. If the reaper is ending a session, it tries that at
/// most once more. Dropping the reaper waits for this attempt: for a session timeout, or for a
/// minute if the servers cannot be reached. Processes that are still alive are no longer watched.
impl Drop for Reaper {
    fn drop(&mut self) {
        if self.process != process::id() {
            return;
        }
        let _ = write(&self.stop, &1_u64.to_ne_bytes());
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = fs::remove_file(&self.path);
        // A process that is being started may have a copy of the file descriptor. Without this
        // unlock, the copy would keep the file locked until it is closed.
        let _ = self.lock.unlock();
    }
}

/// Returns a new socket at this path, and the lock file beside it. A socket at which no process
/// listens is replaced.
fn listen_at(path: &Path) -> io::Result<(File, OwnedFd)> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let new = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    // If other users could open the file, they could lock it.
    let lock = File::options().create(true).append(true).mode(0o600).open(beside)?;
    lock.try_lock().map_err(|_| Errno::ADDRINUSE)?;
    if fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
        && connect(new()?, &address) == Err(Errno::CONNREFUSED)
    {
        let _ = fs::remove_file(path);
    }
    let socket = new()?;
    bind(&socket, &address)?;
    listen(&socket, 128)?;
    Ok((lock, socket))
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// What the thread of a reaper works with.
struct Listener {
    socket: OwnedFd,
    peers: Vec<Peer>,
    /// Receives files to close.
    litter: Sender<OwnedFd>,
    /// This channel is disconnected when the reaper ends.
    over: Receiver<()>,
    /// The threads that end sessions.
    threads: Vec<JoinHandle<()>>,
}

/// A file that another process sent. Closing it may block, for example if it is a socket with data
/// to send. Therefore another thread closes it.
struct Foreign {
    file: Option<OwnedFd>,
    litter: Sender<OwnedFd>,
}

impl Foreign {
    fn new(file: OwnedFd, litter: &Sender<OwnedFd>) -> Foreign {
        Foreign { file: Some(file), litter: litter.clone() }
    }
}

impl AsFd for Foreign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_ref().expect("it is there until the drop").as_fd()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.file.take().into_iter().for_each(|file| drop(self.litter.send(file)));
    }
}

/// A connection of a client.
struct Peer {
    socket: Option<Foreign>,
    /// When the client closed its end. This does not mean that its process has ended.
    closed: Option<Instant>,
    registered: Option<Registered>,
}

struct Registered {
    process: Foreign,
    /// Counts the milliseconds for which the session has to outlive the process.
    margin: Foreign,
    registration: Registration,
}

impl Listener {
    /// Runs until `stopped` is ready. `going_on` is dropped then.
    fn run(mut self, stopped: &OwnedFd, going_on: Sender<()>) {
        let mut is_short = false;
        loop {
            let ready = self.wait(stopped, is_short);
            if is_ready(stopped) {
                break;
            }
            is_short = ready.is_err();
            is_short |= self.accept().is_err_and(|error| error != Errno::AGAIN);
            is_short |= self.attend(&ready.unwrap_or_default());
        }
        drop(going_on);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
        // Pending connections may carry files that block when closed.
        let _ = self.litter.send(self.socket);
    }

    /// Waits until there is something to do. Returns for each peer (registered client) whether it
    /// is ready; a peer without an entry may be ready. If `is_short`, because the operating system
    /// was short of a resource, waits for a second.
    fn wait(&self, stopped: &OwnedFd, is_short: bool) -> rustix::io::Result<Vec<bool>> {
        let looks_again = is_short || self.peers.iter().any(|peer| peer.closed.is_some());
        let limit = looks_again.then_some(Timespec { tv_sec: 1, tv_nsec: 0 });
        let peers = if is_short { &[] } else { &self.peers[..] };
        let own = [stopped.as_fd(), self.socket.as_fd()].into_iter();
        let own = own.take(if is_short { 1 } else { 2 });
        let all = own.chain(peers.iter().flat_map(Peer::files));
        let mut files: Vec<_> =
            all.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
        retry_on_intr(|| poll(&mut files, limit.as_ref()))?;
        let mut is_ready = files.iter().map(|file| !file.revents().is_empty()).skip(2);
        let any =
            |peer: &Peer| is_ready.by_ref().take(peer.files().count()).filter(|is| *is).count() > 0;
        Ok(peers.iter().map(any).collect())
    }

    /// Accepts all connections. Always ends with an error: `AGAIN` if there are no more.
    fn accept(&mut self) -> rustix::io::Result<()> {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = accept_with(&self.socket, flags)?;
            let socket = Some(Foreign::new(socket, &self.litter));
            let peer = Peer { socket, closed: None, registered: None };
            match self.peers.len() < MOST {
                true => self.peers.push(peer),
                false => peer.answer("it has too many clients"),
            }
        }
    }

    /// Receives from the peers that are ready, and from new ones, and ends the sessions of those
    /// that have died. Returns true if the operating system could not create a thread for that.
    fn attend(&mut self, ready: &[bool]) -> bool {
        self.threads.retain(|thread| !thread.is_finished());
        let mut is_short = false;
        for (index, mut peer) in mem::take(&mut self.peers).into_iter().enumerate() {
            if ready.get(index).is_none_or(|is_ready| *is_ready) {
                let is_dead = peer.is_dead();
                // Messages that the process sent before its end are still valid.
                peer.hear();
                // Another process may have taken over the connection.
                if is_dead
                    && peer.is_dead()
                    && let Some(dead) = &peer.registered
                    && field(&dead.process, PROCESS).is_some()
                {
                    match self.reap(dead) {
                        Ok(thread) => {
                            self.threads.push(thread);
                            continue;
                        }
                        Err(_) => is_short = true,
                    }
                }
            }
            if !peer.is_over() {
                self.peers.push(peer);
            }
        }
        is_short
    }

    /// Starts a thread that ends this session. Fails if the operating system is short of a
    /// resource.
    fn reap(&self, dead: &Registered) -> io::Result<JoinHandle<()>> {
        let margin = counted(&dead.margin).filter(|_| self.threads.len() < MOST_THREADS);
        let margin = Duration::from_millis(margin.ok_or(io::ErrorKind::ResourceBusy)?);
        let (registration, over) = (dead.registration.clone(), self.over.clone());
        // No hold has a longer margin.
        let margin = margin.min(registration.session_timeout());
        spawn("zoolock-reaping", move || registration.end_session_after(margin, &over))
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
                    let is_long = matches!(end, Err(Errno::MSGSIZE));
                    is_long.then(|| self.answer("the registration is too long"));
                    (self.socket, self.closed) = (None, Some(Instant::now()));
                }
            }
        }
    }

    fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let process = self.registered.iter().map(|registered| &registered.process);
        self.socket.iter().chain(process).map(Foreign::as_fd)
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
fn receive(socket: &Foreign) -> rustix::io::Result<Option<(Vec<u8>, Vec<Foreign>)>> {
    let mut message = vec![0; LONGEST];
    // The space is enough for every file that a message can carry: the system closes files that do
    // not fit, and closing may block.
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(253))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut message)], &mut beside, flags)?;
    let files = beside.drain().filter_map(|beside| match beside {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let files = files.flatten().map(|file| Foreign::new(file, &socket.litter)).collect();
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Errno::MSGSIZE);
    }
    message.truncate(received.bytes);
    Ok((received.bytes > 0).then_some((message, files)))
}

/// Returns what a message registers.
fn registered(message: &[u8], files: Vec<Foreign>) -> Result<Registered, String> {
    let text = String::from_utf8_lossy(message);
    let registration = Registration::from_text(&text).map_err(|error| error.to_string())?;
    let Ok([process, margin]) = <[Foreign; 2]>::try_from(files) else {
        return Err("the file descriptors of the process and the counter are missing".to_owned());
    };
    // A file of another kind would become ready for a different reason.
    if field(&process, PROCESS).is_none() || counted(&margin).is_none() {
        return Err("the file descriptors are not those of a process and a counter".to_owned());
    }
    Ok(Registered { process, margin, registration })
}

/// Returns the value of a counter. Never waits, whatever kind of file it is.
fn counted(counter: &Foreign) -> Option<u64> {
    u64::from_str_radix(&field(counter, "eventfd-count:")?, 16).ok()
}

/// Returns what the system reports about an open file.
fn field(file: &Foreign, name: &str) -> Option<String> {
    let number = file.as_fd().as_raw_fd();
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    let value = info.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().to_owned())
}

fn is_ready(file: impl AsFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut files = [PollFd::new(&file, PollFlags::IN)];
    poll(&mut files, Some(&now)).is_ok() && files[0].revents().contains(PollFlags::IN)
}
