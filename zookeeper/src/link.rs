//! A connection as bytes: its socket, with TLS if configured. This module does not interpret the
//! bytes.

use std::io;
#[cfg(feature = "tls")]
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::core::frames::Frames;
use crate::sys::net::Stream;
use crate::sys::{self, Mutex, MutexGuard};
#[cfg(feature = "tls")]
use crate::tls;

/// Why a connection can no longer be read.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) reason: String,
    /// Whether TLS failed, rather than the connection below it.
    pub(crate) is_tls: bool,
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    /// The process that connected. A forked child shares its socket.
    process: u32,
    writer: Mutex<Writer>,
    /// The socket accepted less than it was given.
    is_full: AtomicBool,
    #[cfg(feature = "tls")]
    is_tls: bool,
}

/// Bytes that are still to be sent. The thread that has the writer also sends the bytes of all others.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// The unsent bytes start at `sent`.
    bytes: Vec<u8>,
    sent: usize,
    #[cfg(feature = "tls")]
    tls: Option<Box<rustls::ClientConnection>>,
    /// Bytes that are still to be passed to TLS.
    #[cfg(feature = "tls")]
    plain: Vec<u8>,
}

impl Link {
    pub(crate) fn new(stream: Stream) -> Link {
        Link {
            stream,
            process: sys::process_id(),
            writer: Mutex::default(),
            is_full: AtomicBool::new(false),
            #[cfg(feature = "tls")]
            is_tls: false,
        }
    }

    #[cfg(feature = "tls")]
    pub(crate) fn with_tls(mut self, tls: rustls::ClientConnection) -> Link {
        self.writer.get_mut().tls = Some(Box::new(tls));
        self.is_tls = true;
        self
    }

    /// Returns the right to write. If another thread has it, that thread checks again for more bytes.
    pub(crate) fn try_writer(&self) -> Option<MutexGuard<'_, Writer>> {
        self.writer.try_lock()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Returns whether the reader must check for bytes to send. With TLS, the reader had the right to
    /// write while it read, so other threads may have left bytes.
    pub(crate) fn wants_a_look(&self) -> bool {
        #[cfg(feature = "tls")]
        if self.is_tls {
            return true;
        }
        self.is_full()
    }

    /// Returns false for the copy in a forked child.
    fn is_ours(&self) -> bool {
        self.process == sys::process_id()
    }

    /// Sends as much as the socket accepts; in a forked child, nothing. Returns false if it would be
    /// useless to try again now.
    pub(crate) fn send(&self, mut writer: MutexGuard<'_, Writer>) -> bool {
        if !self.is_ours() {
            return false;
        }
        let sent = writer.send(&self.stream);
        let is_full = matches!(sent, Ok(false));
        // A needless store would slow down all senders, which read the flag.
        if is_full != self.is_full() {
            self.is_full.store(is_full, Ordering::Release);
        }
        match &sent {
            Ok(_) => {}
            // The reader detects the broken connection itself, once it has read the server's
            // earlier answers.
            Err(error)
                if [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset]
                    .contains(&error.kind()) => {}
            Err(_) => self.shut_down(),
        }
        matches!(sent, Ok(true))
    }

    /// Ends the connection, which wakes the reader. Does nothing in a forked child. Never blocks.
    pub(crate) fn shut_down(&self) {
        if self.is_ours() {
            // Fails if the other side has already closed the connection.
            let _ = self.stream.shut_down();
        }
    }

    /// Waits for bytes and reads them into `frames`. Returns their number, which may be zero, or `None`
    /// at the end of the stream. An error is an end of the stream with a reason to report.
    pub(crate) fn read(&self, frames: &mut Frames) -> Result<Option<usize>, Broken> {
        #[cfg(feature = "tls")]
        if self.is_tls {
            return self.read_tls(frames);
        }
        match self.stream.read(frames.space()) {
            Ok(0) => Ok(None),
            Ok(count) => {
                frames.filled(count);
                Ok(Some(count))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Some(0)),
            Err(error) => Err(Broken { reason: error.to_string(), is_tls: false }),
        }
    }

    /// Like `read`. It returns zero if the bytes are an incomplete record, or a record for TLS itself.
    #[cfg(feature = "tls")]
    fn read_tls(&self, frames: &mut Frames) -> Result<Option<usize>, Broken> {
        let mut come = [0; 16 * 1024];
        let count = match self.stream.read(&mut come) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Some(0)),
            Err(error) => return Err(self.in_handshake(&error.to_string())),
            Ok(0) => return Err(self.in_handshake("the server hung up")),
            Ok(count) => count,
        };
        let mut come = &come[..count];
        let mut total = 0;
        let mut writer = self.writer.lock();
        while !come.is_empty() {
            let Some(tls) = &mut writer.tls else {
                return Ok(None);
            };
            if tls.read_tls(&mut come).map_err(|error| Broken::tls(error.to_string()))? == 0 {
                return Err(Broken::tls("the server closed the TLS connection".into()));
            }
            let processed = tls.process_new_packets();
            total += drain(tls, frames).map_err(Broken::tls)?;
            if let Err(error) = processed {
                // The alert reports the reason to the server.
                self.send(writer);
                return Err(Broken::tls(tls::explain(&error)));
            }
        }
        self.send(writer);
        Ok(Some(total))
    }

    #[cfg(feature = "tls")]
    fn in_handshake(&self, problem: &str) -> Broken {
        let writer = self.writer.lock();
        match writer.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            true => Broken::tls(format!(
                "{problem} in the TLS handshake: is this a plain port, without TLS?"
            )),
            false => Broken { reason: problem.to_owned(), is_tls: false },
        }
    }
}

#[cfg(feature = "tls")]
impl Broken {
    fn tls(reason: String) -> Broken {
        Broken { reason, is_tls: true }
    }
}

/// Moves decoded bytes from TLS into `frames`.
#[cfg(feature = "tls")]
fn drain(tls: &mut rustls::ClientConnection, frames: &mut Frames) -> Result<usize, String> {
    let mut total = 0;
    loop {
        match tls.reader().read(frames.space()) {
            Ok(0) => return Ok(total),
            Ok(count) => {
                frames.filled(count);
                total += count;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(total),
            Err(error) => return Err(error.to_string()),
        }
    }
}

impl Writer {
    /// Appends bytes to those left from before.
    pub(crate) fn take(&mut self, more: &mut Vec<u8>) {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return self.plain.append(more);
        }
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
            std::mem::swap(&mut self.bytes, more);
        } else {
            self.bytes.append(more);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Returns false if the socket is full.
    fn send(&mut self, stream: &Stream) -> io::Result<bool> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            // Writes to memory, without a limit.
            io::Write::write_all(&mut tls.writer(), &self.plain)?;
            self.plain.clear();
            while tls.wants_write() {
                tls.write_tls(&mut self.bytes)?;
            }
        }
        while !self.is_empty() {
            match stream.send(&self.bytes[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.sent = self.bytes.len();
                    return Err(error);
                }
            }
        }
        // The memory of one long request is not kept forever.
        if self.bytes.capacity() > 256 * 1024 {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.sent = 0;
        Ok(true)
    }
}
