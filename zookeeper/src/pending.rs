//! The answer to a request in flight: how it is decoded, where it is stored, and who waits for it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::core::connection::Call;
use crate::core::wire::{Malformed, Reader};
use crate::error::{Error, ErrorKind, Result};
use crate::listener::{WeakListener, call_out};
use crate::sys::thread::{self, Thread, must_not_wait};
use crate::sys::{self, Mutex};
use crate::types::WatchedEvent;

/// How long after its deadline a request may still get an answer.
const GRACE: Duration = Duration::from_secs(1);

/// The destination of an answer of any type.
pub(crate) trait Answered: Send + Sync {
    /// The server has answered with this code and body. `zxid` is the transaction in the header. An
    /// error ends the connection, and the answer is not delivered.
    fn answer(&self, code: i32, zxid: i64, body: &[u8]) -> Result<(), Malformed>;
    /// The request ended without an answer of a server, or with an answer that has no body.
    fn settle(&self, result: Result<()>);
}

/// How an answer is read.
#[derive(Debug)]
pub(crate) struct Decode<T> {
    pub(crate) read: Read<T>,
    /// The result if the node does not exist, unless a missing node is an error.
    pub(crate) no_node: fn() -> Option<T>,
    /// The number of operations in a `multi`.
    pub(crate) ops: usize,
}

/// What an answer must match.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// The length of the client's root, with which paths begin.
    pub(crate) root: usize,
    /// As in [`Decode`].
    pub(crate) ops: usize,
    /// The transaction of a write.
    pub(crate) zxid: i64,
}

/// Why an answer does not mean success.
pub(crate) enum Unread {
    Malformed(Malformed),
    /// The operation with this index was refused.
    Refused(ErrorKind, usize),
}

impl From<Malformed> for Unread {
    fn from(malformed: Malformed) -> Unread {
        Unread::Malformed(malformed)
    }
}

