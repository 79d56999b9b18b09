//! The in-process queue alone: cases that the simulation hardly ever causes.

use std::thread;
use std::time::Duration;

use super::*;
use crate::base::signal::Signal;
use crate::base::wait::Wait;

/// A time that is longer than this test.
const LONG: Duration = Duration::from_secs(20);

#[test]
fn hold_is_not_handed_to_a_thread_behind_the_lost_hold_of_its_object() {
    let local: Local<u32, u32> = Local::new(false, Box::new(|_| panic!("nothing was left")));
    let closed = Signal::default();
    let enter = |object| {
        let until = Until::new(&Wait::within(LONG), LONG, None);
        match local.enter(object, &until, closed.ended()) {
            Ok(turn) => turn,
            Err(_) => panic!("not in as the first"),
        }
    };
    thread::scope(|scope| {
        enter(1).keep(7);
        let its = scope.spawn(|| drop(enter(1)));
        while local.state.lock().waiting.is_empty() {
            thread::yield_now();
        }
        local.lose(|hold| *hold == 7);
        let turn = enter(2);
        assert!(!turn.has_next(u32::MAX));
        drop(turn);
        assert!(matches!(local.exit(1, |_| true), Ok(Exit::Lost(7))));
        its.join().expect("it is in");
    });
}

#[test]
fn loss_that_is_reported_again_lets_nobody_in() {
    let local: Local<u32, u32> = Local::new(false, Box::new(|_| panic!("nothing was left")));
    let enter = |object| match local.try_enter(object) {
        Some(turn) => turn,
        None => panic!("not in as the first"),
    };
    enter(1).keep(7);
    local.lose(|hold| *hold == 7);
    assert!(local.keeps_out(1), "it is not unlocked");
    assert!(!local.keeps_out(2));
    let turn = enter(2);
    local.lose(|hold| *hold == 7);
    assert!(local.try_enter(3).is_none());
    assert!(!local.keeps_out(3), "its thread is between the levels");
    turn.keep(8);
    assert!(local.keeps_out(3));
}
