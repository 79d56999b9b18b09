//! Handing on, step by step, and what is heard of the node in the very moment of it.

use std::fs;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, TryRecvError, bounded};
use zoolock_test_support::{connect_string, fresh_path, shared_probe};

use super::*;
use crate::client::Client;
use crate::error::LossReason;
use crate::local::Ownership;
use crate::lock::DistributedLock;
use crate::session::Session;
use crate::session::death::Cause;
use crate::session::seat::Standing;
use crate::session::stage::{Holder, client};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

impl Holder {
    fn session(&self) -> &Arc<Session> {
        self.client.session()
    }

    fn standing(&self) -> Standing {
        standing(&self.seat)
    }

    /// Nothing is handed on, and nothing has changed.
    #[track_caller]
    fn keeps_it(&self, what: &str, standing: Standing) {
        let heir = self.session().pass_on(&self.seat);
        assert!(heir.is_none(), "{what}: {heir:?}");
        assert_eq!(self.standing(), standing, "{what}");
        assert_eq!(self.seat.ended().try_recv(), Err(TryRecvError::Empty));
        let (name, on) = self.seat.own().expect("its place");
        assert_eq!(name, self.seat.node());
        assert!(Arc::ptr_eq(&on, &self.connection));
    }
}

fn standing(seat: &Seat) -> Standing {
    seat.standing(Moment::now())
}

#[test]
fn all_that_a_hold_has_goes_to_the_heir() {
    let holder = Holder::new(Ownership::ThisThread);
    let (session, seat) = (holder.session(), &holder.seat);
    let me = Some(thread::current().id());
    let (own, since) = (seat.own(), seat.core.lock().since);
    let heir = session.pass_on(seat).expect("an heir");
    assert_eq!((holder.standing(), standing(&heir)), (Standing::Released, Standing::Held));
    assert_eq!(seat.ended().try_recv(), Err(TryRecvError::Disconnected));
    assert_eq!(heir.ended().try_recv(), Err(TryRecvError::Empty));
    assert!(seat.own().is_none());
    let names = [own, heir.own()].map(|own| own.expect("a place").0);
    assert_eq!(names[0], names[1]);
    assert_eq!(heir.core.lock().since, since, "it is watched in time");
    assert_eq!((seat.number(), session.seats.len()), (heir.number(), 1));
    assert_eq!((seat.owner(), heir.owner()), (me, None), "nobody owns it yet");
    let next = thread::scope(|scope| {
        let next = scope.spawn(|| (heir.take_over(), thread::current().id()));
        next.join().expect("it ends")
    });
    assert_eq!((true, heir.owner()), (next.0, Some(next.1)));
    assert!(session.pass_on(seat).is_none(), "it is the heir's");
    let last = session.pass_on(&heir).expect("the next heir");
    assert_eq!((standing(&heir), standing(&last)), (Standing::Released, Standing::Held));
    assert_eq!(holder.connection.tenancy().held(), 1);
}

#[test]
fn a_hold_of_the_object_has_no_owner_either_way() {
    let holder = Holder::new(Ownership::AnyThread);
    let heir = holder.session().pass_on(&holder.seat).expect("an heir");
    assert!(heir.take_over());
    assert_eq!(heir.owner(), None);
}

#[test]
fn what_the_servers_have_to_be_told_of_is_not_handed_on() {
    let holder = Holder::new(Ownership::ThisThread);
    holder.seat.share();
    holder.keeps_it("shared", Standing::Held);

    let holder = Holder::new(Ownership::ThisThread);
    holder.seat.read(b"__REVOKE__", 7);
    holder.keeps_it("asked for", Standing::Held);

    let (_other, elsewhere) = client();
    let holder = Holder::new(Ownership::ThisThread);
    let garbage = holder.session().garbage();
    let begun = holder.seat.begin_move(&elsewhere, garbage);
    assert!(begun.is_some());
    holder.keeps_it("about to move", Standing::Held);

    let holder = Holder::new(Ownership::ThisThread);
    holder.connection.kill(Cause::NotWanted);
    holder.keeps_it("suspended", Standing::Suspended);

    let holder = Holder::new(Ownership::ThisThread);
    holder.session().seats.remove(&holder.seat);
    holder.keeps_it("no longer registered", Standing::Held);
}

#[test]
fn what_was_left_is_not_taken_over_without_a_connection() {
    let holder = Holder::new(Ownership::ThisThread);
    let heir = holder.session().pass_on(&holder.seat).expect("an heir");
    holder.connection.kill(Cause::NotWanted);
    assert!(!heir.take_over());
    assert_eq!(heir.owner(), None);
    holder.session().give_up(&heir);
    assert_eq!(standing(&heir), Standing::Released);
    assert_eq!(holder.session().seats.len(), 0);
}

