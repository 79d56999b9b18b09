//! Sessions over several connections: given up, resumed and closed, at real ensembles and across restarts.

mod restarts;

use std::time::Instant;

use zoolock_test_support::wait_until;
use zoolock_zookeeper::SessionEventKind;

use crate::util::{SESSION, SHORT, SOON, Stage};

#[test]
fn server_that_hangs_up_is_retried_with_pauses() {
    let stage = Stage::new("hangs_up", SESSION);
    let id = stage.client.session_id();
    stage.proxy.accept_and_close(true);
    stage.proxy.cut();
    stage.told.until(SessionEventKind::Suspended);
    let before = stage.proxy.connections();
    let begun = Instant::now();
    wait_until("some time has passed", SOON, || begun.elapsed() > SHORT);
    let tries = stage.proxy.connections() - before;
    println!("{tries} tries in {:?}", begun.elapsed());
    assert!((2..=100).contains(&tries), "{tries}");
    stage.resume();
    assert_eq!(stage.client.session_id(), id);
}
