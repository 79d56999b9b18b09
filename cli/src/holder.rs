//! The thread that connects, waits for the lock, holds it and releases it.

use std::thread;
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select_biased};
use zoolock::{
    Client, ClientState, DistributedLock, DistributedRwLock, DistributedSemaphore, Error, Guard,
    Hold, Lock, LockGuard, Registration, Wait,
};

use nix::sys::signal::{SIGCONT, SIGTSTP, Signal, raise};

use crate::args::{Program, Run};
use crate::exit::{Failed, UNAVAILABLE, by_signal, start_thread};
use crate::notify;
use crate::output::say;
use crate::progress::{self, Reports};
use crate::signals::stop;

/// The grace, from TERM to the end of the lease, is the session timeout divided by this. While the
/// connection is healthy, what is left of the lease is never much less than half of the timeout. A
/// broken connection is usually back long before the grace begins, or not at all.
const GRACE: u32 = 10;

/// How long to wait before trying the servers again.
const RETRY: Duration = Duration::from_millis(100);

/// How long to wait until the servers confirm a release or the end of the session. If they do not, the
/// session expires later.
const PATIENCE: Duration = Duration::from_secs(5);

/// A lock that is held.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) hold: Hold,
    pub(crate) token: u64,
    /// The time that the program has between TERM and the end of the lease.
    pub(crate) grace: Duration,
    /// Ends the session when both zoolock and the program have ended.
    pub(crate) registration: Option<Registration>,
}

pub(crate) struct Holder {
    connected: Receiver<Result<Client, Failed>>,
    held: Receiver<Result<Held, Failed>>,
    /// Requests that the thread acquire the lock, and then that it release it.
    ask: Sender<()>,
    released: Receiver<zoolock::Result<()>>,
    client: Option<Client>,
}

impl Holder {
    pub(crate) fn start(run: Run) -> Result<Holder, Failed> {
        let ((say_connected, connected), (say_held, held)) = (bounded(0), bounded(0));
        let ((ask, asked), (say_released, released)) = (bounded(1), bounded(1));
        start_thread("zoolock-lock", move || {
            let from_now = |limit: Option<Duration>| Instant::now().checked_add(limit?);
            let mut deadline = from_now(run.wait_servers.or(limit(&run)));
            let (client, lock) = match connect(&run, deadline) {
                Ok(connected) => connected,
                Err(failed) => return drop(say_connected.send(Err(failed))),
            };
            if run.wait_servers.is_some() {
                deadline = from_now(limit(&run));
            }
            let grace = client.session_timeout() / GRACE;
            // After a signal, the main thread no longer waits for this message.
            let mut wanted = say_connected.send(Ok(client.clone())).is_ok();
            while wanted && asked.recv().is_ok() {
                wanted = match take(&run, &client, &lock, deadline) {
                    Ok((got, hold, token)) => {
                        let registration = client.registration();
                        let held = Held { hold, token, grace, registration };
                        let wanted = say_held.send(Ok(held)).is_ok() && asked.recv().is_ok();
                        // After a signal, the session may have been closed. Dropping the lock would
                        // then report a loss.
                        let released = got.release();
                        wanted && say_released.send(released).is_ok()
                    }
                    Err(failed) => say_held.send(Err(failed)).is_ok(),
                };
            }
        })?;
        Ok(Holder { connected, held, ask, released, client: None })
    }

    /// Waits for a connection, or for a signal, which ends the wait with a failure.
    pub(crate) fn connect(&mut self, signals: &Receiver<Signal>) -> Result<(), Failed> {
        self.client = Some(hear(&self.connected, signals)?);
        Ok(())
    }

    /// Waits for the lock and acquires it. A signal ends the wait with a failure. Call this only after
    /// the previous hold was released.
    pub(crate) fn take(&self, signals: &Receiver<Signal>) -> Result<Held, Failed> {
        let _ = self.ask.send(());
        hear(&self.held, signals)
    }

    /// Releases the lock, and reports a release that is late. Returns false if the outcome is unknown
    /// because the servers do not answer. The thread that acquired the lock releases it, because some
    /// locks belong to a thread.
    pub(crate) fn release(&self, path: &str) -> Result<bool, Failed> {
        // Discard the answer to an earlier release, if that answer came too late.
        self.released.try_iter().for_each(drop);
        let _ = self.ask.send(());
        let released = match self.released.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Timeout) => {
                say(&format!("{path}: the release is not confirmed: the servers do not answer"));
                return Ok(false);
            }
            Err(RecvTimeoutError::Disconnected) => Err(Error::Closed),
            Ok(released) => released,
        };
        match released {
            Err(error) if error.is_lost() => return Err(error.into()),
            Err(error) => say(&format!("{path}: the release is not confirmed: {error}")),
            Ok(()) => {}
        }
        Ok(true)
    }

    /// Leaves the queue or releases the lock: closes the session, and the servers delete its nodes.
    /// Without a connection, the session expires instead. Further signals do not shorten the wait,
    /// because signals often come in pairs: timeout(1) and service managers also send CONT.
    pub(crate) fn leave(mut self) {
        let Some(client) = self.client.take() else {
            return;
        };
        if client.state() != ClientState::Connected {
            return;
        }
        let (tell, closed) = bounded(1);
        let closing = client.clone();
        match start_thread("zoolock-close", move || drop(tell.send(closing.close()))) {
            Ok(()) => drop(closed.recv_timeout(PATIENCE)),
            // Without a thread, this may block for a session timeout.
            Err(_) => drop(client.close()),
        }
    }
}

