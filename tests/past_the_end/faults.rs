//! A server that is lost after the end of the numbers. Lost answers and cuts there belong to the
//! simulation, in which some directories have used up their numbers.

use std::time::Duration;

use zoolock::{DistributedLock, Error};
use zoolock_test_support::crowd::{self, Access, Taker};
use zoolock_test_support::{CountingServer, Probe, wait_until};

use super::{END, nodes, number};
use common::{SOON, client_of, hold_of};

/// Sessions are resumed, or end with their lease; the number is still at its end afterwards.
#[test]
fn a_server_that_is_killed_past_the_end_goes_on_there() {
    if CountingServer::shared().is_none() {
        return;
    }
    let server = CountingServer::start().unwrap();
    let path = "/killed";
    let probe = Probe::connect(server.address()).unwrap();
    probe.create_all(path).unwrap();
    server.set_counter(path, END - 3).unwrap();
    drop(probe);
    let session = Duration::from_secs(6);
    let clients: Vec<_> = (0..3).map(|_| client_of(&server.connect_string(), session)).collect();
    let taker = |at: usize| -> Taker {
        let lock = DistributedLock::new(&clients[at % 3], path).unwrap();
        Box::new(move |witness| {
            lock.lock()?;
            let hold = hold_of(&lock);
            let token = hold.fencing_token();
            if hold.valid_for() > session / 4 {
                witness.visit(Access::Alone, token, &hold.node(), std::thread::yield_now);
            }
            match lock.unlock() {
                Ok(()) | Err(Error::Lost { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            }
        })
    };
    let takers: Vec<_> = (0..6).map(taker).collect();
    let crowd = common::Task::spawn(move || crowd::run(takers, 40, Duration::from_secs(100)));
    let probe = Probe::connect(server.address()).unwrap();
    wait_until("they are past the end", SOON, || {
        nodes(&probe, path).iter().any(|node| !(0..END).contains(&number(node)))
    });
    server.kill().unwrap();
    server.start_again().unwrap();
    wait_until("all have had their turns", Duration::from_secs(100), || crowd.is_done());
    let seen = crowd.result("the crowd");
    println!("{seen:?}");
    seen.assert_apart();
    seen.assert_in_order();
    let probe = Probe::connect(server.address()).unwrap();
    wait_until("nothing is left", SOON, || nodes(&probe, path).is_empty());
    let next = probe.create(&format!("{path}/n-"), b"", true, true).unwrap();
    assert_eq!(next, format!("{path}/n-2147483647"));
}
