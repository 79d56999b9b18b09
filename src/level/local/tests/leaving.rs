//! What is held, left to the next one.

use super::*;

/// A lock that keeps what was left to nobody.
struct Leaving {
    fixture: Fixture,
    nobodys: Arc<Mutex<Vec<u32>>>,
}

impl Leaving {
    fn new() -> Leaving {
        let nobodys = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&nobodys);
        let unclaimed =
            Unclaimed { stays: |_| false, discard: Box::new(move |hold| keep.lock().push(hold)) };
        let local = Local::new(Ownership::ThisThread, unclaimed);
        let closed = Signal::new();
        Leaving { fixture: Fixture { local, closed }, nobodys }
    }

    fn assert_free(&self) {
        self.fixture.assert_free();
        assert_eq!(self.fixture.local.state.lock().left, None);
    }
}

#[test]
fn nothing_may_be_left_with_nobody_waiting_or_with_no_times_to_go() {
    let leaving = Leaving::new();
    let fixture = &leaving.fixture;
    let turn = fixture.first();
    assert!(!turn.may_leave(u32::MAX), "nobody waits");
    thread::scope(|scope| {
        let waiter = fixture.waiter(scope, LONG);
        assert!(turn.may_leave(1));
        assert!(!turn.may_leave(0), "never");
        drop(turn);
        assert_eq!(waiter.join().expect("it ends"), Ok(()));
    });
    leaving.assert_free();
}

#[test]
fn what_is_left_to_who_has_just_gone_is_somebodys() {
    let leaving = Leaving::new();
    let fixture = &leaving.fixture;
    fixture.first().leave(7);
    assert_eq!(*leaving.nobodys.lock(), [7], "nobody waits any more");
    leaving.assert_free();
    // A turn that is not used goes to the one behind with what was left.
    thread::scope(|scope| {
        let turn = fixture.first();
        let unused = fixture.waiter(scope, LONG);
        let behind = scope.spawn(|| fixture.first().take_left());
        fixture.await_queued(2);
        turn.leave(8);
        assert_eq!(unused.join().expect("it ends"), Ok(()));
        assert_eq!(behind.join().expect("it ends"), Some(8));
    });
    leaving.assert_free();
}
