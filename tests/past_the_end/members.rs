//! A lock of several, of which one is past the end.

use std::time::Duration;

use zoolock::{DistributedLock, Lock, MultiLock};
use zoolock_test_support::crowd::{self, Access, Taker};

use super::{END, Stage, nodes};

#[test]
fn a_lock_over_a_fresh_and_an_exhausted_directory_is_alone() {
    let Some(stage) = Stage::new("members", 0) else {
        return;
    };
    let parts = [("exhausted", END), ("fresh", 0), ("over", END - 5)];
    let parts = parts.map(|(part, number)| stage.part(part, number));
    let clients = [stage.client(), stage.client(), stage.client()];
    let multi = |at: usize| {
        let of = |part: &String| -> Box<dyn Lock> {
            DistributedLock::new(&clients[at % 3], part).unwrap().into()
        };
        MultiLock::new(parts.iter().map(of)).unwrap()
    };
    let taker = |at: usize| -> Taker {
        let multi = multi(at);
        Box::new(move |witness| {
            multi.lock()?;
            let holds = multi.holds();
            assert_eq!(holds.len(), 3);
            let exhausted = &holds[0];
            assert!(exhausted.path().ends_with("/exhausted"));
            let token = exhausted.fencing_token()?;
            witness.visit(Access::Alone, token, &exhausted.node(), std::thread::yield_now);
            Ok(multi.unlock()?)
        })
    };
    let seen = crowd::run((0..6).map(taker).collect(), 10, Duration::from_secs(60));
    println!("{seen:?}");
    seen.assert_apart();
    seen.assert_in_order();
    let (one, other) = (multi(0), multi(1));
    assert!(one.try_lock().unwrap());
    assert!(!other.try_lock().unwrap());
    one.unlock().unwrap();
    assert!(other.try_lock().unwrap());
    other.unlock().unwrap();
    for part in &parts {
        assert_eq!(nodes(&stage.probe, part), [""; 0]);
    }
}
