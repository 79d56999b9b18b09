//! How clients and calls end, and whether they release their resources.

mod from_outside;

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use zoolock_test_support::{Op, connect_string, shared_probe, wait_until};
use zoolock_zookeeper::{ErrorKind, SessionEventKind};

use crate::util::{
    Events, SESSION, SOON, Stage, client, client_of, files, in_own_process, kind, make_ephemeral,
    of_clients, resident, root,
};

#[test]
fn ten_thousand_clients_leave_no_thread_and_no_file_behind() {
    in_own_process(|| {
        const CLIENTS: usize = 10_000;
        /// Long, because the server is busy and may not answer for a long time.
        const LONG: Duration = Duration::from_secs(60);
        // The first client also creates what the process keeps afterwards.
        client().close().unwrap();
        // A thread disappears from `/proc` shortly after it has ended.
        wait_until("its threads are gone", SOON, || of_clients() == 0);
        let before = files();
        let run = |clients: usize| {
            let one_after_another = || {
                for number in 0..clients / 4 {
                    let client = client_of(&connect_string(), LONG);
                    // Every second client is closed, and the others are only dropped.
                    if number % 2 == 0 {
                        client.close().unwrap();
                    }
                }
            };
            thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(one_after_another))));
        };
        run(CLIENTS / 4);
        let middle = resident();
        run(CLIENTS / 4 * 3);
        wait_until("the last threads are gone", SOON, || of_clients() == 0);
        assert_eq!(files(), before);
        let memory = resident();
        assert!(memory < middle + 4096, "from {middle} to {memory} KiB");
    });
}

#[test]
fn close_returns_behind_the_ends_of_the_threads() {
    /// What the timer drops when it ends.
    struct Last(Receiver<()>);
    impl Drop for Last {
        fn drop(&mut self) {
            let _ = self.0.recv_timeout(SOON);
        }
    }
    let client = client();
    let ((go_on, last), (tell, closed)) = (bounded(1), bounded(1));
    let last = Last(last);
    client.call_at(Instant::now() + 60 * SOON, move || drop(last));
    let closing = thread::spawn(move || tell.send(client.close()));
    assert!(closed.recv_timeout(Duration::from_millis(200)).is_err(), "the timer still runs");
    go_on.send(()).unwrap();
    closed.recv_timeout(SOON).unwrap().unwrap();
    closing.join().unwrap().unwrap();
}

#[test]
fn client_lives_as_long_as_its_clones_and_lease_keepers() {
    let (path, probe) = (root("clones"), shared_probe().unwrap());
    let client = client();
    let events = Events::of(&client);
    let path = make_ephemeral(&client, &format!("{path}/a"));
    let (clone, keeper) = (client.with_timeout(SESSION), client.keep_lease());
    drop(client);
    clone.sync("/").unwrap();
    drop(clone);
    assert!(probe.exists(&path).unwrap() && events.all().is_empty());
    drop(keeper);
    events.until(SessionEventKind::Closed);
    wait_until("its session has ended", SOON, || !probe.exists(&path).unwrap());
}

#[test]
fn callback_may_close_or_drop_its_client() {
    let stage = Stage::new("callback", SESSION);
    let probe = stage.probe();
    for closes in [true, false] {
        let client = client_of(&stage.proxy.connect_string(), SESSION);
        let events = Events::of(&client);
        let path = make_ephemeral(&client, &stage.path("a"));
        let held = stage.proxy.hold_answer(Op::Exists, 1);
        let answer = client.submit(|batch| batch.exists("/", None));
        let (say, ended) = bounded(1);
        answer.on_done(move |_| {
            let refused = closes.then(|| kind(client.close()));
            drop(client);
            say.send(refused).unwrap();
        });
        held.release();
        let refused = ended.recv_timeout(SOON).unwrap();
        assert_eq!(refused, closes.then_some(ErrorKind::WouldBlock));
        events.until(SessionEventKind::Closed);
        wait_until("its session has ended", SOON, || !probe.exists(&path).unwrap());
    }
}