/// Returns what the thread reports. A signal takes precedence.
fn hear<T>(said: &Receiver<Result<T, Failed>>, signals: &Receiver<Signal>) -> Result<T, Failed> {
    loop {
        select_biased! {
            recv(signals) -> signal => match signal {
                Ok(SIGTSTP) => stop(|| raise(SIGTSTP)),
                Ok(SIGCONT) | Err(_) => {}
                Ok(signal) => return Err(Failed::silent(by_signal(signal as i32))),
            },
            recv(said) -> said => return said.expect("the thread ends only when this end of the channel is dropped"),
        }
    }
}

/// Returns how long to wait for servers and for the lock, if there is a limit.
fn limit(run: &Run) -> Option<Duration> {
    run.wait.filter(|_| !nonblock(run))
}

fn nonblock(run: &Run) -> bool {
    run.nonblock || run.wait.is_some_and(|wait| wait.is_zero())
}

fn connect(run: &Run, deadline: Option<Instant>) -> Result<(Client, Wanted), Failed> {
    let Program { lock, verbose, .. } = &run.program;
    let client = reach(&run.program, deadline)?;
    if *verbose {
        progress::follow(&client, lock.path.clone());
    }
    let wanted = Wanted::at(&client, run)?;
    Ok((client, wanted))
}

/// Connects, and waits for servers until the deadline. Without a deadline it does not wait, so that
/// the user notices a wrong address.
fn reach(program: &Program, deadline: Option<Instant>) -> Result<Client, Failed> {
    let (mut told, mut before) = (false, None);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let failed = match program.connect(left) {
            Err(failed) if failed.code == UNAVAILABLE => failed,
            known => return known,
        };
        // An attempt with hardly any time left gets no answer in any case, so report the cause of
        // the attempt before it.
        let why = match before {
            Some(before) if left.is_some_and(|left| left < RETRY) => before,
            _ => failed,
        };
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let Some(left) = left.filter(|left| !left.is_zero()) else {
            return Err(why);
        };
        if program.verbose && !told {
            let text = why.text.as_deref().unwrap_or_default();
            say(&format!("{}: waiting for a server: {text}", program.lock.path));
            told = true;
        }
        before = Some(why);
        thread::sleep(RETRY.min(left));
    }
}

fn take<'a>(
    run: &Run,
    client: &Client,
    lock: &'a Wanted,
    deadline: Option<Instant>,
) -> Result<(Got<'a>, Hold, u64), Failed> {
    let (path, verbose, waited) = (&run.program.lock.path, run.program.verbose, Instant::now());
    let wait = match deadline {
        _ if nonblock(run) => Wait::TRY,
        Some(deadline) => Wait::until(deadline),
        None => Wait::FOREVER,
    };
    let is_reported = !wait.is_try() && (verbose || notify::is_heard());
    let reports = is_reported.then(|| Reports::start(client, path, verbose));
    let got = lock.take(wait)?;
    drop(reports);
    if verbose {
        let how = if got.is_some() { "acquired" } else { "not acquired" };
        say(&format!("{path}: {how} after {:.1?}", waited.elapsed()));
    }
    let got = got.ok_or_else(|| Failed::silent(run.conflict_exit_code))?;
    let hold = got.hold(path)?;
    let token = hold.fencing_token();
    Ok((got, hold, token))
}

/// The lock to acquire.
enum Wanted {
    One(Box<dyn Lock>),
    Permit(DistributedSemaphore, u32),
}

/// The lock or the permit, held.
enum Got<'a> {
    One(LockGuard<&'a dyn Lock>),
    Permit(Guard),
}

impl Wanted {
    fn at(client: &Client, run: &Run) -> zoolock::Result<Wanted> {
        let path = run.program.lock.path.as_str();
        Ok(match run.semaphore {
            Some(limit) => {
                let semaphore = DistributedSemaphore::new(client, path, limit)?;
                Wanted::Permit(semaphore, run.permits)
            }
            None if run.shared => {
                Wanted::One(DistributedRwLock::new(client, path)?.reader().into())
            }
            // To readers, the nodes of this lock are writers.
            None => Wanted::One(DistributedLock::new(client, path)?.into()),
        })
    }

    fn take(&self, wait: Wait) -> zoolock::Result<Option<Got<'_>>> {
        Ok(match self {
            Wanted::One(lock) => lock.acquire_within(wait)?.map(Got::One),
            Wanted::Permit(semaphore, count) => {
                semaphore.acquire_within(*count, wait)?.map(Got::Permit)
            }
        })
    }
}

impl Got<'_> {
    fn hold(&self, path: &str) -> zoolock::Result<Hold> {
        let mut holds = match self {
            Got::One(lock) => lock.holds(),
            Got::Permit(permits) => permits.holds(),
        };
        holds.pop().ok_or_else(|| Error::not_held(path))
    }

    fn release(self) -> zoolock::Result<()> {
        match self {
            Got::One(lock) => lock.release(),
            Got::Permit(permits) => permits.release(),
        }
    }
}
