//! Waiting until a file can be read or written, for a limited time and without a thread.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Waits until there is something to read, or the end of the file. Returns false when the time is
/// over.
pub(crate) fn is_readable(file: impl AsFd, within: Duration) -> io::Result<bool> {
    is_ready(&file, PollFlags::IN, within)
}

/// Waits until there is room for a line. Returns false when the time is over.
pub(crate) fn is_writable(file: impl AsFd, within: Duration) -> io::Result<bool> {
    is_ready(&file, PollFlags::OUT, within)
}

fn is_ready(file: &impl AsFd, wanted: PollFlags, within: Duration) -> io::Result<bool> {
    // A time too large for the clock has no end.
    let end = Instant::now().checked_add(within);
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(file, wanted)], left.as_ref()) {
            Err(Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}
