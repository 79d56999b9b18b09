//! `ClientBuilder::observer`: it hears of each call and each hold once.

mod calling_back;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::observer::{Acquired, Ended, LockKind, NotAcquired, Observer, Outcome, Reason};
use zoolock::{Client, DistributedLock, DistributedSemaphore, Error, LockOptions, LossReason};
use zoolock_test_support::{connect_string, fresh_path, shared_probe, wait_until};

use common::{
    Ask, BRIEFLY, Object, SESSION, SOON, Subject, Task, await_nodes, client, connected,
    delete_node, every_subject, every_subject_that, hold_of, lock_of, warnings_with_keys,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Acquired,
    Busy,
    TimedOut,
    Cancelled,
    Failed,
    Released,
    Lost(LossReason),
}

use What::{Busy, Cancelled, Failed, Released, TimedOut};

#[derive(Debug, Clone)]
struct Told {
    lock: LockKind,
    name: String,
    what: What,
    /// How long the call waited or the hold lasted.
    time: Duration,
    queue: Option<usize>,
}

/// Records all reports.
#[derive(Debug, Clone, Default)]
struct Notes(Arc<Mutex<Vec<Told>>>);

impl Observer for Notes {
    fn acquired(&self, call: &Acquired<'_>) {
        self.add(call.lock, call.name, What::Acquired, call.waited, call.queue);
    }

    fn not_acquired(&self, call: &NotAcquired<'_>) {
        let what = match call.reason {
            Reason::Busy => Busy,
            Reason::TimedOut => TimedOut,
            Reason::Cancelled => Cancelled,
            _ => Failed,
        };
        self.add(call.lock, call.name, what, call.waited, call.queue);
    }

    fn ended(&self, hold: &Ended<'_>) {
        let what = match hold.outcome {
            Outcome::Lost(reason) => What::Lost(reason),
            _ => Released,
        };
        self.add(hold.lock, hold.name, what, hold.held, None);
    }
}

impl Notes {
    fn add(&self, lock: LockKind, name: &str, what: What, time: Duration, queue: Option<usize>) {
        let name = name.to_owned();
        self.0.lock().unwrap().push(Told { lock, name, what, time, queue });
    }

    /// Takes all reports since the last call.
    fn take(&self) -> Vec<Told> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn count(&self, is_it: impl Fn(&Told) -> bool) -> usize {
        self.0.lock().unwrap().iter().filter(|told| is_it(told)).count()
    }

    /// Takes the reports since the last call, and expects these, with this name.
    #[track_caller]
    fn were(&self, name: &str, expected: &[What]) -> Vec<Told> {
        let told = self.take();
        println!("{name}: {told:?}");
        let whats: Vec<_> = told.iter().map(|told| told.what).collect();
        assert_eq!(whats, expected, "{name}");
        assert!(told.iter().all(|told| told.name == name), "{told:?}");
        told
    }

    fn await_count(&self, count: usize) {
        wait_until("it is told", SOON, || self.count(|_| true) >= count);
    }
}

fn observed_by(observer: impl Observer + 'static) -> Client {
    let builder = Client::builder(&connect_string()).session_timeout(SESSION);
    connected(builder.observer(observer))
}

/// An observed client, and an object named after its subject.
fn observed(subject: Subject, path: &str) -> (Notes, Client, Object) {
    let notes = Notes::default();
    let client = observed_by(notes.clone());
    let object = subject.with(&client, path, LockOptions::new().name(subject.name));
    (notes, client, object)
}

/// The kind that the observer should report.
fn kind_of(subject: Subject) -> LockKind {
    match subject.name.split(',').next().unwrap() {
        "exclusive" | "several" => LockKind::Exclusive,
        "reentrant" => LockKind::Reentrant,
        "write" => LockKind::Write,
        "read" => LockKind::Read,
        "single node" => LockKind::Ephemeral,
        "permit" => LockKind::Semaphore,
        other => panic!("what is {other}?"),
    }
}

/// The same report `count` times.
fn times(what: What, count: usize) -> Vec<What> {
    vec![what; count]
}

