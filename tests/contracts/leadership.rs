//! `Leadership`: one candidate leads at a time, and contends again whatever ended its term.

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{Receiver, Sender, unbounded};
use zoolock::{Client, Error, Hold, Leadership, LockOptions, Term};
use zoolock_test_support::{connect_string, fresh_path, wait_until};

use common::{
    PANICS_THE_LOGGER, SOON, Task, await_nodes, await_nothing_left, children, client, client_of,
    delete_node, lock_of, owner, warnings,
};

/// A time that is longer than any test.
const EVER: Duration = Duration::from_secs(600);

/// A leadership that leads until its term is over, and the reports of its terms.
struct Candidate {
    client: Client,
    leadership: Leadership,
    terms: Receiver<Hold>,
}

impl Candidate {
    fn start(path: &str, name: &str) -> Candidate {
        Candidate::of(client(), path, name)
    }

    fn of(client: Client, path: &str, name: &str) -> Candidate {
        let (tell, terms) = unbounded();
        let options = LockOptions::new().identity(name);
        let leadership = Leadership::new(&client, path, options, move |term| stays(term, &tell));
        Candidate { client, leadership: leadership.unwrap(), terms }
    }

    #[track_caller]
    fn leads(&self) -> Hold {
        self.terms.recv_timeout(SOON).expect("it leads in the end")
    }
}

fn stays(term: &Term, tell: &Sender<Hold>) {
    assert_eq!(term.fencing_token(), term.fencing_token());
    tell.send(Hold::clone(term)).unwrap();
    assert!(term.wait(EVER));
}

fn token(hold: &Hold) -> u64 {
    hold.fencing_token()
}

#[test]
fn one_leads_at_a_time_in_the_order_of_their_coming_and_again_after_each_term() {
    const TERMS: usize = 30;
    let (path, leaders) = (fresh_path("terms"), Arc::new(AtomicUsize::new(0)));
    let (tell, terms) = unbounded();
    // Until all of them have come.
    let before = lock_of(&client(), &path);
    before.lock().unwrap();
    let candidates: Vec<_> = (0..3)
        .map(|number| {
            let (tell, leaders) = (tell.clone(), Arc::clone(&leaders));
            let lead = move |term: &Term| {
                assert_eq!(leaders.fetch_add(1, Ordering::SeqCst), 0, "a second leader");
                assert!(term.is_held());
                let _ = tell.send((number, term.fencing_token()));
                thread::yield_now();
                leaders.fetch_sub(1, Ordering::SeqCst);
            };
            let one = Leadership::new(&client(), &*path, LockOptions::new(), lead).unwrap();
            await_nodes(&path, 2 + number);
            one
        })
        .collect();
    before.unlock().unwrap();
    let terms: Vec<_> = terms.iter().take(TERMS).collect();
    println!("{terms:?}");
    assert!(terms.is_sorted_by(|a, b| a.1 < b.1));
    assert!(terms.iter().map(|term| term.0).take(3).eq(0..3));
    for number in 0..3 {
        let count = terms.iter().filter(|term| term.0 == number).count();
        assert!(count > 0, "{number} was never let in");
    }
    assert!(candidates.iter().all(Leadership::is_healthy));
    candidates.into_iter().for_each(Leadership::shutdown);
    await_nodes(&path, 0);
}

#[test]
fn who_leads_is_told_and_only_to_one_that_it_leads() {
    let path = fresh_path("who-leads");
    let ann = Candidate::start(&path, "ann:80");
    let hold = ann.leads();
    let bob = Candidate::start(&path, "bob:80");
    await_nodes(&path, 2);
    for candidate in [&ann, &bob] {
        let leader = candidate.leadership.leader().unwrap().unwrap();
        println!("{leader:?}");
        assert_eq!(leader.identity.as_deref(), Some("ann:80"));
        assert_eq!(leader.token, token(&hold));
        assert!(candidate.leadership.is_healthy());
    }
    assert!(ann.leadership.is_leader() && !bob.leadership.is_leader());
    ann.leadership.shutdown();
    bob.leads();
    assert!(bob.leadership.is_leader());
    drop(bob.leadership);
    await_nodes(&path, 0);
}

#[test]
fn a_term_that_was_lost_or_asked_for_is_over_and_another_one_comes() {
    let path = fresh_path("over");
    let ann = Candidate::start(&path, "ann");
    let mut last = ann.leads();
    let bob = Candidate::start(&path, "bob");
    let (mut leads, mut next) = (&ann, &bob);
    for round in 0..6 {
        await_nodes(&path, 2);
        match round % 2 {
            0 => delete_node(&last),
            _ => {
                let leader = next.leadership.leader().unwrap().unwrap();
                next.client.revoke(&leader).unwrap();
            }
        }
        let hold = next.leads();
        println!("round {round}: term {}", token(&hold));
        assert!(token(&hold) > token(&last));
        wait_until("the one before knows", SOON, || !last.is_held());
        (leads, next, last) = (next, leads, hold);
        assert!(leads.leadership.is_healthy() && next.leadership.is_healthy());
    }
    for one in [ann, bob] {
        one.leadership.shutdown();
        await_nothing_left(&one.client);
    }
    await_nodes(&path, 0);
}

