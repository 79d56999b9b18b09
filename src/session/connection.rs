//! One handle of the `zookeeper` crate, to one address, from open until the first sign of
//! trouble. Then it is dead for ever: the crate's own reconnect replaces expired sessions without
//! a word, forgets watches and authentication, and may end a live session for good.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, select_biased};
use log::warn;
use parking_lot::Mutex;
use zookeeper::{Acl, WatchedEvent, ZooKeeper};

use super::alarm::Alarm;
use super::call::{Failure, Until};
use super::config::{Config, REQUESTS_HARD};
use super::death::{Cause, Death};
use super::lease::{Lease, Proof};
use super::tenancy::Tenancy;
use super::vitals::{Pulse, Verdict, Vitals};
use super::wire::Wire;
use super::workers::{Workers, spawn};
use crate::clock::Moment;
use crate::signal::{Ended, Signal};
use crate::watch::Watches;

/// The end of the handle.
#[derive(Debug, Clone, Copy)]
struct Reaped {
    at: Instant,
    /// The server has said that the session is closed.
    confirmed: bool,
}

/// A connection. Cheap to hold on to: the handle itself goes when the reaper has closed it.
pub(crate) struct Connection {
    address: SocketAddr,
    chroot: String,
    acl: Vec<Acl>,
    /// The instant before the connect.
    begun: Moment,
    death: Arc<Death>,
    handle: Mutex<Option<Arc<ZooKeeper>>>,
    /// Ready when the crate's event thread is gone: it follows the I/O thread, or has come across an
    /// event that it could not read.
    crate_ended: Ended,
    vitals: Mutex<Vitals>,
    tenancy: Tenancy,
    reaped: Mutex<Option<Reaped>>,
    workers: Arc<Workers>,
    watches: Arc<Watches>,
    /// A worker is at the garbage list.
    sweeping: AtomicBool,
    /// Wakes the pulse thread.
    pub(crate) pulse: Alarm,
    requests: AtomicU64,
    /// From here on it is retired.
    most_requests: u64,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("address", &self.address)
            .field("dead", &self.is_dead())
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Opens a handle to one address, whose server negotiates exactly `timeout`. Returns without
    /// an answer from the server; the first request proves the connection.
    pub(crate) fn open(
        address: SocketAddr,
        timeout: Duration,
        config: &Config,
    ) -> Result<Arc<Connection>, String> {
        let begun = Moment::now();
        let watches = Arc::new(Watches::default());
        let events = Arc::clone(&watches);
        let crate_alive = Signal::new();
        let crate_ended = crate_alive.ended().clone();
        let on_event = move |event: WatchedEvent| {
            let _dropped_with_this_closure = &crate_alive;
            // A panic here would kill the crate's event thread, then its I/O thread.
            let _ = catch_unwind(AssertUnwindSafe(|| events.dispatch(&event)));
        };
        // The crate panics where a socket cannot be made.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            ZooKeeper::connect(&address.to_string(), timeout, on_event)
        }));
        let handle = match opened {
            Ok(Ok(handle)) => handle,
            Ok(Err(error)) => return Err(format!("failed to connect: {error}")),
            Err(_) => return Err("failed to open a socket".to_owned()),
        };
        let death = Arc::new(Death::new(address, timeout));
        let listener = Arc::clone(&death);
        handle.add_listener(move |state| listener.on_state(state));
        death.await_start();
        Ok(Arc::new(Connection {
            address,
            chroot: config.hosts.chroot.clone(),
            acl: config.acl.clone(),
            begun,
            death,
            handle: Mutex::new(Some(Arc::new(handle))),
            crate_ended,
            vitals: Mutex::new(Vitals::new(Lease::new(timeout, begun, begun.monotonic))),
            tenancy: Tenancy::new(),
            reaped: Mutex::new(None),
            workers: Arc::new(Workers::new()),
            watches,
            sweeping: AtomicBool::new(false),
            pulse: Alarm::new(),
            requests: AtomicU64::new(0),
            most_requests: config.most_requests,
        }))
    }

    /// The connection has proved itself: the lease runs, from the instant before the connect.
    pub(crate) fn proved(&self) {
        let lease = Lease::new(self.timeout(), self.begun, Instant::now());
        self.vitals.lock().connected(lease);
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn chroot(&self) -> &str {
        &self.chroot
    }

    /// What new nodes are made with.
    pub(crate) fn acl(&self) -> &[Acl] {
        &self.acl
    }

    /// The session timeout.
    pub(crate) fn timeout(&self) -> Duration {
        self.vitals.lock().lease().timeout()
    }

    pub(crate) fn watches(&self) -> &Arc<Watches> {
        &self.watches
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    // ---- death

    pub(crate) fn kill(&self, cause: Cause) {
        self.death.kill(cause);
    }

    /// An answer belonged to another request.
    pub(crate) fn mixed_up(&self) {
        self.kill(Cause::Malformed);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.death.is_dead()
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        self.death.cause()
    }

    pub(crate) fn died(&self) -> &Ended {
        self.death.died()
    }

    /// Ends what lives with the connection: queued jobs, idle workers, the pulse.
    pub(crate) fn dismiss(&self) {
        self.workers.stop();
        self.pulse.ring();
    }

    // ---- lease and signs of life

    /// The lease's term and what is left of it.
    pub(crate) fn lease(&self, now: Moment) -> (u64, Duration) {
        let vitals = self.vitals.lock();
        (vitals.lease().term(), vitals.lease().remaining(now))
    }

    pub(crate) fn next_pulse(&self) -> Pulse {
        let held = self.tenancy.held() > 0;
        self.vitals.lock().pulse(Instant::now(), held)
    }

    /// When the pulse thread has work to do for a hold that begins now.
    pub(crate) fn keep_due(&self) -> Instant {
        let vitals = self.vitals.lock();
        let watch = Instant::now() + vitals.lease().step();
        vitals.lease().write_due().min(watch)
    }

    /// Looks for an answer that is overdue, and kills the connection if there is one. `pressed`
    /// is what is left of the shortest lease that waits to move here. Returns when to look again.
    pub(crate) fn examine(&self, now: Instant, pressed: Option<Duration>) -> Instant {
        let held = self.tenancy.held() > 0;
        let requests = self.requests();
        let patient = self.tenancy.is_pinned() && requests < REQUESTS_HARD;
        if requests >= self.most_requests && !patient {
            self.kill(Cause::WornOut);
        }
        let verdict = self.vitals.lock().verdict(now, held, pressed);
        match verdict {
            Verdict::Alive(again) => again,
            Verdict::Silent(age) => {
                self.kill(Cause::Silent(age));
                now
            }
        }
    }

    /// Who lives here.
    pub(super) fn tenancy(&self) -> &Tenancy {
        &self.tenancy
    }

    // ---- working off the garbage list

    /// One sweep at a time: false if one is under way. To be ended by [`Connection::swept`].
    #[must_use]
    pub(super) fn start_sweep(&self) -> bool {
        !self.sweeping.swap(true, Ordering::SeqCst)
    }

    pub(super) fn swept(&self) {
        self.sweeping.store(false, Ordering::SeqCst);
    }

    pub(super) fn is_sweeping(&self) -> bool {
        self.sweeping.load(Ordering::SeqCst)
    }

    // ---- the handle's end (for the reaper)

    /// Takes the handle out, for closing. To be dropped on a thread that may block.
    pub(crate) fn take_handle(&self) -> Option<Arc<ZooKeeper>> {
        self.handle.lock().take()
    }

    /// Lets the crate reconnect, for closing.
    pub(crate) fn let_go(&self) {
        self.death.let_go();
    }

    /// Ready when the crate's threads have ended, or the one that hands out events.
    pub(super) fn crate_ended(&self) -> &Ended {
        &self.crate_ended
    }

    pub(crate) fn mark_reaped(&self, confirmed: bool) {
        let at = Instant::now();
        *self.reaped.lock() = Some(Reaped { at, confirmed });
    }

    /// Is the session certainly over, so that its nodes are gone and nothing sent on it can still
    /// come to be? If the server said so; or twice its timeout after its handle was reaped, since
    /// nothing has kept it alive.
    pub(crate) fn is_over(&self) -> bool {
        let reaped = *self.reaped.lock();
        reaped.is_some_and(|reaped| reaped.confirmed || reaped.at.elapsed() >= self.timeout() * 2)
    }

    // ---- requests

    /// Runs `step`, which may be several requests, on a worker thread and waits for its result.
    pub(crate) fn call<R: Send + 'static>(
        self: &Arc<Self>,
        until: &Until,
        step: impl FnOnce(&Wire<'_>) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, Failure> {
        let (sender, answer) = bounded(1);
        self.run(move |wire| {
            // Nobody may be waiting any more; who owns the result is decided elsewhere.
            let _ = sender.send(step(wire));
        });
        select_biased! {
            recv(answer) -> result => result.unwrap_or(Err(Failure::Dead)),
            recv(self.died()) -> _ => answer.try_recv().unwrap_or(Err(Failure::Dead)),
            recv(until.cancelled) -> _ => Err(Failure::Cancelled),
            recv(until.expiry()) -> _ => Err(Failure::Deadline),
        }
    }

    /// Runs `step` on a worker thread; nobody waits. On a dead connection it is dropped.
    pub(crate) fn run(self: &Arc<Self>, step: impl FnOnce(&Wire<'_>) + Send + 'static) {
        let connection = Arc::clone(self);
        let grow = self.workers.submit(Box::new(move || connection.step(step).unwrap_or(())));
        let workers = Arc::clone(&self.workers);
        if grow && spawn("worker", move || workers.work()).is_err() {
            self.kill(Cause::NoThread);
        }
    }

    /// Runs `step` on this thread, which may block for as long as the server is silent.
    pub(crate) fn step<R>(&self, step: impl FnOnce(&Wire<'_>) -> R) -> Option<R> {
        let handle = self.handle.lock().clone()?;
        let wire = Wire::new(self, &handle);
        // A malformed answer panics in the crate.
        match catch_unwind(AssertUnwindSafe(|| step(&wire))) {
            Ok(result) => Some(result),
            Err(_) => {
                self.kill(Cause::Malformed);
                warn!(target: "zoolock::session", "a malformed answer from {}", self.address);
                None
            }
        }
    }

    /// For [`Wire`]: a request goes out. None if the connection is dead.
    pub(super) fn sending(&self, write: bool) -> Option<u64> {
        if self.is_dead() {
            return None;
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        Some(self.vitals.lock().sending(Moment::now(), write))
    }

    /// For [`Wire`]: it was answered. False if the connection died meanwhile, which makes the
    /// answer worthless: the crate may have got it on another session.
    pub(super) fn answered(&self, number: u64, proof: Option<Proof>) -> bool {
        let proof = proof.filter(|_| !self.is_dead());
        self.vitals.lock().answered(number, Moment::now(), proof);
        !self.is_dead()
    }
}

#[cfg(test)]
mod tests;
