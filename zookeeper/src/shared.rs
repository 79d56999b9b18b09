//! What a client's threads and callers share: the core behind a mutex, the connection, and the
//! transport of bytes and answers between them. No callback runs while the mutex is held.
//!
//! Two threads deliver outputs and answers, one at a time and in order. The reader delivers those that
//! result from frames. The timer delivers those that are due, and those that result from callers'
//! requests. There are two threads, because a reader that waits for bytes cannot watch the clock; a
//! third thread that delivered all answers would have to be woken for each of them. Callers only send,
//! because they may hold a mutex that a callback needs. (When the timer has ended, no other thread is
//! left, and callers deliver the errors of their own requests.)

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::{Level, STATIC_MAX_LEVEL, log, max_level, warn};

use crate::alarm::Alarm;
use crate::core::clock::Moment;
use crate::core::hosts::HostList;
use crate::core::path::below;
use crate::core::session::{Answer, Core, Output};
use crate::core::watches::Listen;
use crate::core::wire::Malformed;
use crate::error::{Error, ErrorKind, Result};
use crate::link::Link;
use crate::listener::{Listener, WeakListener, call_out};
use crate::pending::{Answered, UserCall};
use crate::sys::net::Bell;
use crate::sys::thread::{self, never_wait_here};
use crate::sys::{self, Condvar, Mutex, MutexGuard};
use crate::types::{SessionEvent, WatchedEvent};
use crate::worker::{Job, Worker};

/// How long to wait before writing to a full socket again.
const FULL: Duration = Duration::from_millis(1);
/// How long to wait before trying again to start a thread that the system refused.
const STUCK: Duration = Duration::from_secs(1);
/// From this many requests in flight on, a thread yields before it sends: answers then arrive together
/// and wake several threads at once, which send again.
const MANY: usize = 3;
/// How many log lines may wait for a slow logger, and how many callbacks for one callback that blocks.
const LINES: usize = 100;
const CALLBACKS: usize = 10_000;
/// The target of log lines.
const TARGET: &str = "zoolock_zookeeper";

type Reminder = Box<dyn FnOnce() + Send>;
/// The core, with the answers and the listeners of this client.
pub(crate) type ClientCore = Core<Arc<dyn Answered>, WeakListener<WatchedEvent>>;
type ClientOutput = Output<Arc<dyn Answered>, WeakListener<WatchedEvent>>;

pub(crate) struct Shared {
    pub(crate) hosts: HostList,
    state: Mutex<Inner>,
    /// Wakes the timer.
    alarm: Alarm,
    /// Wakes the reader while it tries servers.
    pub(crate) dialing: Arc<Bell>,
    subscribers: Mutex<Subscribers>,
    /// Callbacks, by the instant at which they are due.
    reminders: Mutex<BTreeMap<Instant, Vec<Reminder>>>,
    /// Notified when all outputs were delivered.
    told: Condvar,
    lines: Arc<Worker>,
    callbacks: Arc<Worker>,
}

struct Inner {
    core: ClientCore,
    link: Option<Arc<Link>>,
    /// When the timer plans to wake.
    planned: Instant,
    /// A thread is delivering outputs.
    is_telling: bool,
    /// Other outputs were added for it to deliver.
    has_more: bool,
    /// The timer has ended: each thread delivers the outputs that it causes.
    is_ended: bool,
}

struct Subscribers {
    listeners: Vec<WeakListener<SessionEvent>>,
    sweep_at: usize,
}

impl Shared {
    pub(crate) fn new(core: ClientCore, hosts: HostList, dialing: Bell, now: Moment) -> Shared {
        Shared {
            hosts,
            state: Mutex::new(Inner {
                core,
                link: None,
                planned: now.monotonic,
                is_telling: false,
                has_more: false,
                is_ended: false,
            }),
            alarm: Alarm::default(),
            dialing: Arc::new(dialing),
            subscribers: Mutex::new(Subscribers { listeners: Vec::new(), sweep_at: 64 }),
            reminders: Mutex::default(),
            told: Condvar::new(),
            lines: Worker::new("zookeeper-log", LINES),
            callbacks: Worker::new("zookeeper-aside", CALLBACKS),
        }
    }

    /// Returns the client's root, below which all paths are.
    pub(crate) fn root(&self) -> &str {
        &self.hosts.chroot
    }

