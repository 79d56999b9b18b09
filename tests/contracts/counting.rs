//! `ClientBuilder::observer`: each call and each hold is told once, as what it was, with nothing locked; and
//! the counts are those that the server has.

use std::cell::Cell;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::observer::{Acquired, Ended, LockKind, NotAcquired, Observer, Outcome, Reason};
use zoolock::{
    Client, ClientState, DistributedLock, DistributedSemaphore, Error, LockOptions, LossReason,
};
use zoolock_test_support::{connect_string, fresh_path, shared_probe, wait_until};

use common::{
    Ask, BRIEFLY, Object, SESSION, SOON, Subject, Task, await_nodes, client, delete_node,
    every_subject, every_subject_that, hold_of, lock_of, stat, warnings_with_keys,
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
    /// Waited or held.
    time: Duration,
    queue: Option<usize>,
}

/// Writes down what it is told.
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

    /// All that was told since the last call.
    fn take(&self) -> Vec<Told> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn count(&self, is_it: impl Fn(&Told) -> bool) -> usize {
        self.0.lock().unwrap().iter().filter(|told| is_it(told)).count()
    }

    /// What was told since the last look, which must be this, and of this name.
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
    builder.connect_timeout(SOON).observer(observer).connect().expect("connect")
}

/// A client that is observed, and an object of it that is named after its subject.
fn observed(subject: Subject, path: &str) -> (Notes, Client, Object) {
    let notes = Notes::default();
    let client = observed_by(notes.clone());
    let object = subject.with(&client, path, LockOptions::new().name(subject.name));
    (notes, client, object)
}

/// What it is told of as.
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

/// So many times.
fn times(what: What, count: usize) -> Vec<What> {
    vec![what; count]
}

