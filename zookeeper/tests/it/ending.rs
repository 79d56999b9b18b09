//! Ends of clients and calls, and of their resources.

mod closing;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock_test_support::{connect_string, shared_probe, wait_until};
use zoolock_zookeeper::ZooKeeper;

use crate::util::{
    SESSION, SOON, client, client_of, files, in_own_process, make_ephemeral, of_clients, resident,
    root, threads,
};

/// For a server that is busy and may be silent for long.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn ten_thousand_clients_leave_no_thread_and_no_file_behind() {
    in_own_process(|| {
        const CLIENTS: usize = 10_000;
        // The first client also creates what every process keeps.
        client().close().unwrap();
        // An ended thread vanishes a moment later.
        wait_until("its threads are gone", SOON, || of_clients() == 0);
        let before = files();
        let begun = Instant::now();
        let next = AtomicUsize::new(0);
        let run = |most: usize| {
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        while next.fetch_add(1, Ordering::SeqCst) < most {
                            client_of(&connect_string(), LONG).close().unwrap();
                        }
                    });
                }
            });
        };
        run(CLIENTS / 4);
        let middle = resident();
        run(CLIENTS);
        wait_until("the last threads are gone", SOON, || of_clients() == 0);
        let (after, memory) = (files(), resident());
        println!(
            "{CLIENTS} clients in {:?}: {:?}, {after} files; {middle} KiB after a quarter, {memory} in the end",
            begun.elapsed(),
            threads()
        );
        assert_eq!(after, before);
        assert!(memory < middle + 4096, "from {middle} to {memory} KiB");
    });
}

#[test]
fn drop_of_the_last_clone_ends_threads_and_session() {
    in_own_process(|| {
        let (root, probe) = (root("dropped"), shared_probe().unwrap());
        let files_before = files();
        let clients: Vec<ZooKeeper> = (0..50).map(|_| client()).collect();
        for (number, client) in clients.iter().enumerate() {
            make_ephemeral(client, &format!("{root}/{number}"));
        }
        // A thread that has not run yet has the name of its creator.
        wait_until("all threads have their names", SOON, || of_clients() == 100);
        assert_eq!(probe.children(&root).unwrap().len(), 50);
        let clones = clients.clone();
        let others: Vec<_> = clients.iter().map(|client| client.with_timeout(SESSION)).collect();
        let keepers: Vec<_> = clients.iter().map(ZooKeeper::keep_lease).collect();
        drop((clients, others, clones));
        assert!(
            keepers.len() == 50 && of_clients() == 100,
            "whoever keeps a lease keeps the client"
        );
        assert_eq!(probe.children(&root).unwrap().len(), 50);
        let begun = Instant::now();
        drop(keepers);
        let dropping = begun.elapsed();
        wait_until("the threads have ended", SOON, || of_clients() == 0);
        println!("dropped in {dropping:?}, ended {:?} later", begun.elapsed() - dropping);
        wait_until("the sessions have ended", SOON, || probe.children(&root).unwrap().is_empty());
        assert_eq!(files(), files_before);
    });
}
