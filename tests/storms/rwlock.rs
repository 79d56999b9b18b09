//! Readers, writers and downgrades whose connections are cut, witnessed without the help of any lock.

use std::thread;
use std::time::Duration;

use zoolock::{DistributedRwLock, Error, Hold, Lock};
use zoolock_test_support::crowd::{self, Access, Taker, Witness};
use zoolock_test_support::{fresh_path, wait_until};

use common::{SOON, Task, await_resumed, children, client_of, shared_proxy};

const CLIENTS: usize = 3;
const CUTS: usize = 30;

fn visit(witness: &Witness, access: Access, lock: &impl Lock) -> Hold {
    let hold = lock.holds().pop().expect("it is held");
    let stay = || thread::sleep(Duration::from_millis(1));
    witness.visit(access, hold.fencing_token().unwrap(), &hold.node(), stay);
    hold
}

/// One thread's turns: reads, writes and downgrades through one object.
fn taker(lock: DistributedRwLock, mut turn: usize) -> Taker {
    let (read, write) = (lock.read_lock(), lock.write_lock());
    Box::new(move |witness| {
        turn += 1;
        match turn % 5 {
            0 => {
                write.lock()?;
                let written = visit(witness, Access::Alone, &write);
                read.lock()?;
                write.unlock()?;
                let reading = visit(witness, Access::Shared, &read);
                assert_eq!(reading.fencing_token()?, written.fencing_token()?);
                read.unlock()?;
            }
            1 => {
                let _writing = write.acquire()?;
                visit(witness, Access::Alone, &write);
            }
            // It does not wait for a connection.
            2 => match read.try_lock() {
                Ok(true) => {
                    visit(witness, Access::Shared, &read);
                    read.unlock()?;
                }
                Ok(false) | Err(Error::Disconnected { .. }) => {}
                Err(error) => return Err(error.into()),
            },
            _ => {
                let _reading = read.acquire()?;
                let _again = read.acquire()?;
                visit(witness, Access::Shared, &read);
            }
        }
        Ok(())
    })
}

#[test]
fn threads_of_shared_objects_that_downgrade_while_connections_are_cut_keep_the_rules() {
    let path = fresh_path("load-cut");
    let proxies = [(); CLIENTS].map(|()| shared_proxy());
    // Long enough for this machine under any load.
    let session = Duration::from_secs(20);
    let clients = proxies.each_ref().map(|proxy| client_of(&proxy.connect_string(), session));
    let lock = |at: usize| DistributedRwLock::new(&clients[at % CLIENTS], &path).unwrap();
    let takers = (0..CLIENTS * 3).map(|at| taker(lock(at), at)).collect();
    let crowd = Task::spawn(move || crowd::run(takers, 30, Duration::from_secs(100)));
    let mut cuts = 0;
    while cuts < CUTS && !crowd.is_done() {
        let client = &clients[cuts % CLIENTS];
        let resumed = client.stats().resumed;
        proxies[cuts % CLIENTS].cut();
        await_resumed(client, resumed + 1);
        cuts += 1;
    }
    let seen = crowd.result("the crowd");
    println!("{cuts} cuts, {seen:?}");
    seen.assert_apart();
    seen.assert_in_order();
    assert!(seen.most_sharing() > 1, "no two readers have met");
    assert!(clients.iter().all(|client| client.stats().holds_lost == 0));
    wait_until("nothing is left", SOON, || children(&path).is_empty());
}