#[test]
fn a_turn_is_told_as_acquired_and_ended_with_its_times() {
    every_subject(|subject| {
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
fn calls_that_get_nothing_are_told_with_their_reason_and_who_was_ahead() {
    every_subject(|subject| {
        let path = fresh_path("not-acquired");
        let (notes, client, object) = observed(subject, &path);
        let others = common::client();
        let rival = subject.rival(&others, &path);
        rival.lock().unwrap();
        assert!(!object.try_lock().unwrap());
        // Who only tries permits does not queue.
        let ahead = (kind_of(subject) != LockKind::Semaphore).then_some(1);
        assert_eq!(notes.were(subject.name, &[Busy])[0].queue, ahead);

        let begun = Instant::now();
        assert!(!object.try_lock_for(BRIEFLY).unwrap());
        let took = begun.elapsed();
        let told = &notes.were(subject.name, &[TimedOut])[0];
        assert!((BRIEFLY..=took).contains(&told.time), "{told:?} of {took:?}");
        assert!(told.queue.is_some() && (ahead.is_none() || told.queue == ahead), "{told:?}");

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
fn a_loss_is_told_once_also_to_those_who_never_unlock() {
    every_subject(|subject| {
        let path = fresh_path("loss-told");
        let (notes, client, object) = observed(subject, &path);
        object.lock().unwrap();
        notes.were(subject.name, &times(What::Acquired, subject.nodes_of_one()));
        let hold = object.hold();
        // Watched from now on.
        let _asked = hold.revocation().unwrap();
        shared_probe().unwrap().delete(&subject.node_of(&hold)).unwrap();
        notes.await_count(1);
        notes.were(subject.name, &[What::Lost(LossReason::NodeDeleted)]);
        assert!(object.unlock().is_err());
        // Of several the others were held.
        notes.were(subject.name, &times(Released, subject.nodes_of_one() - 1));
        assert_eq!(client.stats().holds_lost, 1);

        // Its node deleted while nobody looks, the unlock finds out, if it asks for the answer.
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
fn the_line_of_a_loss_in_the_log_has_the_lock_and_the_reason_as_keys() {
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
fn entering_again_is_not_told() {
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
fn each_thread_that_it_is_left_to_is_told() {
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
fn who_queues_behind_others_is_told_how_many_there_were() {
    let (path, others) = (fresh_path("queue-told"), client());
    let holder = DistributedLock::new(&others, &path).unwrap().acquire().unwrap();
    let notes = Notes::default();
    let observed = observed_by(notes.clone());
    let waiters: Vec<_> = (1..=4)
        .map(|number| {
            let options = LockOptions::new().name(number.to_string());
            let lock = DistributedLock::with(&observed, &path, options).unwrap();
            let waiter = Task::spawn(move || lock.acquire()?.release());
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
fn permits_that_are_taken_together_are_one_hold_and_their_turn_is_none() {
    let notes = Notes::default();
    let client = observed_by(notes.clone());
    let options = LockOptions::new().name("licences");
    let semaphore = DistributedSemaphore::with(&client, fresh_path("permits-told"), 5, options);
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

/// Does something with what it is told of, on the thread that tells.
#[derive(Clone, Default)]
struct Meddler {
    #[allow(clippy::type_complexity)]
    with: Arc<OnceLock<Box<dyn Fn(bool) + Send + Sync>>>,
    notes: Notes,
}

thread_local! {
    /// What a meddler does is told, too.
    static MEDDLES: Cell<bool> = const { Cell::new(false) };
}

impl Meddler {
    fn meddle(&self, has_ended: bool) {
        if !MEDDLES.replace(true) {
            self.with.get().expect("what to do")(has_ended);
            MEDDLES.set(false);
        }
    }
}

impl Observer for Meddler {
    fn acquired(&self, call: &Acquired<'_>) {
        self.meddle(false);
        self.notes.acquired(call);
    }

    fn not_acquired(&self, call: &NotAcquired<'_>) {
        self.meddle(false);
        self.notes.not_acquired(call);
    }

    fn ended(&self, hold: &Ended<'_>) {
        self.meddle(true);
        self.notes.ended(hold);
    }
}

#[test]
fn an_observer_may_use_the_client_and_the_lock_that_it_is_told_of() {
    every_subject(|subject| {
        let (path, meddler) = (fresh_path("meddler"), Meddler::default());
        let client = observed_by(meddler.clone());
        let object = subject.at(&client, &path);
        let other = DistributedLock::new(&client, fresh_path("meddlers-own")).unwrap();
        let (used, its_client) = (object.clone(), client.clone());
        let with = move |has_ended| {
            let is_held = used.is_held();
            assert!(used.holds().iter().all(|hold| hold.is_held() || !is_held));
            assert_eq!(its_client.state(), ClientState::Connected);
            assert_eq!(its_client.stats().sessions, 1);
            assert!(other.try_lock().unwrap(), "it is nobody else's");
            other.unlock().unwrap();
            // Of several one is told of while the other is held.
            if has_ended && subject.is_one_lock() && used.try_lock().unwrap() {
                used.unlock().unwrap();
            }
        };
        assert!(meddler.with.set(Box::new(with)).is_ok());
        object.lock().unwrap();
        object.unlock().unwrap();
        let rival_client = common::client();
        let rival = subject.rival(&rival_client, &path);
        rival.lock().unwrap();
        assert!(!object.try_lock().unwrap());
        rival.unlock().unwrap();
        // Told of on another thread.
        object.lock().unwrap();
        let hold = object.hold();
        let _asked = hold.revocation().unwrap();
        meddler.notes.take();
        shared_probe().unwrap().delete(&subject.node_of(&hold)).unwrap();
        let is_lost = |told: &Told| told.what == What::Lost(LossReason::NodeDeleted);
        wait_until("the loss is told", SOON, || meddler.notes.count(is_lost) > 0);
        assert!(object.unlock().is_err());
    });
}

/// Counts, and panics.
#[derive(Clone, Default)]
struct Panics(Notes);

impl Observer for Panics {
    fn acquired(&self, call: &Acquired<'_>) {
        self.0.acquired(call);
        panic!("on purpose, of {call:?}");
    }

    fn not_acquired(&self, call: &NotAcquired<'_>) {
        self.0.not_acquired(call);
        panic!("on purpose, of {call:?}");
    }

    fn ended(&self, hold: &Ended<'_>) {
        self.0.ended(hold);
        panic!("on purpose, of {hold:?}");
    }
}

#[test]
fn an_observer_that_panics_harms_nothing() {
    every_subject(|subject| {
        let (path, panics) = (fresh_path("panics"), Panics::default());
        let client = observed_by(panics.clone());
        let object = subject.with(&client, &path, LockOptions::new().name(subject.name));
        let each = subject.nodes_of_one();
        let turn = [times(What::Acquired, each), times(Released, each)].concat();
        for _ in 0..2 {
            object.lock().unwrap();
            assert!(object.is_held());
            object.unlock().unwrap();
            panics.0.were(subject.name, &turn);
        }
        let others = common::client();
        let rival = subject.rival(&others, &path);
        rival.lock().unwrap();
        assert!(!object.try_lock().unwrap());
        panics.0.were(subject.name, &[Busy]);
        rival.unlock().unwrap();
        for _ in 0..2 {
            object.lock().unwrap();
            panics.0.take();
            let hold = object.hold();
            let _asked = hold.revocation().unwrap();
            shared_probe().unwrap().delete(&subject.node_of(&hold)).unwrap();
            panics.0.await_count(1);
            assert!(object.unlock().is_err());
            assert_eq!(panics.0.take()[0].what, What::Lost(LossReason::NodeDeleted));
        }
    });
}

/// How many children were ever made in a directory, by the server's own count: its number of changes has the
/// deletions in it, too.
fn made_in(directory: &str) -> usize {
    let stat = stat(directory);
    usize::try_from((stat.cversion + stat.num_children) / 2).unwrap()
}

/// What calls came to, by what they returned.
#[derive(Debug, Default)]
struct Seen {
    got: usize,
    got_none: usize,
    failed: usize,
    killed: usize,
}

/// Threads of several clients take so many turns each, two of them at one object. Who is in writes to a node,
/// so that the server counts it; of plain locks, every so often an operator deletes the node of who is in. (Not a
/// single node: the unlock that hears of it may have deleted the next one's.)
fn hammer(subject: Subject, clients: &[Client], path: &str, asks: &'static [Ask]) -> Seen {
    const CALLS: usize = 24;
    let marks = format!("{path}-marks");
    shared_probe().unwrap().create_all(&marks).unwrap();
    let options = LockOptions::new().name(subject.name);
    let objects = clients.iter().flat_map(|client| {
        let shared = subject.with(client, path, options.clone());
        [shared.clone(), shared, subject.rival(client, path)]
    });
    let visitor = |object: Object| {
        let marks = marks.clone();
        Task::spawn(move || {
            let (probe, mut seen) = (shared_probe().unwrap(), Seen::default());
            for (call, ask) in asks.iter().cycle().take(CALLS).enumerate() {
                let guard = match object.guard(*ask) {
                    Ok(Some(guard)) => guard,
                    other => {
                        seen.got_none += usize::from(other.is_ok());
                        seen.failed += usize::from(other.is_err());
                        continue;
                    }
                };
                seen.got += 1;
                probe.set(&marks, b"in").unwrap();
                let is_killed = subject.is_plain() && subject.queues() && call % 7 == 3;
                if is_killed {
                    let hold = &guard.holds()[0];
                    // That of the rival of a read has another type, and is in the same place.
                    probe.delete(&subject.node_of(hold)).unwrap();
                    seen.killed += 1;
                }
                assert_eq!(guard.release().is_err(), is_killed);
            }
            seen
        })
    };
    let visitors: Vec<_> = objects.map(visitor).collect();
    let each = visitors.iter().map(|visitor| visitor.result("a visitor"));
    let all = each.fold(Seen::default(), |all, one| Seen {
        got: all.got + one.got,
        got_none: all.got_none + one.got_none,
        failed: all.failed + one.failed,
        killed: all.killed + one.killed,
    });
    println!("{}: {all:?}", subject.name);
    assert_eq!(usize::try_from(stat(&marks).version).unwrap(), all.got);
    all
}

#[test]
fn the_counts_are_those_that_the_server_has() {
    const WAITING: &[Ask] = &[Ask::Wait];
    const ALL: &[Ask] = &[Ask::Wait, Ask::Try, Ask::For(Duration::from_millis(50))];
    every_subject(|subject| {
        let notes = Notes::default();
        let clients = [(); 2].map(|()| observed_by(notes.clone()));
        let count = |what: What| notes.count(|told| told.what == what);
        let await_ends = || {
            let ends = || notes.count(|told| matches!(told.what, Released | What::Lost(_)));
            wait_until("all ends are told", SOON, || ends() == count(What::Acquired));
        };
        let lost = || count(What::Lost(LossReason::NodeDeleted));

        let path = subject.path_in(&fresh_path("counted"));
        let seen = hammer(subject, &clients, &path, WAITING);
        await_ends();
        let directories = match kind_of(subject) {
            LockKind::Semaphore => vec![format!("{path}/leases")],
            LockKind::Ephemeral => vec![path.rsplit_once('/').unwrap().0.to_owned()],
            _ if !subject.is_one_lock() => vec![format!("{path}/a"), format!("{path}/b")],
            _ => vec![path.clone()],
        };
        let made: usize = directories.iter().map(|directory| made_in(directory)).sum();
        // Beside the single node, there is the one that counts.
        let made = made - usize::from(kind_of(subject) == LockKind::Ephemeral);
        let came = notes.count(|told| told.what == What::Acquired && told.queue.is_some());
        let (acquired, released, lost_then) = (count(What::Acquired), count(Released), lost());
        println!("{}: {acquired} acquired, {made} nodes for {came} of them", subject.name);
        assert_eq!(made, came);
        assert_eq!(acquired, seen.got * subject.nodes_of_one());
        assert_eq!(lost_then, if subject.releases_in_the_background() { 0 } else { seen.killed });
        assert_eq!(released + lost_then, acquired);

        notes.take();
        let path = subject.path_in(&fresh_path("counted-all"));
        let seen = hammer(subject, &clients, &path, ALL);
        await_ends();
        let (acquired, released) = (count(What::Acquired), count(Released));
        let in_vain = (count(Busy) + count(TimedOut), count(Failed));
        println!("{}: {acquired} acquired, in vain {in_vain:?}", subject.name);
        assert_eq!(in_vain, (seen.got_none, seen.failed));
        assert_eq!((lost(), released + lost()), (seen.killed, acquired));
        // Of several one may have been taken and given back.
        if subject.is_one_lock() {
            assert_eq!(acquired, seen.got);
        }
    });
}
