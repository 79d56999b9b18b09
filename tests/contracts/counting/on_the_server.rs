//! The observer's counts agree with the server's: nodes created, and writes made by holders.

use std::time::Duration;

use zoolock::observer::LockKind;
use zoolock::{Client, LockOptions, LossReason};
use zoolock_test_support::{fresh_path, shared_probe, wait_until};

use super::What::{Busy, Failed, Released, TimedOut};
use super::{Notes, What, kind_of, observed_by};
use common::{Ask, Object, SOON, Subject, Task, every_subject, stat};

/// Number of children ever created in a directory, by the server. Its change count includes the deletions.
fn made_in(directory: &str) -> usize {
    let stat = stat(directory);
    usize::try_from((stat.cversion + stat.num_children) / 2).unwrap()
}

/// Outcomes of the calls, by what they returned.
#[derive(Debug, Default)]
struct Seen {
    got: usize,
    got_none: usize,
    failed: usize,
    killed: usize,
    lost: usize,
}

/// Runs the same number of turns on threads of several clients, two threads at each object. Each holder
/// writes to a node, so that the server counts it. Of plain locks, an operator deletes the holder's node now
/// and then. (Single nodes are spared: an unlock that notices might have deleted the next holder's node.)
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
                    // A rival of a read has another type but uses the same directory.
                    probe.delete(&subject.node_of(hold)).unwrap();
                    seen.killed += 1;
                }
                let is_lost = guard.release().is_err();
                assert!(is_killed || !is_lost);
                seen.lost += usize::from(is_lost);
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
        lost: all.lost + one.lost,
    });
    println!("{}: {all:?}", subject.name);
    assert_eq!(usize::try_from(stat(&marks).version).unwrap(), all.got);
    all
}

#[test]
fn counts_agree_with_the_server() {
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
        let directories = match kind_of(subject) {
            LockKind::Semaphore => vec![format!("{path}/leases")],
            LockKind::Ephemeral => vec![path.rsplit_once('/').unwrap().0.to_owned()],
            _ if !subject.is_one_lock() => vec![format!("{path}/a"), format!("{path}/b")],
            _ => vec![path.clone()],
        };
        // They count the nodes that were made in them, so they have to stay.
        let probe = shared_probe().unwrap();
        directories.iter().for_each(|directory| probe.create_all(directory).unwrap());
        let seen = hammer(subject, &clients, &path, WAITING);
        await_ends();
        let made: usize = directories.iter().map(|directory| made_in(directory)).sum();
        // The directory of a single node also contains the counted node.
        let made = made - usize::from(kind_of(subject) == LockKind::Ephemeral);
        let came = notes.count(|told| told.what == What::Acquired && told.queue.is_some());
        let (acquired, released, lost_then) = (count(What::Acquired), count(Released), lost());
        println!("{}: {acquired} acquired, {made} nodes for {came} of them", subject.name);
        // A multi-lock has given up nodes behind a member that it waited for.
        assert!(made == came || made > came && !subject.is_one_lock(), "{made} nodes for {came}");
        assert_eq!(acquired, seen.got * subject.nodes_of_one());
        assert_eq!((seen.lost, lost_then), (seen.killed, seen.killed));
        assert_eq!(released + lost_then, acquired);

        notes.take();
        let path = subject.path_in(&fresh_path("counted-all"));
        let seen = hammer(subject, &clients, &path, ALL);
        await_ends();
        let (acquired, released) = (count(What::Acquired), count(Released));
        let in_vain = (count(Busy) + count(TimedOut), count(Failed));
        println!("{}: {acquired} acquired, in vain {in_vain:?}", subject.name);
        assert_eq!(in_vain, (seen.got_none, seen.failed));
        // An unlock may give its node to the next thread. If that one runs out of time before the
        // answer comes, nobody knows who has deleted the node, so fewer may be lost than were killed.
        assert_eq!((lost(), released + lost()), (seen.lost, acquired));
        // A multi-lock may have taken and released one member.
        if subject.is_one_lock() {
            assert_eq!(acquired, seen.got);
        }
    });
}