#[test]
fn observer_gets_the_times_of_each_hold() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let (notes, _client, object) = observed(subject, &fresh_path("turn-told"));
        let each = subject.nodes_of_one();
        let expected = [times(What::Acquired, each), times(Released, each)].concat();
        for round in 0..3 {
            let begun = Instant::now();
            let (is_in, held) = match round {
                0 => {
                    object.lock().unwrap();
                    let is_in = Instant::now();
                    thread::sleep(Duration::from_millis(5));
                    let held = is_in.elapsed();
                    object.unlock().unwrap();
                    (is_in, held)
                }
                _ => {
                    let ask = if round == 1 { Ask::Try } else { Ask::For(SOON) };
                    let guard = object.guard(ask).unwrap().unwrap();
                    let is_in = Instant::now();
                    guard.release().unwrap();
                    (is_in, Duration::ZERO)
                }
            };
            let (took, waited) = (begun.elapsed(), is_in - begun);
            let told = notes.were(subject.name, &expected);
            for told in told {
                assert_eq!(told.lock, kind_of(subject));
                match told.what {
                    What::Acquired => assert!(told.time <= waited, "{told:?} of {waited:?}"),
                    _ => assert!((held..=took).contains(&told.time), "{told:?}, {held:?}"),
                }
                assert!(matches!(told.queue, None | Some(0)), "{told:?}");
            }
        }
    });
}

#[test]
fn observer_hears_why_a_call_failed_and_how_many_were_ahead() {
    every_subject(|subject| {
        let path = fresh_path("not-acquired");
        let (notes, client, object) = observed(subject, &path);
        let others = common::client();
        let rival = subject.rival(&others, &path);
        rival.lock().unwrap();
        assert!(!object.try_lock().unwrap());
        // A try for permits does not queue.
        let ahead = (kind_of(subject) != LockKind::Semaphore).then_some(1);
        assert_eq!(notes.were(subject.name, &[Busy])[0].queue, ahead);

        let begun = Instant::now();
        assert!(!object.try_lock_for(BRIEFLY).unwrap());
        let took = begun.elapsed();
        let told = &notes.were(subject.name, &[TimedOut])[0];
        // The deadline was computed before the call began.
        assert!((BRIEFLY / 2..=took).contains(&told.time), "{told:?} of {took:?}");
        assert!(told.queue.is_some() && (ahead.is_none() || told.queue == ahead), "{told:?}");

        // The failed call's node is deleted in the background.
        subject.await_nodes(&path, subject.nodes_of_one());
        let waiting = object.clone();
        let waiting = Task::spawn(move || waiting.lock());
        subject.await_waiting(&path, &[&client], 1);
        object.cancel_waiters();
        let cancelled = waiting.result("the call that waits");
        assert!(matches!(cancelled, Err(Error::Cancelled { .. })), "{cancelled:?}");
        notes.were(subject.name, &[Cancelled]);

        client.close().unwrap();
        assert!(matches!(object.lock(), Err(Error::Closed)));
        assert!(matches!(object.try_lock(), Err(Error::Closed)));
        notes.were(subject.name, &[Failed, Failed]);
        rival.unlock().unwrap();
    });
}

#[test]
fn observer_hears_of_each_loss_once_without_an_unlock() {
    every_subject(|subject| {
        let path = fresh_path("loss-told");
        let (notes, client, object) = observed(subject, &path);
        object.lock().unwrap();
        notes.were(subject.name, &times(What::Acquired, subject.nodes_of_one()));
        let hold = object.hold();
        // From here on the client watches the node.
        let _asked = hold.revocation().unwrap();
        shared_probe().unwrap().delete(&subject.node_of(&hold)).unwrap();
        notes.await_count(1);
        notes.were(subject.name, &[What::Lost(LossReason::NodeDeleted)]);
        assert!(object.unlock().is_err());
        // The other members of a multi-lock were released as usual.
        notes.were(subject.name, &times(Released, subject.nodes_of_one() - 1));
        assert_eq!(client.stats().holds_lost, 1);

        // Nobody watches this node, so only an unlock that waits for its answer notices the deletion.
        if subject.goes_with_its_unlock() {
            object.lock().unwrap();
            notes.take();
            shared_probe().unwrap().delete(&subject.node_of(&object.hold())).unwrap();
            let ends = object.unlock().is_err();
            assert_eq!(ends, !subject.releases_in_the_background());
            let mut told = notes.take();
            println!("{}: {told:?}", subject.name);
            assert_eq!(told.len(), subject.nodes_of_one());
            told.retain(|told| told.what == What::Lost(LossReason::NodeDeleted));
            assert_eq!(told.len(), usize::from(ends));
            // The loss counts even for an unlock that does not wait for the answer.
            wait_until("the loss is counted", SOON, || client.stats().holds_lost == 2);
        }

        object.lock().unwrap();
        notes.take();
        client.close().unwrap();
        let lost = times(What::Lost(LossReason::ClientClosed), subject.nodes_of_one());
        notes.await_count(lost.len());
        assert!(object.unlock().is_err());
        notes.were(subject.name, &lost);
    });
}

