//! A connection as bytes: its socket, and TLS around it if that is asked for. It knows nothing of what
//! the bytes mean.

use std::io;
#[cfg(feature = "tls")]
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::core::frames::Frames;
use crate::sys::net::Stream;
use crate::sys::{Mutex, MutexGuard};
#[cfg(feature = "tls")]
use crate::tls;

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    writer: Mutex<Writer>,
    /// The socket took less than it was given.
    is_full: AtomicBool,
    #[cfg(feature = "tls")]
    is_tls: bool,
}

/// What is still to be sent. Whoever has it writes for all.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// From `sent` on.
    bytes: Vec<u8>,
    sent: usize,
    #[cfg(feature = "tls")]
    tls: Option<Box<rustls::ClientConnection>>,
    /// What TLS has still to take.
    #[cfg(feature = "tls")]
    plain: Vec<u8>,
}

impl Link {
    pub(crate) fn new(stream: Stream) -> Link {
        Link {
            stream,
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

    /// The right to write, unless somebody has it, who then looks again for more.
    pub(crate) fn try_writer(&self) -> Option<MutexGuard<'_, Writer>> {
        self.writer.try_lock()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Has the reader to look whether there is something to be sent? With TLS it has had the right to
    /// write while it read.
    pub(crate) fn wants_a_look(&self) -> bool {
        #[cfg(feature = "tls")]
        if self.is_tls {
            return true;
        }
        self.is_full()
    }

    /// Sends as much as the socket takes. False if there is no use in trying again now.
    pub(crate) fn send(&self, mut writer: MutexGuard<'_, Writer>) -> bool {
        let sent = writer.send(&self.stream);
        let is_full = matches!(sent, Ok(false));
        // Stored only when it changes: this is on everybody's way.
        if is_full != self.is_full() {
            self.is_full.store(is_full, Ordering::Release);
        }
        match &sent {
            Ok(_) => {}
            // The reader finds that too, behind what the server has said before.
            Err(error)
                if [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset]
                    .contains(&error.kind()) => {}
            Err(_) => self.shut_down(),
        }
        matches!(sent, Ok(true))
    }

    /// Ends the connection, which wakes whoever reads. Never blocks.
    pub(crate) fn shut_down(&self) {
        // It fails if the other side was faster.
        let _ = self.stream.shut_down();
    }

    /// Reads what has come, waiting for it, into `frames`: how much, which may be nothing yet. None
    /// when nothing will come any more, with an error for whatever is worth saying.
    pub(crate) fn read(&self, frames: &mut Frames) -> Result<Option<usize>, String> {
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
            Err(error) => Err(error.to_string()),
        }
    }

    /// As `read`, but what has come may be no whole record, or one for TLS itself.
    #[cfg(feature = "tls")]
    fn read_tls(&self, frames: &mut Frames) -> Result<Option<usize>, String> {
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
            if tls.read_tls(&mut come).map_err(|error| error.to_string())? == 0 {
                return Err("the server ended TLS".into());
            }
            let processed = tls.process_new_packets();
            total += drain(tls, frames)?;
            if let Err(error) = processed {
                // The alert that tells the server why.
                self.send(writer);
                return Err(tls::explain(&error));
            }
        }
        self.send(writer);
        Ok(Some(total))
    }

    #[cfg(feature = "tls")]
    fn in_handshake(&self, problem: &str) -> String {
        let writer = self.writer.lock();
        match writer.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            true => format!("{problem} in the TLS handshake: is this a plain port?"),
            false => problem.to_owned(),
        }
    }
}

/// Moves what TLS has decoded into `frames`.
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
    /// Takes what is to be sent behind what is left from before.
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

    /// False if the socket is full.
    fn send(&mut self, stream: &Stream) -> io::Result<bool> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            // Into memory, without a limit.
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
        // What one long request took is not kept for ever.
        if self.bytes.capacity() > 256 * 1024 {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.sent = 0;
        Ok(true)
    }
}
