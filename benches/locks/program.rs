//! A program that is measured: the lines that it reads, and its answers.
//!
//! The arguments are the address of a server and a name. The program first prints `ok`. It answers
//! each line with `ok` and the answer in the table, or with `error` and a reason. It ends with its
//! input.
//!
//! | line | what it does | answer |
//! |---|---|---|
//! | `sessions N` | opens N sessions, which replace earlier ones | |
//! | `bench WHAT T SECONDS P` | T threads of each session repeat WHAT at path P, for so many seconds | times |
//! | `version` | (programs in other languages) | the versions of the client and of its language |
//! | `requests` | | requests of all sessions so far, if the client counts them |
//! | `hold P` | takes the lock at P, in a new session | |
//! | `waiters N P` | starts N threads with a lock object each, which are parked | |
//! | `queue` | starts these threads: each locks and unlocks once | |
//! | `release` | unlocks the lock of `hold`, and waits for the threads | times, from one grant to the next |
//!
//! WHAT is `own`: each thread locks and unlocks at its own path below P; `new`: the same, at a path below P that was
//! never used; `one`: the same at P itself, with one lock object for each session; `object`: the same at P, with a lock
//! object for each acquisition; `try`: a `try_lock` that must fail; or `read-write`: nine reads and a write. Times are
//! in nanoseconds: the time of all operations; then how many each thread has done, with commas between, or `-`; then
//! the time of each operation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, LazyLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use zoolock_interop::read_lines;

use crate::session::{Exclusive, Outcome, Session, Side};

/// The stack of a thread: enough for a call, and little enough for a thousand threads.
const STACK: usize = 256 * 1024;
/// The number of never-used paths so far. Another process begins elsewhere.
static PATHS: LazyLock<AtomicU64> =
    LazyLock::new(|| AtomicU64::new(u64::from(std::process::id()) << 32));
/// One in this number of operations on a read-write lock is a write.
const WRITE_EACH: usize = 10;

/// Opens a session.
pub(crate) type Connect = Box<dyn Fn() -> Outcome<Box<dyn Session>>>;

/// Carries out the lines until the input ends.
pub(crate) fn serve(connect: Connect) {
    let lines = read_lines();
    println!("ok");
    let mut program = Program { connect, sessions: Vec::new(), held: None, queue: None };
    for line in lines {
        match program.obey(&line) {
            Ok(text) => println!("ok {text}"),
            Err(error) => println!("error {}", error.to_string().replace('\n', " ")),
        }
    }
}

struct Program {
    connect: Connect,
    sessions: Vec<Box<dyn Session>>,
    held: Option<(Box<dyn Session>, Box<dyn Exclusive>)>,
    queue: Option<Queue>,
}

struct Queue {
    gate: Arc<Barrier>,
    waiters: Vec<JoinHandle<Outcome<Instant>>>,
}