#[test]
fn shutdown_ends_a_term_in_order_and_a_wait_at_once() {
    let path = fresh_path("shutdown");
    let (tell, events) = unbounded();
    let told = tell.clone();
    let own = client();
    let leading = Leadership::new(&own, &*path, LockOptions::new(), move |term| {
        assert!(!term.is_over() && term.deadline() > Instant::now());
        tell.send(("leads", term.is_stopping())).unwrap();
        assert!(term.wait(EVER));
        // There is time to leave things in order.
        assert!(term.is_held() && term.deadline() > Instant::now());
        tell.send(("stopped", term.is_stopping())).unwrap();
    });
    let leading = leading.unwrap();
    assert_eq!(events.recv_timeout(SOON), Ok(("leads", false)));
    let standing_by = Candidate::start(&path, "standing by");
    await_nodes(&path, 2);
    standing_by.leadership.shutdown();
    assert!(standing_by.terms.is_empty());
    await_nodes(&path, 1);
    Task::spawn(move || leading.shutdown()).result("the leader's shutdown");
    told.send(("returned", true)).unwrap();
    let order: Vec<_> = events.try_iter().collect();
    assert_eq!(order, [("stopped", true), ("returned", true)]);
    assert_eq!(children(&path), Vec::<String>::new(), "released before shutdown returned");
    assert_eq!(own.stats().holds_lost, 0);
    let lock = lock_of(&own, &path);
    assert!(lock.try_lock().unwrap(), "it is free, and the client is well");
}

/// What ends a term and is nobody's loss.
#[test]
fn a_function_that_panics_gives_the_lock_back_and_leads_again() {
    let path = fresh_path("panics");
    warnings(&path);
    let (own, (tell, terms)) = (client(), unbounded());
    let one = Leadership::new(&own, &*path, LockOptions::new(), move |term| {
        tell.send(term.fencing_token()).unwrap();
        panic!("on purpose");
    });
    let one = one.unwrap();
    let rival = lock_of(&client(), &path);
    let mut last = 0;
    for _ in 0..3 {
        let token = terms.recv_timeout(SOON).unwrap();
        assert!(token > last);
        last = token;
        let guard = rival.try_acquire_for(SOON).unwrap().expect("it was given back");
        guard.release().unwrap();
    }
    assert!(one.is_healthy());
    one.shutdown();
    let warned = warnings(&path);
    println!("{warned:#?}");
    assert!(warned.iter().any(|line| line.contains("it panicked")));
    await_nothing_left(&own);
}

/// A value that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// Panics with a consequence: another panic when the payload is dropped, or when it is logged.
#[test]
fn contest_goes_on_whatever_a_panic_of_the_function_leads_to() {
    warnings("");
    let own = client();
    let leads_again = |path: String, panics: fn()| {
        let (tell, terms) = unbounded();
        let one = Leadership::new(&own, &*path, LockOptions::new(), move |term| {
            tell.send(term.fencing_token()).unwrap();
            panics();
        });
        let one = one.unwrap();
        for number in 1..=3 {
            let term = terms.recv_timeout(SOON);
            assert!(term.is_ok(), "{path}: {term:?} instead of term {number}");
        }
        assert!(one.is_healthy());
        one.shutdown();
    };
    leads_again(fresh_path("bomb"), || panic_any(Bomb));
    leads_again(fresh_path(PANICS_THE_LOGGER), || panic!("on purpose"));
    await_nothing_left(&own);
}

#[test]
fn the_end_of_the_client_ends_it() {
    let path = fresh_path("closed");
    let leads = Candidate::start(&path, "leads");
    let term = leads.leads();
    let waits = Candidate::start(&path, "waits");
    await_nodes(&path, 2);
    for candidate in [&leads, &waits] {
        assert!(candidate.leadership.is_healthy());
        candidate.client.close().unwrap();
        wait_until("it has ended", SOON, || !candidate.leadership.is_healthy());
        assert!(matches!(candidate.leadership.leader(), Err(Error::Closed)));
    }
    assert!(!term.is_held());
    leads.leadership.shutdown();
    waits.leadership.shutdown();
    await_nodes(&path, 0);
}

