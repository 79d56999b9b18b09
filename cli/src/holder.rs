//! The thread that connects, waits for the lock, holds it and lets it go.

use std::thread;
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{
    Receiver, RecvTimeoutError, Sender, after, bounded, select_biased,
};
use zoolock::{
    Client, ClientState, DistributedLock, DistributedRwLock, DistributedSemaphore, Error, Hold,
    Lock, LockOptions, Locker, Permits,
};

use nix::sys::signal::{SIGCONT, SIGTSTP, Signal, raise};

use crate::args::Run;
use crate::exit::{Failed, by_signal};
use crate::output::say;
use crate::progress;
use crate::signals::stop;

/// The part of the session timeout that is the grace. A connection that is well keeps nearly half of
/// it, and one that is not is back long before, or not at all.
const GRACE: u32 = 10;

/// How often to ask for the token again.
const RETRY: Duration = Duration::from_millis(100);

/// How long to wait for servers to take note of the end. They find out by themselves in the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was got.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) hold: Hold,
    pub(crate) token: u64,
    /// What the program has between TERM and the end of the lease.
    pub(crate) grace: Duration,
}

/// What the thread has to say.
enum Message {
    Connected(Client),
    Held(Held),
    Failed(Failed),
}

pub(crate) struct Holder {
    messages: Receiver<Message>,
    let_go: Sender<()>,
    released: Receiver<zoolock::Result<()>>,
    client: Option<Client>,
}

impl Holder {
    pub(crate) fn start(run: Run) -> Holder {
        // Nothing is begun that was not taken note of: a queue is not joined after a signal.
        let (tell, messages) = bounded(0);
        let (let_go, asked) = bounded(1);
        let (say_released, released) = bounded(1);
        thread::spawn(move || {
            if let Err(failed) = hold(&run, &tell, &asked, &say_released) {
                let _ = tell.send(Message::Failed(failed));
            }
        });
        Holder { messages, let_go, released, client: None }
    }

    /// Waits for the lock. A signal ends that, too.
    pub(crate) fn wait(&mut self, signals: &Receiver<Signal>) -> Result<Held, Failed> {
        loop {
            select_biased! {
                recv(signals) -> signal => match signal {
                    Ok(SIGTSTP) => stop(|| raise(SIGTSTP)),
                    Ok(SIGCONT) | Err(_) => {}
                    Ok(signal) => return Err(Failed::silent(by_signal(signal as i32))),
                },
                recv(self.messages) -> message => match message {
                    Ok(Message::Connected(client)) => self.client = Some(client),
                    Ok(Message::Held(held)) => return Ok(held),
                    Ok(Message::Failed(failed)) => return Err(failed),
                    Err(_) => panic!("the thread that waits has ended"),
                },
            }
        }
    }

    /// Lets the lock go and says how that went, if it is known soon. The thread that took it does it:
    /// some locks belong to it.
    pub(crate) fn release(&self) -> Option<zoolock::Result<()>> {
        let _ = self.let_go.send(());
        match self.released.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(Error::Closed)),
            Ok(released) => Some(released),
        }
    }

    /// Leaves the queue, or lets go, whichever it takes: ends the session, so that nothing of it is
    /// left on the servers. Without a connection they have to find out themselves. More signals do
    /// not hurry it, for they often come in twos: timeout(1) and service managers send CONT as well.
    pub(crate) fn leave(mut self) {
        let Some(client) = self.client.take() else {
            return;
        };
        if client.state() != ClientState::Connected {
            return;
        }
        let (tell, closed) = bounded(1);
        thread::spawn(move || tell.send(client.close()));
        let _ = closed.recv_timeout(PATIENCE);
    }
}

fn hold(
    run: &Run,
    tell: &Sender<Message>,
    asked: &Receiver<()>,
    released: &Sender<zoolock::Result<()>>,
) -> Result<(), Failed> {
    let begun = Instant::now();
    let nonblock = run.nonblock || run.wait.is_some_and(|wait| wait.is_zero());
    let within = run.wait.filter(|_| !nonblock);
    let client = run.lock.connect(within)?;
    let mut options = LockOptions::new();
    if run.verbose {
        options = progress::observed(options, run.lock.path.clone());
        progress::follow(&client, run.lock.path.clone());
    }
    let grace = client.session_timeout() / GRACE;
    let lock = Wanted::at(&client, run, options)?;
    if tell.send(Message::Connected(client)).is_err() {
        return Ok(());
    }
    // A deadline that the clock cannot hold is none.
    let deadline = within.and_then(|within| begun.checked_add(within));
    let got = lock.take(nonblock, deadline)?;
    if run.verbose {
        let how = if got.is_some() { "got it" } else { "not got" };
        say(&format!("{}: {how} after {:.1?}", run.lock.path, begun.elapsed()));
    }
    let Some(got) = got else {
        return Err(Failed::silent(run.conflict_exit_code));
    };
    let hold = got.hold(&run.lock.path)?;
    let token = token(&hold)?;
    let held = Held { hold, token, grace };
    if tell.send(Message::Held(held)).is_ok() {
        let _ = asked.recv();
        let _ = released.send(got.release());
    }
    Ok(())
}

/// The token, also if the connection breaks just now.
fn token(hold: &Hold) -> zoolock::Result<u64> {
    loop {
        match hold.fencing_token() {
            Err(error) if error.is_retryable() && hold.is_held() => select_biased! {
                recv(hold.lost()) -> _ => {}
                recv(after(RETRY)) -> _ => {}
            },
            answer => return answer,
        }
    }
}

/// The lock that is asked for.
enum Wanted {
    One(Box<dyn Lock>),
    Permit(DistributedSemaphore),
}

/// The same, held.
enum Got<'a> {
    One(Locker<'a, dyn Lock>),
    Permit(Permits),
}

impl Wanted {
    fn at(client: &Client, run: &Run, options: LockOptions) -> zoolock::Result<Wanted> {
        let path = run.lock.path.as_str();
        Ok(match run.semaphore {
            Some(limit) => {
                Wanted::Permit(DistributedSemaphore::with(client, path, limit, options)?)
            }
            None if run.shared => {
                let lock = DistributedRwLock::with(client, path, options)?;
                Wanted::One(lock.read_lock().into())
            }
            // Its nodes count as writers to those that read.
            None => Wanted::One(DistributedLock::with(client, path, options)?.into()),
        })
    }

    fn take(&self, nonblock: bool, deadline: Option<Instant>) -> zoolock::Result<Option<Got<'_>>> {
        Ok(match self {
            Wanted::One(lock) => match (nonblock, deadline) {
                (true, _) => lock.try_acquire()?,
                (false, Some(deadline)) => lock.try_acquire_until(deadline)?,
                (false, None) => Some(lock.acquire()?),
            }
            .map(Got::One),
            Wanted::Permit(semaphore) => match (nonblock, deadline) {
                (true, _) => semaphore.try_acquire(1)?,
                (false, Some(deadline)) => semaphore.try_acquire_until(1, deadline)?,
                (false, None) => Some(semaphore.acquire(1)?),
            }
            .map(Got::Permit),
        })
    }
}

impl Got<'_> {
    fn hold(&self, path: &str) -> zoolock::Result<Hold> {
        let mut holds = match self {
            Got::One(lock) => lock.holds(),
            Got::Permit(permits) => permits.holds(),
        };
        holds.pop().ok_or_else(|| Error::NotHeld { path: path.to_owned() })
    }

    fn release(self) -> zoolock::Result<()> {
        match self {
            Got::One(lock) => lock.release(),
            Got::Permit(permits) => permits.release(),
        }
    }
}