#[test]
fn what_is_heard_of_an_earlier_hold_is_the_heirs() {
    let holder = Holder::new(Ownership::ThisThread);
    let session = holder.session();
    let heir = session.pass_on(&holder.seat).expect("an heir");
    session.node_gone(&holder.seat, "another");
    assert_eq!(standing(&heir), Standing::Held);
    assert!(heir.take_over());
    session.node_gone(&holder.seat, &heir.node());
    assert_eq!(standing(&heir), Standing::Lost(LossReason::NodeDeleted));
    assert_eq!(heir.ended().try_recv(), Err(TryRecvError::Disconnected));
    assert_eq!(holder.standing(), Standing::Released);
    assert_eq!(session.stats().seats_lost, 1);
}

/// Runs a call on a thread of its own; returns when that is asleep.
fn asleep<'s, R: Send + 's>(
    scope: &'s Scope<'s, '_>,
    call: impl FnOnce() -> R + Send + 's,
) -> ScopedJoinHandle<'s, R> {
    let (sender, started) = bounded(1);
    let thread = scope.spawn(move || {
        let this = fs::read_link("/proc/thread-self").expect("Linux");
        sender.send(this).expect("somebody waits");
        call()
    });
    let this = started.recv_timeout(LONG).expect("it has started");
    let status = format!("/proc/{}/status", this.display());
    let sleeps = || {
        let now = fs::read_to_string(&status).unwrap_or_default();
        let mut lines = now.lines();
        lines.any(|line| line.starts_with("State:") && line.contains("sleeping"))
    };
    let (begun, mut times) = (Instant::now(), 0);
    while times < 20 {
        assert!(begun.elapsed() < LONG, "it does not wait for the mutex");
        times = if sleeps() { times + 1 } else { 0 };
        thread::yield_now();
    }
    thread
}

/// A thread hears something of the seat when another one is about to hand that on: it has looked
/// which seat has the node, and waits for its mutex behind the other one. None if it got that first
/// all the same, as who waits for a mutex may.
fn hears_while_passing(
    session: &Session,
    seat: &Arc<Seat>,
    hear: impl FnOnce() + Send,
) -> Option<Arc<Seat>> {
    thread::scope(|scope| {
        let core = seat.core.lock();
        let passing = asleep(scope, || session.pass_on(seat));
        let hearing = asleep(scope, hear);
        drop(core);
        hearing.join().expect("it has heard");
        let heir = passing.join().expect("it has tried");
        if heir.is_none() {
            let lost = Standing::Lost(LossReason::NodeDeleted);
            assert_eq!(standing(seat), lost, "who heard of it was not first");
        }
        heir
    })
}

/// Tries until it was handed on first.
fn in_that_order<T>(attempt: impl Fn() -> Option<T>) -> T {
    let handed_on = (0..20).find_map(|_| attempt());
    handed_on.expect("who waited first gets the mutex now and then")
}

#[test]
fn a_deletion_that_is_heard_of_while_it_is_handed_on_ends_it() {
    let (holder, heir) = in_that_order(|| {
        let holder = Holder::new(Ownership::ThisThread);
        let (session, seat) = (holder.session(), &holder.seat);
        let name = seat.node();
        let heir = hears_while_passing(session, seat, || session.node_gone(seat, &name))?;
        Some((holder, heir))
    });
    let session = holder.session();
    // Nobody has lost it, but whoever comes next has to queue.
    assert_eq!(standing(&heir), Standing::Released, "missed");
    assert!(!heir.take_over());
    assert_eq!((session.seats.len(), session.stats().seats_lost), (0, 0));
}

/// The watch has fired, and nothing would look at the node again.
#[test]
fn an_event_that_is_looked_into_while_it_is_handed_on_is_not_forgotten() {
    let (client, heir) = in_that_order(|| {
        // No heartbeat for a while.
        let client = Client::connect(&connect_string(), LONG * 2).expect("connect");
        let connection = client.session().live().expect("a connection");
        let session = client.session();
        let path = fresh_path("event");
        let lock = DistributedLock::new(&client, &path).expect("a path");
        lock.lock().expect("held");
        let seat = session.seats.all().pop().expect("its seat");
        let node = format!("{path}/{}", seat.node());
        shared_probe().expect("a probe").delete(&node).expect("deleted");
        let heir =
            hears_while_passing(session, &seat, || session.review(seat.number(), &connection))?;
        Some((client, heir))
    });
    let session = client.session();
    let told = heir.ended().recv_timeout(LONG);
    let now = standing(&heir);
    session.give_up(&heir);
    assert_eq!(told, Err(RecvTimeoutError::Disconnected), "{now:?}");
    assert_eq!(now, Standing::Released);
    assert_eq!(session.stats().seats_lost, 0, "nobody has lost it");
}
