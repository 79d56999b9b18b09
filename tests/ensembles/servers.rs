//! Members are killed, stopped, paused and restarted, and no lock and no place is lost.

use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, HoldState};
use zoolock_test_support::{Ensemble, Probe, wait_until};

use super::tokens::Tokens;
use super::{Looker, Ways, start, three};
use common::line::Line;
use common::{SOON, client_of, hold_of, lock_of};

const T: Duration = Duration::from_secs(10);

/// Longer than an election takes on a busy machine.
const LONG: Duration = Duration::from_secs(40);

/// A lock that is held, the line behind it, and what was there before the fault.
struct Queue {
    lock: DistributedLock,
    line: Line,
    node: String,
    token: u64,
    nodes: Vec<String>,
}

/// Locks that are held and waited for by several clients.
struct Queues {
    clients: Vec<Client>,
    looker: Looker,
    queues: Vec<Queue>,
}

impl Queues {
    /// Each lock is held by one of the clients, and these wait in turns.
    fn of(clients: Vec<Client>, looker: Looker, locks: usize, waiters: usize) -> Queues {
        let mut all = Queues { clients, looker, queues: Vec::new() };
        for number in 0..locks {
            let path = format!("/locks/{number}");
            let lock = lock_of(&all.clients[number % all.clients.len()], &path);
            lock.lock().unwrap();
            all.looker.await_children(&path, 1);
            let mut line = Line::at(&path);
            for waiter in 0..waiters {
                let client = &all.clients[waiter % all.clients.len()];
                let looker = &mut all.looker;
                line.join_seen_by(client, || looker.children(&path).len());
            }
            let hold = hold_of(&lock);
            all.queues.push(Queue {
                node: hold.node(),
                token: hold.fencing_token().unwrap(),
                nodes: all.looker.children(&path),
                line,
                lock,
            });
        }
        all
    }

    /// All sessions have been resumed on other connections; every hold is still the same one, every
    /// place the same, and the turns go on in order.
    fn all_is_kept_over_the_resumes(self) {
        let took = await_all_resumed(&self.clients);
        self.all_is_kept(took);
    }

    fn all_is_kept(mut self, took: Duration) {
        let lost: u64 = self.clients.iter().map(|client| client.stats().holds_lost).sum();
        let resumed: Vec<_> = self.clients.iter().map(|client| client.stats().resumed).collect();
        println!("sessions resumed {resumed:?} times, the last {took:?} later, {lost} lost");
        for queue in self.queues {
            let Queue { lock, line, node, token, nodes } = queue;
            let path = lock.path().to_owned();
            let hold = hold_of(&lock);
            wait_until(&format!("{path} is held and not suspended"), SOON, || {
                assert!(hold.is_held(), "{hold:?}");
                hold.state() == HoldState::Held
            });
            let mut seen = Vec::new();
            wait_until(&format!("{path} has the same nodes: {nodes:?}"), SOON, || {
                seen = self.looker.children(&path);
                seen == nodes
            });
            assert!(!line.is_let_in(), "{path}: {seen:?}");
            assert_eq!(hold.node(), node);
            assert_eq!(hold.fencing_token().unwrap(), token);
            lock.unlock().unwrap();
            line.comes_in_order();
        }
        assert!(self.clients.iter().all(|client| client.stats().sessions == 1));
        assert_eq!(lost, 0);
    }
}

fn await_all_resumed(clients: &[Client]) -> Duration {
    wait_until("all sessions are resumed", SOON, || {
        clients.iter().all(|client| client.stats().resumed > 0)
    })
}

#[test]
fn a_killed_leader_costs_no_lock_and_no_place_and_tokens_rise_over_it() {
    let ensemble = three();
    let hosts = ensemble.connect_string();
    let clients: Vec<_> = (0..3).map(|_| client_of(&hosts, LONG)).collect();
    let mut tokens = Tokens::default();
    tokens.turn(&clients[0], "/tokens", "nothing");
    let looker = Looker::at(ensemble.addresses());
    let queues = Queues::of(clients.clone(), looker, 4, 6);
    let begun = Instant::now();
    let first = ensemble.kill_leader().unwrap();
    let next = ensemble.leader().unwrap();
    println!("{next} leads {:?} after {first} was killed", begun.elapsed());
    assert_ne!(first, next);
    // The others close their clients' connections to look for a leader.
    queues.all_is_kept_over_the_resumes();
    tokens.turn(&clients[1], "/tokens", "another leader was elected");
    ensemble.server(first).start_again().unwrap();
    ensemble.wait_ready().unwrap();
    ensemble.kill_leader().unwrap();
    tokens.turn(&clients[2], "/tokens", "a third leader was elected");
    tokens.rise();
}

#[test]
fn a_member_paused_for_longer_than_a_session_costs_no_lock_and_no_place() {
    const SHORT: Duration = Duration::from_secs(5);
    let ensemble = three();
    let leader = ensemble.leader().unwrap();
    let follower = ensemble.followers().unwrap()[0];
    let ways = Ways::to(&ensemble);
    let on_follower = ways.client_on(follower, SHORT);
    let on_leader = client_of(&ensemble.server(leader).connect_string(), T);
    let looker = Looker::at(vec![ensemble.server(leader).address()]);
    let queues = Queues::of(vec![on_follower.clone(), on_leader], looker, 2, 4);
    let begun = Instant::now();
    ensemble.server(follower).pause().unwrap();
    let resumed = await_all_resumed(std::slice::from_ref(&on_follower));
    wait_until("it has been paused for longer", SOON, || begun.elapsed() > SHORT * 2);
    ensemble.server(follower).resume().unwrap();
    ensemble.wait_ready().unwrap();
    println!("resumed after {resumed:?}, ready again after {:?}", begun.elapsed());
    let probe = Probe::connect(ensemble.server(follower).address()).unwrap();
    println!("on the follower: {:?}", probe.children("/locks/0").unwrap());
    // The other client has nothing to do with it.
    queues.all_is_kept(resumed);
}

#[test]
fn a_leader_paused_for_longer_than_a_session_costs_no_lock_and_no_place() {
    // The others elect another one after 2 s.
    let ensemble = start(Ensemble::builder(3).sync_limit(4));
    let leader = ensemble.leader().unwrap();
    let follower = ensemble.followers().unwrap()[0];
    let ways = Ways::to(&ensemble);
    let clients = [leader, follower].map(|member| ways.client_on(member, T));
    let looker = Looker::at(vec![ensemble.server(follower).address()]);
    let queues = Queues::of(clients.to_vec(), looker, 2, 4);
    let begun = Instant::now();
    ensemble.server(leader).pause().unwrap();
    let resumed = await_all_resumed(&clients);
    wait_until("it has been paused for longer", SOON, || begun.elapsed() > T + T / 10);
    ensemble.server(leader).resume().unwrap();
    ensemble.wait_ready().unwrap();
    let next = ensemble.leader().unwrap();
    println!("resumed after {resumed:?}, {next} leads, not {leader}, after {:?}", begun.elapsed());
    assert_ne!(next, leader);
    queues.all_is_kept_over_the_resumes();
}

#[test]
fn a_restart_of_all_one_after_another_costs_no_lock_and_no_place() {
    let ensemble = three();
    let hosts = ensemble.connect_string();
    let clients = (0..4).map(|_| client_of(&hosts, LONG)).collect();
    let looker = Looker::at(ensemble.addresses());
    let queues = Queues::of(clients, looker, 8, 8);
    let begun = Instant::now();
    ensemble.rolling_restart().unwrap();
    println!("all restarted in {:?}", begun.elapsed());
    queues.all_is_kept_over_the_resumes();
}
