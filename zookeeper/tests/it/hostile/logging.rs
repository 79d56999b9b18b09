//! A logger that blocks, or that panics when it checks the level. All urgent work is done before anything is logged.

use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;
use zoolock_test_support::{Direction, FaultProxy, wait_until};
use zoolock_zookeeper::{ErrorKind, SessionEventKind, ZooKeeper};

use crate::util::{
    BRIEFLY, Events, LOGGER, SESSION, SHORT, SOON, client_of, in_own_process, logged, said,
    shared_proxy,
};

/// Returns a client whose first connection has been logged. Nothing else in this process writes log lines.
fn logging_client(session: Duration) -> (FaultProxy, ZooKeeper, Events) {
    logged("");
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), session);
    let events = Events::of(&client);
    wait_until("the connection is logged", SOON, || !logged("").is_empty());
    (proxy, client, events)
}

#[test]
fn blocked_logger_does_not_prevent_a_resume() {
    in_own_process(|| {
        let (proxy, client, events) = logging_client(SHORT);
        let (session, keeper) = (client.session_id(), client.keep_lease());
        LOGGER.block(true);
        proxy.cut();
        events.until(SessionEventKind::Resumed);
        // Longer than the lease from before could have lasted.
        let resumed = Instant::now();
        wait_until("the lease has been kept for two timeouts", SOON, || {
            let (kept, passed) = (client.valid_for(), resumed.elapsed());
            assert!(!kept.is_zero(), "the lease has ended after {passed:?}");
            passed > SHORT * 2
        });
        let is_answered = || client.exists("/").is_ok();
        wait_until("a request is answered", SOON, is_answered);
        proxy.cut();
        events.until(SessionEventKind::Resumed);
        wait_until("another one is answered", SOON, is_answered);
        assert_eq!(client.session_id(), session);
        drop(keeper);
        LOGGER.block(false);
        client.close().unwrap();
    });
}

#[test]
fn blocked_logger_does_not_delay_deferred_calls() {
    in_own_process(|| {
        let (_proxy, client, _) = logging_client(SESSION);
        LOGGER.block(true);
        client.note(log::Level::Warn, || log::warn!(target: "zoolock_zookeeper", "a line"));
        wait_until("the logger is waited for", SOON, || LOGGER.is_waited_for());
        let (say, said) = unbounded();
        client.call_aside(move || say.send(()).unwrap());
        said.recv_timeout(SOON).expect("it is called");
        assert!(LOGGER.is_waited_for());
        LOGGER.block(false);
        wait_until("the line is written", SOON, || !logged("a line").is_empty());
    });
}

#[test]
fn blocked_logger_keeps_no_call_beyond_its_deadline() {
    in_own_process(|| {
        let (proxy, client, events) = logging_client(SESSION);
        LOGGER.block(true);
        proxy.cut_off();
        events.until(SessionEventKind::Suspended);
        let brief = client.with_timeout(BRIEFLY);
        assert_eq!(said(brief.exists("/")).0, ErrorKind::NoConnection);
        proxy.restore();
        events.until(SessionEventKind::Resumed);
        proxy.black_hole(Direction::Both);
        assert_eq!(said(brief.exists("/")).0, ErrorKind::Timeout);
        LOGGER.block(false);
    });
}

#[test]
fn logger_that_panics_when_asked_ends_no_client() {
    in_own_process(|| {
        let (proxy, client, events) = logging_client(SESSION);
        LOGGER.panic();
        for _ in 0..3 {
            proxy.cut();
            events.until(SessionEventKind::Resumed);
            client.exists("/").unwrap();
        }
        client.close().unwrap();
    });
}
