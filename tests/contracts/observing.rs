//! The queue position that a waiter is told, and its changes.

use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, unbounded};
use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    EphemeralLock, Error, Kind, Leadership, LockOptions, QueuePosition,
};
use zoolock_test_support::{Op, fresh_path};

use common::{
    BRIEFLY, SESSION, SOON, Task, await_nodes, await_resumed, behind_a_proxy, client, client_of,
    every_subject_that, lock_of, shared_proxy,
};

const OFTEN: Duration = Duration::from_millis(50);
const NEVER: Duration = Duration::MAX;

/// Options that send the position to this channel.
fn telling(every: Duration) -> (LockOptions, Receiver<QueuePosition>) {
    let (say, told) = unbounded();
    let options = LockOptions::new().on_queue_position(every, move |position| {
        let _ = say.send(position.clone());
    });
    (options, told)
}

/// Waits for a report with this many ahead.
#[track_caller]
fn await_position(told: &Receiver<QueuePosition>, ahead: usize) -> QueuePosition {
    loop {
        let position = told.recv_timeout(SOON);
        let position =
            position.unwrap_or_else(|error| panic!("not told of {ahead} ahead: {error}"));
        if position.ahead == ahead {
            println!("{position:?}");
            return position;
        }
    }
}

#[test]
fn position_of_a_reader_counts_readers_ahead_of_its_writer() {
    let (client, path) = (client(), fresh_path("place-readers"));
    let read = DistributedRwLock::new(&client, &path).unwrap();
    let read = read.read_lock().acquire().unwrap();
    let write = DistributedRwLock::new(&client, &path).unwrap();
    let write = Task::spawn(move || write.write_lock().acquire()?.release());
    await_nodes(&path, 2);
    let (options, told) = telling(OFTEN);
    let late = DistributedRwLock::with_options(&client, &path, options).unwrap();
    let late = Task::spawn(move || late.read_lock().acquire()?.release());
    let position = await_position(&told, 2);
    let first = position.first.unwrap();
    assert_eq!((first.kind, first.holds), (Kind::Read, true));
    read.release().unwrap();
    write.result("the writer").unwrap();
    late.result("the late reader").unwrap();
}

#[test]
fn position_is_told_on_the_waiting_thread_and_after_a_cut() {
    let (proxy, path) = (shared_proxy(), fresh_path("place-cut"));
    let held = lock_of(&client(), &path).acquire().unwrap();
    let own = client_of(&proxy.connect_string(), SESSION);
    let (say, told) = unbounded();
    let options = LockOptions::new().on_queue_position(OFTEN, move |position| {
        let _ = say.send((std::thread::current().id(), position.ahead));
    });
    let lock = DistributedLock::with_options(&own, &path, options).unwrap();
    let waiting = Task::spawn(move || {
        let got = lock.acquire();
        (std::thread::current().id(), got)
    });
    told.recv_timeout(SOON).unwrap();
    proxy.cut();
    await_resumed(&own, 1);
    while told.try_recv().is_ok() {}
    let after = told.recv_timeout(SOON).unwrap();
    held.release().unwrap();
    let (thread, got) = waiting.result("its turn");
    assert_eq!(after, (thread, 1));
    got.unwrap().release().unwrap();
}

#[test]
fn panic_in_the_position_callback_leaves_no_node() {
    every_subject_that(
        |subject| subject.is_plain() && subject.queues(),
        |subject| {
            let ([ours, others], path) = ([client(), client()], fresh_path("place-panic"));
            let rival = subject.rival(&others, &path);
            rival.lock().unwrap();
            let panics = LockOptions::new().on_queue_position(OFTEN, |_| panic!("on purpose"));
            let object = subject.with(&ours, &path, panics);
            let waiting = object.clone();
            assert!(std::thread::spawn(move || waiting.lock()).join().is_err());
            subject.await_nodes(&path, subject.nodes_of_one());
            rival.unlock().unwrap();
            // Its local level is free again.
            object.lock().unwrap();
            object.unlock().unwrap();
        },
    );
}

#[test]
fn position_without_an_interval_is_refused() {
    let (client, path) = (client(), fresh_path("place-zero"));
    let least = Duration::from_millis(10);
    for every in [Duration::ZERO, Duration::from_nanos(1), least - Duration::from_nanos(1)] {
        let options = || telling(every).0;
        for seen in [
            DistributedLock::with_options(&client, &path, options()).map(drop),
            DistributedReentrantLock::with_options(&client, &path, options()).map(drop),
            DistributedRwLock::with_options(&client, &path, options()).map(drop),
            DistributedSemaphore::with_options(&client, &path, 1, options()).map(drop),
            EphemeralLock::with_options(&client, &path, options()).map(drop),
            Leadership::new(&client, &*path, options(), |_| {}).map(drop),
        ] {
            println!("{seen:?}");
            let named = matches!(&seen, Err(Error::InvalidArgument { what: "on_queue_position", reason })
                if reason.contains(&format!("{every:?}")));
            assert!(named, "{every:?}: {seen:?}");
        }
    }
    DistributedLock::with_options(&client, &path, telling(least).0).unwrap();
}

#[test]
fn one_position_report_costs_one_read_before_a_deadline() {
    let (client, path) = (client(), fresh_path("place-deadline"));
    let held = lock_of(&client, &path).acquire().unwrap();
    let lists = |client: &Client, proxy: &zoolock_test_support::FaultProxy, options| {
        let lock = DistributedLock::with_options(client, &path, options).unwrap();
        let before = [Op::GetChildren, Op::GetData].map(|op| proxy.requests(op));
        // The end of the own node would cause a look if it came before the call ends.
        let end = proxy.on(Op::Delete).hold_request();
        let waited = lock.try_lock_for(BRIEFLY);
        assert!(matches!(waited, Ok(false)), "{waited:?}");
        let after = [Op::GetChildren, Op::GetData].map(|op| proxy.requests(op));
        assert!(end.wait(SOON), "{:#?}", proxy.log());
        after.iter().sum::<u64>() - before.iter().sum::<u64>()
    };
    let (proxy, asking) = behind_a_proxy(SESSION);
    // The first wait reads whether it may read.
    lists(&asking, &proxy, LockOptions::new());
    let without = lists(&asking, &proxy, LockOptions::new());
    let (options, told) = telling(NEVER);
    let once = lists(&asking, &proxy, options);
    assert_eq!(told.len(), 1);
    println!("reads: {without} without, {once} with one look");
    assert_eq!(once, without + 1);
    held.release().unwrap();
}
