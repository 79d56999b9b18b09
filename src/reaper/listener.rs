//! The reaper itself: a socket at which clients register, and a thread that accepts them. Each
//! user's clients are served by a thread of their own (`clients`).

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io, mem, process};

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, write};
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, send, socket_with, sockopt::socket_peercred,
};
use rustix::process::{Resource, getrlimit};

use super::clients::{Ending, Peer, User, has_room, spawn, wait};
use crate::base::error::{Error, Result};

/// How many clients may be registered at a time, and the answer to more.
const MOST: usize = 10_000;
const TOO_MANY: &[u8] = b"it has too many clients of this user";

/// All users from this id on count as one. A user may have a range of them for its containers.
const FIRST_OF_MANY: u32 = 100_000;

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
    /// What ends the threads when it is dropped, and what each thread that ends a session has.
    alive: Option<(Sender<()>, Arc<Sender<()>>)>,
    /// This channel is disconnected when no thread ends a session any more.
    ended: Receiver<()>,
    /// The process that started the reaper. A forked child may drop a copy of it.
    process: u32,
}

impl Reaper {
    /// Starts a thread that listens at a new Unix socket, and leaves a file `.lock` beside it. Any
    /// process that may connect to the socket can make the reaper end sessions; anyone who can
    /// reach the servers already has that power. As for every new file, this process's umask
    /// decides who may connect.
    ///
    /// At most 10,000 clients can register, or a quarter of this process's limit for open files
    /// (`RLIMIT_NOFILE`) if that is less. One user can have half of them: with a limit of 1,024
    /// files, that is about 125 clients.
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
        let ((going_on, over), (attempt, ended)) = (bounded(0), bounded(0));
        let attempt = Arc::new(attempt);
        let ending = Ending { over, attempts: Arc::downgrade(&attempt) };
        let (users, clients, aside) = (Vec::new(), Arc::default(), None);
        let listener = Listener { socket, users, clients, aside, ending };
        spawn("zoolock-reaper", move || listener.run(&stopped)).map_err(no_thread)?;
        let alive = Some((going_on, attempt));
        Ok(Reaper { path, lock, stop, alive, ended, process: process::id() })
    }
}

/// Stops listening, and removes the socket. If the reaper is ending a session, it tries that at
/// most once more. Dropping the reaper waits for this attempt: for a session timeout, or for a
/// minute if the servers cannot be reached. Processes that are still alive are no longer watched.
impl Drop for Reaper {
    fn drop(&mut self) {
        if self.process != process::id() {
            // Another thread may have used these channels during the fork.
            return mem::forget(self.alive.take());
        }
        let _ = write(&self.stop, &1_u64.to_ne_bytes());
        self.alive = None;
        let _ = self.ended.recv();
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
    // As many as Linux allows by default: all clients of a machine may connect at once.
    listen(&socket, 4096)?;
    Ok((lock, socket))
}

/// What the thread of a reaper works with.
struct Listener {
    socket: OwnedFd,
    users: Vec<User>,
    /// Each client has a copy.
    clients: Arc<()>,
    /// A connection for which there was no thread. Closing it here might block.
    aside: Option<OwnedFd>,
    ending: Ending,
}

impl Listener {
    /// Runs until `stopped` is ready.
    fn run(mut self, stopped: &OwnedFd) {
        let mut is_short = false;
        loop {
            // If the operating system was short of a resource, this waits for a second.
            let files = [stopped.as_fd(), self.socket.as_fd()].into_iter();
            let files = files.take(if is_short { 1 } else { 2 });
            let ready = wait(files, is_short.then_some(1));
            if ready.as_ref().is_ok_and(|ready| ready[0]) {
                return;
            }
            is_short = ready.is_err();
            is_short |= self.accept().unwrap_or_else(|error| error != Errno::AGAIN);
        }
    }

    /// Accepts a connection, if there is one. Returns true if there is no thread for it.
    fn accept(&mut self) -> rustix::io::Result<bool> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let accept = || accept_with(&self.socket, flags);
        let socket = self.aside.take().map_or_else(accept, Ok)?;
        self.aside = self.place(socket);
        Ok(self.aside.is_some())
    }

    /// Hands a connection to the thread of its user, or returns it if there is no thread for it.
    fn place(&mut self, socket: OwnedFd) -> Option<OwnedFd> {
        let id = socket_peercred(&socket).ok()?.uid.as_raw().min(FIRST_OF_MANY);
        self.users.retain(|user| Arc::strong_count(&user.clients) > 1);
        if self.users.iter().all(|user| user.id != id) {
            let Ok(user) = User::start(id, self.ending.clone()) else { return Some(socket) };
            self.users.push(user);
        }
        let user = self.users.iter().find(|user| user.id == id)?;
        let slots = [&self.clients, &user.clients].map(Arc::clone);
        // A client needs three files.
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        if !has_room(&slots[0], &slots[1], MOST.min(files as usize / 4)) {
            return refuse(socket);
        }
        user.send(Some(Peer::new(socket, slots)));
        None
    }
}

/// Hangs up without waiting, or returns the connection if there is no thread for that. This closes
/// whatever the client has sent as well. Closing may block, for example if a TCP socket lingers, but
/// not in a thread that is ending: see `inet_release` in Linux. Such a thread closes the last copy
/// here. In containers that forbid `unshare`, this may wait.
fn refuse(socket: OwnedFd) -> Option<OwnedFd> {
    let _ = send(&socket, TOO_MANY, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    let ((copied, is_copied), (closed, is_closed)) = (bounded::<()>(0), bounded::<()>(0));
    let ending = spawn("zoolock-refusing", move || {
        #[expect(deprecated, reason = "the thread uses no file, as the new function requires")]
        let _ = rustix::thread::unshare(rustix::thread::UnshareFlags::FILES);
        drop(copied);
        let _ = is_closed.recv();
    });
    if ending.is_err() {
        return Some(socket);
    }
    let _ = is_copied.recv();
    drop((socket, closed));
    None
}