impl Program {
    fn obey(&mut self, line: &str) -> Outcome<String> {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["sessions", count] => self.open(count.parse()?)?,
            ["bench", what, threads, seconds, path] => {
                let time = Duration::from_secs_f64(seconds.parse()?);
                return self.bench(what, threads.parse()?, time, path);
            }
            ["requests"] => {
                let counts = self.sessions.iter().map(|session| session.requests());
                let sum: Option<u64> = counts.sum();
                return Ok(sum.map_or(String::new(), |sum| sum.to_string()));
            }
            ["hold", path] => {
                let session = (self.connect)()?;
                let lock = session.lock(path, Side::Mutex)?;
                lock.lock()?;
                self.held = Some((session, lock));
            }
            ["waiters", count, path] => self.queue = Some(self.waiters(count.parse()?, path)?),
            ["queue"] => {
                let queue = self.queue.as_ref().ok_or("there are no waiters")?;
                queue.gate.wait();
            }
            ["release"] => return self.release(),
            _ => return Err(format!("not a command: {line}").into()),
        }
        Ok(String::new())
    }

    fn open(&mut self, count: usize) -> Outcome<()> {
        self.sessions.truncate(count);
        while self.sessions.len() < count {
            self.sessions.push((self.connect)()?);
        }
        Ok(())
    }

    fn bench(&self, what: &str, threads: usize, time: Duration, path: &str) -> Outcome<String> {
        let mut steps: Vec<Step<'_>> = Vec::new();
        for (number, session) in self.sessions.iter().enumerate() {
            steps.extend(self.steps(session.as_ref(), number, what, threads, path)?);
        }
        let together = Barrier::new(steps.len());
        let runs: Vec<Outcome<Run>> = thread::scope(|scope| {
            let start = |step| {
                let together = &together;
                scope.spawn(move || {
                    together.wait();
                    run(step, time)
                })
            };
            let threads: Vec<_> = steps.into_iter().map(start).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|run| run.map_err(|_| "a thread panicked")?).collect()
        });
        let runs = runs.into_iter().collect::<Outcome<Vec<Run>>>()?;
        let begun = runs.iter().map(|run| run.begun).min().ok_or("no thread")?;
        let ended = runs.iter().map(|run| run.ended).max().ok_or("no thread")?;
        let counts: Vec<_> = runs.iter().map(|run| run.times.len().to_string()).collect();
        let all = runs.into_iter().flat_map(|run| run.times);
        Ok(times(ended - begun, &counts.join(","), all))
    }

    /// Runs the work of one session's threads.
    fn steps<'s>(
        &self,
        session: &'s dyn Session,
        number: usize,
        what: &str,
        threads: usize,
        path: &'s str,
    ) -> Outcome<Vec<Step<'s>>> {
        let shared: Option<Arc<dyn Exclusive>> = match what {
            "one" | "try" => Some(session.lock(path, Side::Mutex)?.into()),
            _ => None,
        };
        let turn = |lock: &dyn Exclusive| lock.lock().and_then(|()| lock.unlock());
        let step = |thread: usize| -> Outcome<Step<'s>> {
            Ok(match (what, shared.clone()) {
                ("own", _) => {
                    let lock = session.lock(&format!("{path}/{number}-{thread}"), Side::Mutex)?;
                    Box::new(move |_| turn(&*lock))
                }
                ("new", _) => Box::new(move |_| {
                    let number = PATHS.fetch_add(1, Ordering::Relaxed);
                    turn(&*session.lock(&format!("{path}/{number}"), Side::Mutex)?)
                }),
                ("object", _) => Box::new(move |_| turn(&*session.lock(path, Side::Mutex)?)),
                ("one", Some(lock)) => Box::new(move |_| turn(&*lock)),
                ("try", Some(lock)) => Box::new(move |_| match lock.try_lock()? {
                    false => Ok(()),
                    true => Err("it was granted a lock that is held".into()),
                }),
                ("read-write", _) => {
                    let read = session.lock(path, Side::Read)?;
                    let write = session.lock(path, Side::Write)?;
                    // The threads must not all write at the same time.
                    let first = number * 7 + thread * 3;
                    Box::new(move |done| {
                        let writes = (first + done).is_multiple_of(WRITE_EACH);
                        turn(if writes { &*write } else { &*read })
                    })
                }
                _ => return Err(format!("there is no work called {what}").into()),
            })
        };
        (0..threads).map(step).collect()
    }

    fn waiters(&self, count: usize, path: &str) -> Outcome<Queue> {
        let session = self.sessions.first().ok_or("no session")?;
        let (gate, parked) = (Arc::new(Barrier::new(count + 1)), Arc::new(Barrier::new(count + 1)));
        let start = |_| -> Outcome<_> {
            let lock = session.lock(path, Side::Mutex)?;
            let (gate, parked) = (Arc::clone(&gate), Arc::clone(&parked));
            let wait = move || {
                parked.wait();
                gate.wait();
                lock.lock()?;
                let granted = Instant::now();
                lock.unlock().map(|()| granted)
            };
            Ok(thread::Builder::new().stack_size(STACK).spawn(wait)?)
        };
        let waiters = (0..count).map(start).collect::<Outcome<_>>()?;
        parked.wait();
        Ok(Queue { gate, waiters })
    }

    fn release(&mut self) -> Outcome<String> {
        let (_session, lock) = self.held.take().ok_or("nothing is held")?;
        let begun = Instant::now();
        lock.unlock()?;
        let mut grants = vec![begun];
        for waiter in self.queue.take().into_iter().flat_map(|queue| queue.waiters) {
            grants.push(waiter.join().map_err(|_| "a waiter panicked")??);
        }
        let all = begun.elapsed();
        grants.sort_unstable();
        let intervals = grants.windows(2).map(|pair| pair[1] - pair[0]);
        Ok(times(all, "-", intervals))
    }
}

/// One operation. Its argument is the number of operations that the thread has done.
type Step<'s> = Box<dyn FnMut(usize) -> Outcome<()> + Send + 's>;

struct Run {
    begun: Instant,
    ended: Instant,
    times: Vec<Duration>,
}

fn run(mut step: Step<'_>, time: Duration) -> Outcome<Run> {
    let begun = Instant::now();
    let (mut ended, mut times) = (begun, Vec::new());
    while ended - begun < time {
        step(times.len())?;
        let now = Instant::now();
        times.push(now - ended);
        ended = now;
    }
    Ok(Run { begun, ended, times })
}

fn times(all: Duration, counts: &str, each: impl Iterator<Item = Duration>) -> String {
    let nanos = |time: Duration| time.as_nanos().to_string();
    let words = [nanos(all), counts.to_owned()].into_iter().chain(each.map(nanos));
    words.collect::<Vec<_>>().join(" ")
}
