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
fn what_is_left_is_the_next_ones_so_many_times_in_a_row() {
    const TIMES: u32 = 3;
    const WAITERS: u64 = 8;
    let leaving = Leaving::new();
    let fixture = &leaving.fixture;
    let taken = Mutex::new(Vec::new());
    // Goes in, and out by leaving what it has, if it may.
    let visit = |turn: Turn<'_, u32, u32>, mine: u32| {
        let left = turn.take_left();
        taken.lock().push(left);
        turn.keep(left.unwrap_or(mine));
        let (hold, turn) = fixture.last();
        match turn.may_leave(TIMES) {
            true => turn.leave(hold),
            false => drop(turn),
        }
    };
    thread::scope(|scope| {
        let turn = fixture.first();
        for number in 0..WAITERS {
            scope.spawn(move || visit(fixture.first(), number as u32 + 1));
            fixture.await_queued(number + 1);
        }
        visit(turn, 0);
    });
    let (none, some) = (None, Some);
    let expected = [none, some(0), some(0), some(0), none, some(4), some(4), some(4), none];
    assert_eq!(taken.into_inner(), expected);
    assert_eq!(*leaving.nobodys.lock(), [0; 0]);
    leaving.assert_free();
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

#[test]
fn a_waiter_that_gives_up_when_something_is_left_to_it_passes_it_on_or_back() {
    const ROUNDS: u32 = 2000;
    let leaving = Leaving::new();
    let fixture = &leaving.fixture;
    let mut taken = 0;
    for round in 0..ROUNDS {
        let limit = Duration::from_micros(u64::from(round % 50) * 4);
        let took = thread::scope(|scope| {
            let turn = fixture.first();
            let waiter = scope.spawn(move || match fixture.enter(limit) {
                Ok(Entry::First(turn)) => turn.take_left(),
                _ => None,
            });
            fixture.await_queued(u64::from(round) + 1);
            turn.leave(round);
            waiter.join().expect("it ends")
        });
        let back = std::mem::take(&mut *leaving.nobodys.lock());
        let somebodys = [took.as_slice(), &back].concat();
        assert_eq!(somebodys, [round], "taken {took:?}, given back {back:?}");
        taken += u32::from(took.is_some());
        leaving.assert_free();
    }
    println!("taken {taken} times of {ROUNDS}");
    assert!((1..ROUNDS).contains(&taken), "{taken}");
}
