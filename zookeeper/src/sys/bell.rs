//! A wait for connections that other threads can end.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::stream::Stream;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Wakes one thread, which waits for connections or for an instant.
#[derive(Debug)]
pub struct Bell {
    event: OwnedFd,
    /// Whether the bell has rung since the thread last woke.
    has_rung: AtomicBool,
}

impl Bell {
    /// Creates a bell that has not rung.
    ///
    /// # Errors
    /// If the system has no file descriptor for it.
    pub fn new() -> io::Result<Bell> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Bell { event, has_rung: AtomicBool::new(false) })
    }

    /// Ends the current wait, or the next one. Only the first ring costs a system call.
    pub fn ring(&self) {
        if !self.has_rung.swap(true, Ordering::AcqRel) {
            // This cannot fail, because the count of the event is reset between two rings.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Waits until one of the connections is established or has failed, until the bell rings, or
    /// until this instant. It may return earlier, so check again.
    pub fn wait<'a>(&self, streams: impl Iterator<Item = &'a Stream>, until: Instant) {
        let mut all = vec![PollFd::new(&self.event, PollFlags::IN)];
        all.extend(streams.map(|stream| PollFd::new(&stream.0, PollFlags::OUT)));
        let left = until.saturating_duration_since(Instant::now());
        // A wait that fails was interrupted by a signal.
        let _ = poll(&mut all, Timespec::try_from(left).ok().as_ref());
        // Reading an empty event fails, which does no harm. The read must come first: a ring
        // between the two lines is then harmless, because the caller checks for changes after this
        // call.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        self.has_rung.swap(false, Ordering::AcqRel);
    }

    /// Sleeps until this instant, or until the bell rings.
    pub fn sleep(&self, until: Instant) {
        self.wait(std::iter::empty(), until);
    }
}
