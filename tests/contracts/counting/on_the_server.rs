//! The counts are those that the server has: of nodes made, and of writes by those who are in.

use std::time::Duration;

use zoolock::observer::LockKind;
use zoolock::{Client, LockOptions, LossReason};
use zoolock_test_support::{fresh_path, shared_probe, wait_until};

use super::What::{Busy, Failed, Released, TimedOut};
use super::{Notes, What, kind_of, observed_by};
use common::{Ask, Object, SOON, Subject, Task, every_subject, stat};

/// How many children were ever made in a directory, by the server's own count: its number of
/// changes has the deletions in it, too.
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

/// Threads of several clients take so many turns each, two of them at one object. Who is in writes
/// to a node, so that the server counts it; of plain locks, every so often an operator deletes the
/// node of who is in. (Not a single node: the unlock that hears of it may have deleted the next
/// one's.)
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
