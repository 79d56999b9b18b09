//! Members are killed, stopped, paused and restarted. Holds and positions in queues survive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, HoldState};

use super::{Ways, await_nodes, client_at, nodes, start, three};
use common::line::Line;
use common::*;

/// Long enough that holds survive an election on a busy machine.
const T: Duration = Duration::from_secs(20);

/// Longer than an election takes on a busy machine.
const LONG: Duration = Duration::from_secs(40);

/// The holder's node and token, and the names of all nodes.
type Before = (String, u64, Vec<String>);

/// Locks that several clients hold and wait for.
struct Queues {
    clients: Vec<Client>,
    looker: Client,
    /// Each lock, its queue, and the state of both before the fault.
    queues: Vec<(DistributedLock, Line, Before)>,
}

impl Queues {
    /// Creates `locks` locks. Each is held by one of the clients, and all others wait for it.
    fn of(clients: &[Client], looker: Client, locks: usize) -> Queues {
        let mut queues = Vec::new();
        for number in 0..locks {
            let lock = lock_of(&clients[number % clients.len()], &format!("/locks/{number}"));
            lock.lock().unwrap();
            await_nodes(&looker, lock.path(), 1);
            let mut line = Line::at(lock.path());
            for waiter in 1..clients.len() {
                let client = &clients[(number + waiter) % clients.len()];
                line.join_seen_by(client, || nodes(&looker, lock.path()).len());
            }
            let hold = lock.hold().unwrap();
            let before = (hold.node(), hold.fencing_token(), nodes(&looker, lock.path()));
            queues.push((lock, line, before));
        }
        Queues { clients: clients.to_vec(), looker, queues }
    }

    /// Expects that no hold and no position in a queue has changed, and that the locks are granted in order.
    fn are_kept(self) {
        for (lock, line, before) in self.queues {
            let (path, hold) = (lock.path(), lock.hold().expect("it is held"));
            wait_until(&format!("{path} is held and not suspended"), SOON, || {
                assert!(hold.is_held(), "{hold:?}");
                hold.state() == HoldState::Held
            });
            wait_until(&format!("{path} has the same nodes: {before:?}"), SOON, || {
                (hold.node(), hold.fencing_token(), nodes(&self.looker, path)) == before
            });
            assert_eq!(line.let_in(), 0, "{path}");
            lock.unlock().unwrap();
            line.comes_in_order();
        }
        for client in &self.clients {
            let stats = client.stats();
            assert_eq!((stats.sessions, stats.holds_lost), (1, 0), "{stats:?}");
        }
    }
}

fn await_all_resumed(clients: &[Client]) {
    for client in clients {
        await_resumed(client, 1);
    }
}

#[test]
fn long_paused_member_costs_no_lock_and_no_position() {
    for of_leader in [false, true] {
        // If the leader is paused, the other members elect a new one after 2 s.
        let (_running, ensemble) = start(Ensemble::builder(3).sync_limit(4));
        let leader = ensemble.leader().unwrap();
        let follower = ensemble.followers().unwrap()[0];
        let ways = Ways::to(&ensemble);
        let clients = [follower, leader, leader, follower].map(|member| ways.client_on(member, T));
        let (paused, other) = if of_leader { (leader, follower) } else { (follower, leader) };
        let looker = client_at(&ensemble, other, T);
        // Each client holds a lock, because a client that only waits takes longer to abandon a silent server.
        let queues = Queues::of(&clients, looker, 4);
        let begun = Instant::now();
        ensemble.server(paused).pause().unwrap();
        // If a follower is paused, a client of the leader is not affected.
        await_all_resumed(if of_leader { &clients } else { &clients[..1] });
        wait_until("it has been paused for longer", SOON, || begun.elapsed() > T + T / 10);
        ensemble.server(paused).resume().unwrap();
        ensemble.wait_ready().unwrap();
        println!("of the leader: {of_leader}, ready again after {:?}", begun.elapsed());
        assert_eq!(ensemble.leader().unwrap() != leader, of_leader);
        queues.are_kept();
    }
}

#[test]
fn rolling_restart_costs_no_lock_and_no_position_and_tokens_grow() {
    let (_running, ensemble, ..) = three();
    let clients = [(); 8].map(|()| client_of(&ensemble.connect_string(), LONG));
    let token = |client| lock_of(client, "/tokens").acquire().unwrap().fencing_token();
    let first = token(&clients[0]);
    let queues = Queues::of(&clients, client_of(&ensemble.connect_string(), LONG), 8);
    ensemble.rolling_restart().unwrap();
    await_all_resumed(&clients);
    // Each new leader starts a new epoch, in which the counter part of the transaction ids restarts.
    let second = token(&clients[1]);
    queues.are_kept();
    ensemble.kill_leader().unwrap();
    let third = token(&clients[2]);
    assert!(first < second && second < third, "{first} {second} {third}");
}

/// If threads share an object, one transaction replaces the node of one thread by that of the next. If they use
/// different paths, they share transactions. The answers contain no stat, so tokens are taken from the headers.
#[test]
fn tokens_of_transactions_are_czxids_through_a_follower() {
    const TURNS: usize = 100;
    let (_running, ensemble, _, follower) = three();
    let follower = ensemble.server(follower);
    let probe = Probe::connect(follower.address()).unwrap();
    let elsewhere = client_of(&ensemble.connect_string(), T);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Other transactions are executed in between.
        scope.spawn(|| {
            let other = lock_of(&elsewhere, "/others");
            while !is_over.load(Ordering::Relaxed) {
                other.acquire().unwrap().release().unwrap();
            }
        });
        let client = client_of(&follower.connect_string(), T);
        let take_turns = |path: String, lock: DistributedLock| {
            for _ in 0..TURNS {
                let guard = lock.acquire().unwrap();
                let path = format!("{path}/{}", guard.node());
                let czxid = probe.stat(&path).unwrap().expect("the node is held").czxid;
                assert_eq!(guard.fencing_token(), czxid.unsigned_abs(), "{path}");
            }
        };
        thread::scope(|turns| {
            let shared = lock_of(&client, "/shared");
            for thread in 0..4 {
                let (own, shared) = (format!("/own/{thread}"), shared.clone());
                let lock = lock_of(&client, &own);
                turns.spawn(|| take_turns("/shared".to_owned(), shared));
                turns.spawn(|| take_turns(own, lock));
            }
        });
        is_over.store(true, Ordering::Relaxed);
    });
}
