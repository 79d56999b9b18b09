//! The reaper itself: a socket at which clients register, and a thread that serves them (`clients`).

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{self, Path, PathBuf};
use std::sync::Arc;
use std::{fs, io, process};

use crossbeam_channel::Receiver;
use rustix::fs::OFlags;
use rustix::io::{Errno, write};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use super::clients::{Clients, Dead, OVER};
use super::registration::LONGEST_TRY;
use crate::base::error::{Error, Result};

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
/// To have a reaper for all programs of a user, run `zoolock reaper`.
#[derive(Debug)]
pub struct Reaper {
    path: PathBuf,
    /// Locked for as long as the reaper exists: no other process may replace its socket.
    lock: File,
    /// Wakes the thread.
    wake: Arc<OwnedFd>,
    /// This channel is disconnected when no thread ends a session any more.
    ended: Receiver<Dead>,
    /// The process that started the reaper. A forked child may drop a copy of it.
    process: u32,
}

impl Reaper {
    /// Starts a thread that listens at a new Unix socket, and leaves a file `.lock` beside it.
    ///
    /// As for every new file, this process's umask decides who may connect; clients use only a
    /// reaper of their own user or of root. Whoever may connect can also block the reaper, for
    /// example by a flood of registrations. The locks of other clients are then free after a
    /// session timeout, as without a reaper.
    ///
    /// At most 10,000 clients can register, or a quarter of this process's limit for open files
    /// (`RLIMIT_NOFILE`) if that is less.
    ///
    /// # Errors
    ///
    /// - [`Error::InvalidArgument`] if the socket cannot be created: another reaper listens there,
    ///   another file is there, or the path is longer than 107 bytes.
    /// - [`Error::SpawnThread`] if the operating system cannot create a thread.
    pub fn start(path: impl AsRef<Path>) -> Result<Reaper> {
        let path = path.as_ref();
        let wrong =
            |reason: io::Error| Error::invalid("socket of a reaper", format!("{path:?}: {reason}"));
        // The working directory may change.
        let absolute = path::absolute(path).map_err(wrong)?;
        let (lock, socket) = listen_at(path).map_err(wrong)?;
        let no_thread = |cause: io::Error| Error::SpawnThread { cause: cause.to_string() };
        let (wake, ended) = Clients::start(socket).map_err(no_thread)?;
        Ok(Reaper { path: absolute, lock, wake, ended, process: process::id() })
    }
}

/// Stops listening, and removes the socket. Dropping the reaper waits for the attempts to end a
/// session that have begun: for at most a session timeout, or a minute if that is less, but for up to
/// two minutes if a certificate is on a file system that hangs. Processes that are still alive are no
/// longer watched.
impl Drop for Reaper {
    fn drop(&mut self) {
        if self.process != process::id() {
            return;
        }
        let _ = write(&*self.wake, &OVER.to_ne_bytes());
        while self.ended.recv_timeout(LONGEST_TRY).is_ok() {}
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
    let mut options = File::options();
    options.create(true).append(true).mode(0o600);
    // Another user may have put a link or a pipe there.
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    let lock = options.open(beside)?;
    lock.try_lock().map_err(|_| io::Error::other("another reaper listens there"))?;
    if fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
        && connect(new()?, &address) == Err(Errno::CONNREFUSED)
    {
        let _ = fs::remove_file(path);
    }
    let socket = new()?;
    bind(&socket, &address)?;
    // As many as Linux allows by default: all clients may connect at once.
    listen(&socket, 4096)?;
    Ok((lock, socket))
}