#[test]
fn health_is_false_when_each_call_is_refused_for_longer_than_a_session_timeout_and_true_again() {
    let path = fresh_path("denied");
    warnings(&path);
    // Nobody else may do anything with what it makes.
    let owners = lock_of(&owner(), &path);
    owners.lock().unwrap();
    let own = client_of(&connect_string(), Duration::from_secs(1));
    let begun = Instant::now();
    let refused = Candidate::of(own, &path, "refused");
    let timeout = refused.client.session_timeout();
    wait_until("its health is bad", SOON, || !refused.leadership.is_healthy());
    println!("bad after {:?}, {timeout:?}; {:#?}", begun.elapsed(), warnings(&path));
    assert!(begun.elapsed() >= timeout);
    owners.unlock().unwrap();
    zoolock_test_support::shared_probe().unwrap().delete(&path).unwrap();
    refused.leads();
    assert!(refused.leadership.is_healthy());
    refused.leadership.shutdown();
}

/// What woke the first wait is told once.
#[test]
fn a_term_that_somebody_has_asked_for_is_over_for_every_wait() {
    let (own, path, (tell, told)) = (client(), fresh_path("asked-for"), unbounded());
    let one = Leadership::new(&own, &*path, LockOptions::new(), move |term| {
        tell.send(false).unwrap();
        tell.send(term.wait(EVER) && term.wait(EVER) && term.is_held()).unwrap();
    });
    let one = one.unwrap();
    for _ in 0..3 {
        assert_eq!(told.recv_timeout(SOON), Ok(false), "it leads");
        own.revoke(&one.leader().unwrap().unwrap()).unwrap();
        assert_eq!(told.recv_timeout(SOON), Ok(true));
    }
    one.shutdown();
    await_nodes(&path, 0);
}

/// By a handle that it was given.
#[test]
fn a_function_may_end_its_own_leadership() {
    let (own, path) = (client(), fresh_path("ends-itself"));
    warnings(&path);
    let (give, handle) = unbounded::<Leadership>();
    let one = Leadership::new(&own, &*path, LockOptions::new(), move |_| {
        handle.recv().expect("its handle").shutdown();
    });
    give.send(one.unwrap()).unwrap();
    drop(give);
    await_nodes(&path, 0);
    await_nothing_left(&own);
    assert_eq!(warnings(&path), [""; 0]);
}

#[test]
fn health_is_false_when_the_function_does_not_return_though_it_was_asked_to() {
    let (path, (tell, told)) = (fresh_path("asked-in-vain"), unbounded());
    let (go_on, waits) = unbounded::<()>();
    let own = client_of(&connect_string(), Duration::from_secs(2));
    let one = Leadership::new(&own, &*path, LockOptions::new(), move |term| {
        tell.send(term.wait(EVER)).unwrap();
        let _ = waits.recv();
    });
    let one = one.unwrap();
    wait_until("it leads", SOON, || one.is_leader());
    own.revoke(&one.leader().unwrap().unwrap()).unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(true));
    let begun = Instant::now();
    assert!(one.is_healthy(), "it may still return in time");
    wait_until("its health is bad", SOON, || !one.is_healthy());
    assert!(one.is_leader() && begun.elapsed() >= own.session_timeout());
    drop(go_on);
    one.shutdown();
}

#[test]
fn a_panic_at_the_end_of_a_long_term_is_no_long_failure() {
    let (path, (tell, terms)) = (fresh_path("panics-late"), unbounded());
    let own = client_of(&connect_string(), Duration::from_secs(2));
    let timeout = own.session_timeout();
    let one = Leadership::new(&own, &*path, LockOptions::new(), move |term| {
        tell.send(Hold::clone(term)).unwrap();
        assert!(term.wait(timeout + timeout / 10), "on purpose");
    });
    let one = one.unwrap();
    let first = terms.recv_timeout(SOON).unwrap();
    wait_until("the next term", SOON, || {
        assert!(one.is_healthy(), "behind a panic");
        !terms.is_empty()
    });
    assert!(!first.is_held());
    one.shutdown();
}

#[test]
fn health_is_false_when_the_function_does_not_return_though_its_term_is_over() {
    let (path, (tell, terms)) = (fresh_path("overdue"), unbounded());
    let (go_on, waits) = unbounded::<()>();
    let own = client_of(&connect_string(), Duration::from_secs(2));
    let one = Leadership::new(&own, &*path, LockOptions::new(), move |term| {
        tell.send(Hold::clone(term)).unwrap();
        let _ = waits.recv();
    });
    let one = one.unwrap();
    let hold = terms.recv_timeout(SOON).unwrap();
    assert!(one.is_healthy());
    delete_node(&hold);
    wait_until("it hears of that", SOON, || !hold.is_held());
    let begun = Instant::now();
    assert!(one.is_healthy() && !one.is_leader(), "it may still return in time");
    wait_until("its health is bad", SOON, || !one.is_healthy());
    println!("bad after {:?}, {:?}", begun.elapsed(), own.session_timeout());
    assert!(begun.elapsed() >= own.session_timeout());
    go_on.send(()).unwrap();
    assert!(token(&terms.recv_timeout(SOON).unwrap()) > token(&hold));
    assert!(one.is_healthy());
    drop(go_on);
    one.shutdown();
}
