//! `ClientBuilder::observer`: the observer receives a single report of each call and of each hold.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::observer::{Called, Ended, Observer};
use zoolock::{CancelToken, Client, Error, LockKind, LockOptions};

use common::*;

use crate::every::Pair;

/// What an observer received.
#[derive(Debug, Clone)]
struct Report {
    lock: LockKind,
    name: String,
    /// The outcome of the call or of the hold.
    what: String,
    /// How long the call waited, or how long the hold lasted.
    time: Duration,
    queue: Option<usize>,
}

/// An observer that records all reports.
#[derive(Debug, Clone, Default)]
struct Notes {
    reports: Arc<Mutex<Vec<Report>>>,
    panics: bool,
}

impl Observer for Notes {
    fn called(&self, call: &Called<'_>) {
        self.add(call.lock, call.name, format!("{:?}", call.outcome), call.waited, call.queue);
    }

    fn ended(&self, hold: &Ended<'_>) {
        self.add(hold.lock, hold.name, format!("{:?}", hold.outcome), hold.held, None);
    }
}

impl Notes {
    fn add(&self, lock: LockKind, name: &str, what: String, time: Duration, queue: Option<usize>) {
        let report = Report { lock, name: name.to_owned(), what, time, queue };
        self.reports.lock().unwrap().push(report);
        assert!(!self.panics, "on purpose");
    }

    /// Returns the reports received since the last call.
    fn take(&self) -> Vec<Report> {
        std::mem::take(&mut *self.reports.lock().unwrap())
    }

    /// Expects these reports, all with this name, since the last call. Returns them.
    #[track_caller]
    fn were(&self, name: &str, expected: &[&str]) -> Vec<Report> {
        let reports = self.take();
        println!("{name}: {reports:?}");
        let whats: Vec<_> = reports.iter().map(|report| &*report.what).collect();
        assert_eq!(whats, expected, "{name}");
        assert!(reports.iter().all(|report| report.name == name), "{reports:?}");
        reports
    }
}

fn observed(notes: &Notes) -> Client {
    let builder = Client::builder(connect_string()).session_timeout(SESSION);
    connected(builder.observer(notes.clone()))
}

/// Creates a subject's object, named after the subject and owned by an observed client, and a rival.
fn pair(subject: Subject, name: &str, notes: &Notes) -> Pair {
    let mut pair = Pair::of(subject, name, SESSION);
    pair.ours = observed(notes);
    pair.object = subject.with(&pair.ours, &pair.path, LockOptions::new().name(subject.name));
    pair
}

/// Returns the kind of lock that the observer should report.
fn kind_of(subject: Subject) -> LockKind {
    match subject.name.split(',').next().unwrap() {
        "exclusive" | "several" => LockKind::Exclusive,
        "reentrant" => LockKind::Reentrant,
        "write" => LockKind::Write,
        "read" => LockKind::Read,
        "single node" => LockKind::Ephemeral,
        "permit" => LockKind::Semaphore,
        other => panic!("unknown subject: {other}"),
    }
}

/// Returns the reports of a hold, from its grant to its release. Each member of a multi-lock has its own.
fn turn(subject: Subject) -> Vec<&'static str> {
    let each = subject.nodes_of_one();
    [vec!["Acquired"; each], vec!["Released"; each]].concat()
}

#[test]
fn observer_gets_the_times_of_each_hold() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let notes = Notes::default();
        let Pair { object, .. } = pair(subject, "turn-told", &notes);
        for ask in [Ask::Wait, Ask::Try, Ask::Within(SOON.into())] {
            let begun = Instant::now();
            let guard = object.guard(&ask).unwrap().unwrap();
            let is_in = Instant::now();
            thread::sleep(Duration::from_millis(5));
            let held = is_in.elapsed();
            guard.release().unwrap();
            let (took, waited) = (begun.elapsed(), is_in - begun);
            for report in notes.were(subject.name, &turn(subject)) {
                assert_eq!(report.lock, kind_of(subject));
                match &*report.what {
                    "Acquired" => assert!(report.time <= waited, "{report:?} of {waited:?}"),
                    _ => assert!((held..=took).contains(&report.time), "{report:?}, {held:?}"),
                }
                assert!(matches!(report.queue, None | Some(0)), "{report:?}");
            }
        }
    });
}

#[test]
fn observer_receives_why_a_call_failed_and_how_many_were_ahead() {
    every_subject(|subject| {
        let notes = Notes::default();
        let Pair { ours, path, object, rival, .. } = pair(subject, "not-acquired", &notes);
        rival.lock().unwrap();
        assert!(!object.try_lock().unwrap());
        // A semaphore's `try_acquire` does not queue.
        let ahead = (kind_of(subject) != LockKind::Semaphore).then_some(1);
        assert_eq!(notes.were(subject.name, &["Busy"])[0].queue, ahead);

        let begun = Instant::now();
        assert!(!object.lock_within(BRIEFLY.into()).unwrap());
        let took = begun.elapsed();
        let report = &notes.were(subject.name, &["TimedOut"])[0];
        // The deadline was computed before the call began, so the call may have waited for less than the timeout.
        assert!((BRIEFLY / 2..=took).contains(&report.time), "{report:?} of {took:?}");
        assert!(report.queue.is_some() && (ahead.is_none() || report.queue == ahead), "{report:?}");

        // After the failed call, its node is deleted in the background.
        subject.await_nodes(&path, subject.nodes_of_one());
        let token = CancelToken::new();
        let waiting = Task::spawn(visit_by(object.clone(), &token));
        subject.await_waiting(&path, &[&ours], 1);
        token.cancel();
        for cancelled in [waiting.result("the call that waits"), visit_by(object.clone(), &token)()]
        {
            assert!(matches!(cancelled, Err(Error::Cancelled { .. })), "{cancelled:?}");
        }
        notes.were(subject.name, &["Cancelled"; 2]);

        ours.close().unwrap();
        assert!(matches!(object.lock(), Err(Error::Closed)));
        assert!(matches!(object.try_lock(), Err(Error::Closed)));
        notes.were(subject.name, &["Failed(Closed)"; 2]);
        rival.unlock().unwrap();
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
    let reason = "its node was deleted";
    let keys = [Some(path.clone()), Some(reason.to_owned())];
    assert_eq!(lines, [(format!("ERROR lock {path} was lost: {reason}"), keys)]);
}

#[test]
fn panicking_observer_does_no_harm() {
    every_subject(|subject| {
        let notes = Notes { panics: true, ..Notes::default() };
        let Pair { object, rival, .. } = pair(subject, "panics", &notes);
        for _ in 0..2 {
            object.lock().unwrap();
            assert!(object.is_held());
            object.unlock().unwrap();
            notes.were(subject.name, &turn(subject));
        }
        rival.lock().unwrap();
        assert!(!object.try_lock().unwrap());
        notes.were(subject.name, &["Busy"]);
        rival.unlock().unwrap();
        for _ in 0..2 {
            object.lock().unwrap();
            notes.were(subject.name, &turn(subject)[..subject.nodes_of_one()]);
            let hold = object.hold();
            let _asked = hold.revocation().unwrap();
            shared_probe().unwrap().delete(&subject.node_of(&hold)).unwrap();
            wait_until("it is reported", SOON, || !notes.reports.lock().unwrap().is_empty());
            notes.were(subject.name, &["Lost(NodeDeleted)"]);
            assert!(object.unlock().is_err());
            notes.were(subject.name, &vec!["Released"; subject.nodes_of_one() - 1]);
        }
    });
}
