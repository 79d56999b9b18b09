//! What a thread hands over to the next thread.

use super::*;

/// A lock that keeps what was handed over without a next thread.
struct Leaving {
    fixture: Fixture,
    nobodys: Arc<Mutex<Vec<u32>>>,
}

impl Leaving {
    fn new() -> Leaving {
        let nobodys = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&nobodys);
        let local = Local::new(true, Box::new(move |hold| keep.lock().push(hold)));
        let (cancel, closed) = (Broadcast::new(), Signal::new());
        Leaving { fixture: Fixture { local, cancel, closed }, nobodys }
    }

    fn assert_free(&self) {
        self.fixture.assert_free();
        assert_eq!(self.fixture.local.state.lock().handed, None);
    }
}

#[test]
fn handover_needs_a_waiter_and_stays_within_the_limit() {
    let leaving = Leaving::new();
    let fixture = &leaving.fixture;
    let turn = fixture.first();
    assert!(!turn.may_hand_over(u32::MAX), "nobody waits");
    thread::scope(|scope| {
        let waiter = fixture.waiter(scope, LONG);
        assert!(turn.may_hand_over(1));
        assert!(!turn.may_hand_over(0), "never");
        drop(turn);
        assert_eq!(waiter.join().expect("it ends"), Ok(()));
    });
    leaving.assert_free();
}

#[test]
fn hold_handed_to_a_thread_that_gave_up_goes_to_the_next() {
    let leaving = Leaving::new();
    let fixture = &leaving.fixture;
    fixture.first().hand_over(7);
    assert_eq!(*leaving.nobodys.lock(), [7], "nobody waits any more");
    leaving.assert_free();
    // An unused turn goes to the next thread, with what was handed over.
    thread::scope(|scope| {
        let turn = fixture.first();
        let unused = fixture.waiter(scope, LONG);
        let behind = scope.spawn(|| fixture.first().take_handed());
        fixture.await_queued(2);
        turn.hand_over(8);
        assert_eq!(unused.join().expect("it ends"), Ok(()));
        assert_eq!(behind.join().expect("it ends"), Some(8));
    });
    leaving.assert_free();
}
