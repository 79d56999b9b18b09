//! One process that hands out orders: several threads that share one lock object.

use std::error::Error;
use std::fs;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use zoolock::{Client, DistributedReentrantLock};

use crate::Outcome;
use crate::books::{Books, Entry, Witness};
use crate::message::Message;

const LOCK: &str = "/zoolock-examples/order_ids";
/// How long the servers keep the lock of a killed process. Servers may make this longer: they grant
/// two ticks at least, 4 s by default.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(3);
/// The interval, in acquisitions, at which a thread only tries to lock, and gives up if the lock is
/// taken.
const TRY_EVERY: u64 = 4;

/// The office's orders to a clerk.
#[derive(Debug, Clone, Args)]
pub(crate) struct Job {
    #[arg(long)]
    pub(crate) number: u64,
    #[arg(long)]
    pub(crate) threads: u64,
    #[arg(long)]
    pub(crate) orders: u64,
    #[arg(long)]
    pub(crate) connect: String,
    #[arg(long)]
    pub(crate) folder: PathBuf,
    /// From this order on, the clerk holds the lock and does nothing.
    #[arg(long)]
    pub(crate) stop_at: Option<u64>,
    #[arg(long)]
    pub(crate) without_lock: bool,
    /// The socket of the office's reaper.
    #[arg(long)]
    pub(crate) reaper: Option<PathBuf>,
}

/// Runs a clerk's process.
pub(crate) fn run(job: &Job) -> Outcome<()> {
    let begin = listen_to_the_office(&job.folder);
    let mut settings = Client::builder(&job.connect).session_timeout(SESSION_TIMEOUT);
    if let Some(socket) = &job.reaper {
        settings = settings.reaper(socket);
    }
    let client = settings.connect()?;
    let lock = DistributedReentrantLock::new(&client, LOCK)?;
    Message::Ready.send();
    begin.recv()?;
    let lock = &lock;
    thread::scope(|scope| {
        let start = |thread| scope.spawn(move || Clerk::new(job, lock, thread)?.work());
        let threads: Vec<_> = (1..=job.threads).map(start).collect();
        let mut outcomes = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => Err("a thread panicked".into()),
        });
        outcomes.try_for_each(|outcome| outcome)
    })?;
    Ok(client.close()?)
}

/// Returns a channel that receives a message when the clerk may begin: at the first line from the
/// office. If the input ends, the office has ended, for whatever reason. Then this cleans up and
/// ends the process, because no other process would.
fn listen_to_the_office(folder: &Path) -> Receiver<()> {
    let (sender, begin) = mpsc::channel();
    let folder = folder.to_owned();
    thread::spawn(move || {
        for _ in io::stdin().lock().lines().map_while(Result::ok) {
            let _ = sender.send(());
        }
        let _ = fs::remove_dir_all(folder);
        process::exit(1);
    });
    begin
}

/// One thread of the process.
struct Clerk<'a> {
    job: &'a Job,
    lock: &'a DistributedReentrantLock,
    thread: u64,
    books: Books,
    witness: Witness,
}

impl<'a> Clerk<'a> {
    fn new(job: &'a Job, lock: &'a DistributedReentrantLock, thread: u64) -> io::Result<Self> {
        Ok(Clerk {
            job,
            lock,
            thread,
            books: Books::open(&job.folder)?,
            witness: Witness::open(&job.folder)?,
        })
    }

    fn work(&self) -> Outcome<()> {
        for turn in 0.. {
            match self.turn(turn) {
                Ok(true) => {}
                Ok(false) => break,
                // A failed attempt leaves nothing behind. The next attempt simply starts anew.
                Err(error) if is_passing(&*error) || self.job.without_lock => {
                    Message::Trouble(error.to_string()).send()
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Acquires the lock once and hands out orders. Returns false when all orders are handed out.
    fn turn(&self, turn: u64) -> Outcome<bool> {
        if self.job.without_lock {
            return self.serve(0, |entry| self.hand_out(entry));
        }
        let begun = Instant::now();
        let only_tries = (turn + self.thread).is_multiple_of(TRY_EVERY);
        let guard = if only_tries { self.lock.try_acquire()? } else { Some(self.lock.acquire()?) };
        let Some(guard) = guard else {
            Message::Refused.send();
            return Ok(true);
        };
        let waited = (!only_tries).then(|| begun.elapsed());
        let token = guard.fencing_token();
        Message::Granted { token, waited }.send();
        let more = self.serve(token, |entry| self.record(entry))?;
        // Dropping the guard would also release the lock, but would only log a loss.
        guard.release()?;
        Ok(more)
    }

    fn serve(&self, token: u64, record: impl Fn(&Entry) -> Outcome<()>) -> Outcome<bool> {
        let watch = self.witness.look()?;
        let order = self.books.next()?;
        if self.job.stop_at.is_some_and(|stop| order >= stop) {
            hold_for_ever(token);
        }
        if order > self.job.orders {
            return Ok(false);
        }
        let (process, thread, alone) = (self.job.number, self.thread, watch.is_alone());
        record(&Entry { order, process, thread, token, alone })?;
        Ok(true)
    }

    /// Records an order under the lock, whether or not the caller holds it. Re-entry costs no
    /// request, and fails if the lock was lost.
    fn record(&self, entry: &Entry) -> Outcome<()> {
        let guard = self.lock.acquire()?;
        self.hand_out(entry)?;
        Ok(guard.release()?)
    }

    fn hand_out(&self, entry: &Entry) -> Outcome<()> {
        self.books.hand_out(entry)?;
        let depth = self.lock.hold_count();
        Message::Ordered { depth }.send();
        Ok(())
    }
}

/// Holds the lock until the office kills this process, which has read the number but not written
/// anything.
fn hold_for_ever(token: u64) -> ! {
    Message::Holding { token }.send();
    loop {
        thread::park();
    }
}

/// Returns whether the next attempt may succeed: after a lost lock or a broken connection, because
/// the client reconnects by itself.
fn is_passing(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    let error = error.downcast_ref::<zoolock::Error>();
    error.is_some_and(|error| error.is_lost() || error.is_retryable())
}