pub(crate) type Read<T> = fn(&mut Reader<'_>, Expected) -> Result<T, Unread>;

impl<T> From<Read<T>> for Decode<T> {
    fn from(read: Read<T>) -> Decode<T> {
        Decode { read, no_node: || None, ops: 0 }
    }
}

/// A request of a user of the client, on its way to the core.
pub(crate) type UserCall = Call<Arc<dyn Answered>, WeakListener<WatchedEvent>>;

/// Where the answer to one request is stored.
struct Slot<T> {
    state: Mutex<Status<T>>,
    decode: Decode<T>,
    asked: Expected,
}

/// Changes once, from `Open` to `Done`. The result is taken out while the mutex is not held.
enum Status<T> {
    Open(Option<Waiter<T>>),
    Done(Result<T>),
    /// The result was taken.
    Gone,
}

enum Waiter<T> {
    Thread(Thread),
    Callback(Box<dyn FnOnce(Result<T>) + Send>),
}

impl<T> Slot<T> {
    fn fill(&self, result: Result<T>) {
        let mut status = self.state.lock();
        let waiter = match &mut *status {
            Status::Open(waiter) => waiter.take(),
            Status::Done(_) | Status::Gone => return,
        };
        if let Some(Waiter::Callback(callback)) = waiter {
            *status = Status::Gone;
            drop(status);
            return call_out(|| callback(result));
        }
        *status = Status::Done(result);
        drop(status);
        if let Some(Waiter::Thread(thread)) = waiter {
            thread.unpark();
        }
    }

    /// Takes the result, if there is one. Otherwise stores `waiter`, which will be notified.
    fn take_or(&self, waiter: impl FnOnce() -> Option<Waiter<T>>) -> Option<Result<T>> {
        let mut status = self.state.lock();
        match std::mem::replace(&mut *status, Status::Gone) {
            Status::Done(result) => Some(result),
            Status::Open(_) => {
                *status = Status::Open(waiter());
                None
            }
            // Taking the result consumes the only handle, so this never happens.
            Status::Gone => Some(Err(Error::new(ErrorKind::Closed))),
        }
    }
}

impl<T: Send> Answered for Slot<T> {
    fn answer(&self, code: i32, zxid: i64, body: &[u8]) -> Result<(), Malformed> {
        let kind = ErrorKind::of_code(code);
        let mut reader = Reader(body);
        let read = match code {
            0 => (self.decode.read)(&mut reader, Expected { zxid, ..self.asked }),
            _ => {
                let meant = (kind == ErrorKind::NoNode).then(self.decode.no_node).flatten();
                self.fill(meant.ok_or_else(|| Error::new(kind)));
                return Ok(());
            }
        };
        let result = match read {
            Ok(value) => Ok(value),
            Err(Unread::Refused(kind, index)) => Err(Error::new(kind).at(index)),
            Err(Unread::Malformed(malformed)) => return Err(malformed),
        };
        reader.end()?;
        self.fill(result);
        Ok(())
    }

    fn settle(&self, result: Result<()>) {
        let done = || {
            (self.decode.read)(&mut Reader(&[]), self.asked).map_err(|_| ErrorKind::Closed.into())
        };
        self.fill(result.and_then(|()| done()));
    }
}

/// A request that was submitted. It gets a result before its deadline, whether or not a thread waits.
/// Dropping this does not cancel the request.
#[must_use = "only the answer shows whether the request was carried out"]
pub struct Pending<T> {
    slot: Arc<Slot<T>>,
    /// `None` for a request that is sent again until it is answered.
    deadline: Option<Instant>,
}

impl<T: Send + 'static> Pending<T> {
    pub(crate) fn new(
        root: &str,
        deadline: Instant,
        decode: Decode<T>,
    ) -> (Pending<T>, Arc<dyn Answered>) {
        let slot = Arc::new(Slot {
            state: Mutex::new(Status::Open(None)),
            asked: Expected { root: root.len(), ops: decode.ops, zxid: 0 },
            decode,
        });
        let pending = Pending { slot: Arc::clone(&slot), deadline: Some(deadline) };
        (pending, slot)
    }

    pub(crate) fn without_deadline(mut self) -> Pending<T> {
        self.deadline = None;
        self
    }

    /// Waits for the answer, until the request's deadline at most.
    ///
    /// # Errors
    ///
    /// Those of the operation, and [`ErrorKind::WouldBlock`] in a callback of the client.
    pub fn wait(self) -> Result<T> {
        // The timer answers at the deadline.
        let latest = self.deadline.map(|deadline| deadline + GRACE);
        // If there is no answer even then, either a callback delays the timer, or the request was never
        // sent because its batch is still being created, perhaps by this thread.
        self.wait_until(latest).unwrap_or_else(|_| Err(Error::new(ErrorKind::Timeout)))
    }

    /// Waits for the answer for at most `limit`. If it does not arrive in time, returns the request
    /// itself.
    ///
    /// # Errors
    ///
    /// The answer contains the errors of [`wait`](Pending::wait).
    pub fn wait_for(self, limit: Duration) -> std::result::Result<Result<T>, Pending<T>> {
        self.wait_until(sys::now().checked_add(limit))
    }

    fn wait_until(self, latest: Option<Instant>) -> std::result::Result<Result<T>, Pending<T>> {
        let thread = || match must_not_wait() {
            false => Some(Waiter::Thread(thread::current())),
            true => None,
        };
        loop {
            if let Some(result) = self.slot.take_or(thread) {
                return Ok(result);
            }
            if must_not_wait() {
                return Ok(Err(Error::new(ErrorKind::WouldBlock)));
            }
            match latest.map(|latest| latest.saturating_duration_since(sys::now())) {
                Some(left) if !left.is_zero() => thread::park_timeout(left),
                Some(_) => return Err(self),
                None => thread::park(),
            }
        }
    }

    /// Returns whether there is an answer.
    #[must_use]
    pub fn is_done(&self) -> bool {
        !matches!(*self.slot.state.lock(), Status::Open(_))
    }

    /// Calls `callback` with the answer: at once if it has arrived, otherwise on the thread that
    /// delivers it. All other answers wait for that thread, so the callback must not block.
    pub fn on_done(self, callback: impl FnOnce(Result<T>) + Send + 'static) {
        let mut callback: Option<Box<dyn FnOnce(Result<T>) + Send>> = Some(Box::new(callback));
        let result = self.slot.take_or(|| callback.take().map(Waiter::Callback));
        if let (Some(result), Some(callback)) = (result, callback) {
            call_out(|| callback(result));
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(sys::now()));
        f.debug_struct("Pending").field("left", &left).finish_non_exhaustive()
    }
}