    /// Reads the core. `look` must not change the core in a way that causes outputs.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut ClientCore) -> T) -> T {
        look(&mut self.state.lock().core)
    }

    /// Changes the core. The timer delivers the outputs.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut ClientCore, Moment) -> T) -> T {
        let mut inner = self.state.lock();
        let changed = change(&mut inner.core, Moment::now());
        self.send_only(inner);
        self.wake();
        changed
    }

    /// Sends the pending bytes, and leaves the outputs to the timer.
    fn send_only<'a>(&'a self, inner: MutexGuard<'a, Inner>) {
        match inner.is_ended {
            true => self.deliver_aside(inner),
            false => self.send(inner),
        }
    }

    /// Runs the timer.
    pub(crate) fn keep_time(&self) {
        never_wait_here();
        loop {
            let mut inner = self.state.lock();
            inner.planned = inner.core.tick(Moment::now());
            if let (true, Some(link)) = (inner.core.is_doomed(), &inner.link) {
                link.shut_down();
            }
            if inner.core.is_over() && !inner.core.has_outputs() {
                inner.is_ended = true;
                drop(inner);
                // The callbacks may have the last references to this client.
                let reminders = std::mem::take(&mut *self.reminders.lock());
                return drop(reminders);
            }
            let is_full = inner.link.as_ref().is_some_and(|link| link.is_full());
            let mut next = if is_full { sys::now() + FULL } else { inner.planned };
            self.deliver_aside(inner);
            if self.lines.retry() | self.callbacks.retry() {
                sys::reached("a background job waits for a thread");
                next = next.min(sys::now() + STUCK);
            }
            self.alarm.sleep(self.remind().map_or(next, |due| due.min(next)));
        }
    }

    /// Calls the callbacks that are due, and returns when the next one is due.
    fn remind(&self) -> Option<Instant> {
        let mut reminders = self.reminders.lock();
        while let Some(first) = reminders.first_entry() {
            if *first.key() > sys::now() {
                return Some(*first.key());
            }
            let due = first.remove();
            drop(reminders);
            due.into_iter().for_each(call_out);
            reminders = self.reminders.lock();
        }
        None
    }

    pub(crate) fn call_at(&self, when: Instant, callback: impl FnOnce() + Send + 'static) {
        // The timer checks for the end under this mutex, and then drops all earlier callbacks.
        let inner = self.state.lock();
        if inner.core.is_over() {
            sys::reached("a timer callback is added after the end");
            return;
        }
        self.reminders.lock().entry(when).or_default().push(Box::new(callback));
        drop(inner);
        self.alarm.set(when);
    }

    /// Wakes both threads, so that they check the state again.
    pub(crate) fn wake(&self) {
        self.alarm.set(sys::now());
        self.dialing.ring();
    }

    /// Sends requests, in one write if no other thread is writing.
    pub(crate) fn submit(&self, calls: impl IntoIterator<Item = UserCall>) {
        let mut inner = self.state.lock();
        let (now, mut next) = (Moment::now(), inner.planned);
        let calls = calls.into_iter().inspect(|call| {
            next = call.deadline.map_or(next, |deadline| deadline.min(next));
        });
        inner.core.submit(calls, now);
        if inner.core.has_outputs() {
            next = now.monotonic;
        }
        let is_sooner = next < inner.planned;
        self.send_only(inner);
        if is_sooner {
            self.alarm.set(next);
        }
    }

    // ---- the connection

    /// Waits until all earlier outputs have been delivered, and locks the state. This is for the
    /// reader, and is never called from a callback.
    fn lock_told(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.state.lock();
        while inner.is_telling {
            self.told.wait(&mut inner);
        }
        inner
    }

    /// Takes a connection that a server has accepted. For `is_confirmed` see `Target`.
    pub(crate) fn attach(&self, link: &Arc<Link>, is_confirmed: bool) {
        let mut inner = self.lock_told();
        inner.core.dialed(is_confirmed, Moment::now());
        inner.link = Some(Arc::clone(link));
        self.deliver(inner);
        self.alarm.set(sys::now());
    }

    /// Ends the connection. Returns the reason, as far as it is known, and whether the server did not
    /// answer the handshake in time.
    pub(crate) fn detach(&self, reason: &str) -> (Arc<str>, bool) {
        let mut inner = self.lock_told();
        inner.link = None;
        let is_silent = inner.core.is_silent();
        let reason = inner.core.broke(reason, Moment::now());
        self.deliver(inner);
        self.alarm.set(sys::now());
        (reason, is_silent)
    }

    /// Takes a frame. An error is the reason to end the connection. Returns true if the connection
    /// must end.
    pub(crate) fn receive(&self, frame: &[u8]) -> Result<bool, Malformed> {
        let mut inner = self.lock_told();
        let was_open = inner.core.is_open();
        let answers = inner.core.receive(frame, Moment::now())?;
        let mut is_doomed = inner.core.is_doomed();
        if was_open != inner.core.is_open() {
            // The next due instant has changed.
            self.alarm.set(sys::now());
        }
        if !inner.core.has_news() {
            drop(inner);
        } else {
            self.deliver(inner);
        }
        for Answer { slot, code, zxid, body } in answers {
            if let Err(malformed) = slot.answer(code, zxid, &frame[body]) {
                // Doom the connection before delivering any output, so that nothing more is sent.
                let reason = format!("bad answer: {malformed}");
                self.look(|core| core.doom(&reason));
                slot.settle(Err(Error::because(ErrorKind::ConnectionLoss, reason)));
                is_doomed = true;
            }
        }
        Ok(is_doomed)
    }

    /// After something was read, sends the bytes that are left over.
    pub(crate) fn send_rest(&self, link: &Link) {
        if link.wants_a_look() {
            self.deliver(self.state.lock());
        }
    }

    /// Sends the pending bytes and delivers the outputs, without holding the mutex. For the reader.
    fn deliver<'a>(&'a self, inner: MutexGuard<'a, Inner>) {
        if self.send_and_look(inner) {
            self.tell_outputs();
        }
    }

    /// Like `deliver`, for all other threads. Does not wait for a thread that is already delivering,
    /// because a callback may take long.
    fn deliver_aside<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) {
        let answers = inner.core.answers();
        if self.send_and_look(inner) {
            self.tell_outputs();
        }
        self.tell(answers);
    }

    /// Sends the pending bytes. Returns whether there are outputs, or the client has ended.
    fn send_and_look<'a>(&'a self, inner: MutexGuard<'a, Inner>) -> bool {
        let is_over = inner.core.is_over();
        if let (true, Some(link)) = (is_over, &inner.link) {
            link.shut_down();
        }
        let has_outputs = inner.core.has_outputs();
        self.send(inner);
        has_outputs || is_over
    }

    /// Delivers the outputs in order. One thread at a time does this, and also delivers those that
    /// other threads add in the meantime. Only the reader waits until this thread has finished.
    fn tell_outputs(&self) {
        let mut inner = self.state.lock();
        inner.has_more = true;
        if inner.is_telling {
            return;
        }
        inner.is_telling = true;
        while std::mem::take(&mut inner.has_more) {
            let outputs = inner.core.outputs();
            drop(inner);
            self.tell(outputs);
            inner = self.state.lock();
        }
        inner.is_telling = false;
        let is_over = inner.core.is_over();
        drop(inner);
        self.told.notify_all();
        if is_over {
            self.wake();
        }
    }

    fn send<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) {
        while let Some(link) = inner.link.clone() {
            // The thread that has the writer checks again for bytes when it is done.
            let Some(mut writer) = link.try_writer() else {
                return;
            };
            if inner.core.out().is_empty() && writer.is_empty() {
                return;
            }
            if inner.core.under_way() >= MANY {
                // While this thread yields, others add their bytes, which it then sends in one write.
                drop(inner);
                thread::yield_now();
                inner = self.state.lock();
                if !inner.link.as_ref().is_some_and(|now| Arc::ptr_eq(now, &link)) {
                    sys::reached("a connection ends under a writer that waits");
                    continue;
                }
            }
            writer.take(inner.core.out());
            drop(inner);
            if !link.send(writer) {
                // If the socket is full, the timer sends the rest. The reader detects a broken
                // connection.
                return if link.is_full() {
                    self.alarm.set(sys::now() + FULL)
                };
            }
            inner = self.state.lock();
        }
    }

    fn tell(&self, outputs: Vec<ClientOutput>) {
        for output in outputs {
            // If one output panics, for example in a logger, the others are still delivered.
            call_out(|| self.tell_one(output));
        }
    }

    fn tell_one(&self, output: ClientOutput) {
        match output {
            Output::Answer(slot, result) => slot.settle(result),
            Output::Watched(listeners, event_type, path) => {
                let path = below(&path, self.root().len());
                let event = WatchedEvent { event_type, path };
                listeners.iter().for_each(|listener| listener.tell(&event));
            }
            Output::Session(event) => {
                let SessionEvent { kind, session_id } = event;
                // A client may be closed while it has no session.
                if session_id != 0 {
                    self.note(Level::Info, || format!("session {session_id:#x}: {kind:?}"));
                }
                let listeners = self.subscribers.lock().listeners.clone();
                listeners.iter().for_each(|listener| listener.tell(&event));
            }
        }
    }

    /// Writes a line of the client to the log.
    pub(crate) fn note(&self, level: Level, line: impl FnOnce() -> String) {
        if may_log(level) {
            let line = line();
            self.write(Box::new(move || log!(target: TARGET, level, "{line}")));
        }
    }

    /// Lets `write` write a line, if the level may be enabled and a thread can be started.
    pub(crate) fn note_by(&self, level: Level, write: Job) {
        if may_log(level) {
            self.write(write);
        }
    }

    fn write(&self, write: Job) {
        let dropped = self.lines.call(write);
        if dropped > 0 {
            let line = move || warn!(target: TARGET, "{dropped} log lines were dropped: the logger is slow");
            self.lines.call(Box::new(line));
        }
    }

    pub(crate) fn call_aside(&self, callback: Job) {
        let dropped = self.callbacks.call(callback);
        if dropped > 0 {
            self.note(Level::Warn, || {
                format!("{dropped} callbacks were dropped: an earlier one took too long")
            });
        }
    }

    pub(crate) fn subscribe(&self, listener: &Listener<SessionEvent>) {
        let mut subscribers = self.subscribers.lock();
        if subscribers.listeners.len() >= subscribers.sweep_at {
            subscribers.listeners.retain(Listen::is_live);
            subscribers.sweep_at = 64.max(subscribers.listeners.len() * 2);
        }
        subscribers.listeners.push(listener.downgrade());
    }
}

/// Returns whether the maximum level allows lines of this level. The logger's own filter is called on
/// the thread that writes, because it may block or panic.
fn may_log(level: Level) -> bool {
    level <= STATIC_MAX_LEVEL && level <= max_level()
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.hosts)
    }
}