#[test]
fn log_line_of_a_loss_has_the_lock_and_the_reason_as_keys() {
    let (client, path) = (client(), fresh_path("loss-keys"));
    warnings_with_keys(&path);
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    delete_node(&hold_of(&lock));
    assert!(lock.unlock().is_err());
    let mut lines = Vec::new();
    wait_until("it is logged", SOON, || {
        lines = warnings_with_keys(&path);
        !lines.is_empty()
    });
    println!("{lines:?}");
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let keys = vec![pair("lock", &path), pair("reason", "its node was deleted")];
    assert_eq!(lines, [(format!("ERROR lock {path} was lost: its node was deleted"), keys)]);
}

#[test]
fn observer_hears_nothing_of_a_nested_entry() {
    every_subject_that(Subject::is_a_threads, |subject| {
        let (notes, _client, object) = observed(subject, &fresh_path("entered-again"));
        for round in 0..3 {
            let locked = if round == 1 { object.try_lock() } else { object.lock().map(|()| true) };
            assert!(locked.unwrap());
        }
        notes.were(subject.name, &[What::Acquired]);
        object.unlock().unwrap();
        object.unlock().unwrap();
        notes.were(subject.name, &[]);
        object.unlock().unwrap();
        notes.were(subject.name, &[Released]);
    });
}

#[test]
fn observer_hears_of_every_thread_in_a_local_handoff() {
    const THREADS: usize = 4;
    const TURNS: usize = 25;
    every_subject_that(Subject::has_a_first_level, |subject| {
        let (notes, _client, object) = observed(subject, &fresh_path("left-told"));
        let turns = |object: Object| {
            Task::spawn(move || {
                for _ in 0..TURNS {
                    object.guard(Ask::Wait).unwrap().unwrap().release().unwrap();
                }
            })
        };
        let threads = [(); THREADS].map(|()| turns(object.clone()));
        threads.iter().for_each(|thread| thread.result("a thread"));
        let told = notes.take();
        let count = |what| told.iter().filter(|told| told.what == what).count();
        let left = told.iter().filter(|told| told.what == What::Acquired && told.queue.is_none());
        println!("{}: {} told, {} left", subject.name, told.len(), left.count());
        assert_eq!((count(What::Acquired), count(Released)), (THREADS * TURNS, THREADS * TURNS));
        assert_eq!(told.len(), 2 * THREADS * TURNS);
    });
}

#[test]
fn observer_hears_how_many_were_ahead_of_a_waiter() {
    let (path, others) = (fresh_path("queue-told"), client());
    let holder = DistributedLock::new(&others, &path).unwrap().acquire().unwrap();
    let notes = Notes::default();
    let waiters: Vec<_> = (1..=4)
        .map(|number| {
            let observed = observed_by(notes.clone());
            let options = LockOptions::new().name(number.to_string());
            let lock = DistributedLock::with_options(&observed, &path, options).unwrap();
            let waiter = Task::spawn_blocked(move || lock.acquire()?.release());
            await_nodes(&path, number + 1);
            waiter
        })
        .collect();
    holder.release().unwrap();
    waiters.iter().for_each(|waiter| waiter.result("a waiter").unwrap());
    let acquired = notes.take().into_iter().filter(|told| told.what == What::Acquired);
    let ahead: Vec<_> = acquired.map(|told| (told.name, told.queue)).collect();
    println!("{ahead:?}");
    let expected: Vec<_> = (1..=4).map(|number| (number.to_string(), Some(number))).collect();
    assert_eq!(ahead, expected);
}

#[test]
fn observer_counts_permits_taken_together_as_one_hold() {
    let notes = Notes::default();
    let client = observed_by(notes.clone());
    let options = LockOptions::new().name("licences");
    let semaphore =
        DistributedSemaphore::with_options(&client, fresh_path("permits-told"), 5, options);
    let semaphore = semaphore.unwrap();
    let three = semaphore.acquire(3).unwrap();
    let two = semaphore.try_acquire(2).unwrap().unwrap();
    notes.were("licences", &[What::Acquired, What::Acquired]);
    assert!(semaphore.try_acquire(1).unwrap().is_none());
    assert!(semaphore.try_acquire_for(1, BRIEFLY).unwrap().is_none());
    assert!(semaphore.acquire(6).is_err());
    notes.were("licences", &[Busy, TimedOut, Failed]);
    three.release().unwrap();
    drop(two);
    notes.were("licences", &[Released, Released]);
}
