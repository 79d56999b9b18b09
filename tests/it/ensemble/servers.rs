//! Members are killed, stopped, paused and restarted, and no lock and no place is lost.

use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, HoldState};
use zoolock_test_support::{Ensemble, Probe, wait_until};

use super::{Looker, Ways};
use crate::faults::{Line, Tokens};
use crate::lock::core::hold_of;
use crate::util::{SOON, client_of, lock_of, place, places_of};

const T: Duration = Duration::from_secs(10);

/// A lock that is held, the line behind it, and what was there before the fault.
struct Queue {
    lock: DistributedLock,
    line: Line,
    node: String,
    token: u64,
    places: Vec<String>,
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
                places: places_of(&all.looker.children(&path)),
                line,
                lock,
            });
        }
        all
    }

    fn moved(&self) -> u64 {
        self.clients.iter().map(|client| client.stats().seats_moved).sum()
    }

    /// Each seat has moved at least once; every hold is still the same one, every place the same,
    /// and the turns go on in order.
    fn all_is_kept_over_moves(self, moves: u64) {
        let begun = Instant::now();
        wait_until(&format!("{moves} seats have moved"), SOON, || self.moved() >= moves);
        let moved = self.moved();
        let lost: u64 = self.clients.iter().map(|client| client.stats().seats_lost).sum();
        println!("{moved} seats moved, the last {:?} later, {lost} lost", begun.elapsed());
        self.all_is_kept();
        assert_eq!(lost, 0);
    }

    fn all_is_kept(mut self) {
        for queue in self.queues {
            let Queue { lock, line, node, token, places } = queue;
            let path = lock.path().to_owned();
            let hold = hold_of(&lock);
            wait_until(&format!("{path} is held and not suspended"), SOON, || {
                assert!(hold.is_held(), "{hold:?}");
                hold.state() == HoldState::Held
            });
            let mut seen = Vec::new();
            wait_until(&format!("{path} has one node for each place: {places:?}"), SOON, || {
                seen = self.looker.children(&path);
                places_of(&seen) == places
            });
            assert!(!line.is_let_in(), "{path}: {seen:?}");
            assert_eq!(place(&hold.node()), place(&node));
            assert_eq!(hold.fencing_token().unwrap(), token);
            lock.unlock().unwrap();
            line.comes_in_order();
        }
    }
}

#[test]
fn a_killed_leader_costs_no_lock_and_no_place_and_tokens_rise_over_it() {
    let ensemble = Ensemble::start(3).unwrap();
    let hosts = ensemble.connect_string();
    let clients: Vec<_> = (0..3).map(|_| client_of(&hosts, T)).collect();
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
    queues.all_is_kept_over_moves(4 * 7);
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
    let ensemble = Ensemble::start(3).unwrap();
    let leader = ensemble.leader().unwrap();
    let follower = ensemble.followers().unwrap()[0];
    let ways = Ways::to(&ensemble);
    let on_follower = ways.client_on(follower, SHORT);
    let on_leader = client_of(&ensemble.server(leader).connect_string(), T);
    let looker = Looker::at(vec![ensemble.server(leader).address()]);
    let queues = Queues::of(vec![on_follower.clone(), on_leader], looker, 2, 4);
    let begun = Instant::now();
    ensemble.server(follower).pause().unwrap();
    // One of the two holds, and half of the eight waiters.
    let moved = wait_until("its seats have moved", SOON, || on_follower.stats().seats_moved == 5);
    wait_until("it has been paused for longer", SOON, || begun.elapsed() > SHORT * 2);
    ensemble.server(follower).resume().unwrap();
    ensemble.wait_ready().unwrap();
    println!("moved after {moved:?}, ready again after {:?}", begun.elapsed());
    // What the paused one remembers of the old session is nothing to the others.
    let probe = Probe::connect(ensemble.server(follower).address()).unwrap();
    println!("on the follower: {:?}", probe.children("/locks/0").unwrap());
    queues.all_is_kept_over_moves(5);
}

#[test]
fn a_leader_paused_for_longer_than_a_session_costs_no_lock_and_no_place() {
    // The others elect another one after 2 s.
    let ensemble = Ensemble::builder(3).sync_limit(4).start().unwrap();
    let leader = ensemble.leader().unwrap();
    let follower = ensemble.followers().unwrap()[0];
    let ways = Ways::to(&ensemble);
    let clients = [leader, follower].map(|member| ways.client_on(member, T));
    let looker = Looker::at(vec![ensemble.server(follower).address()]);
    let queues = Queues::of(clients.to_vec(), looker, 2, 4);
    let begun = Instant::now();
    ensemble.server(leader).pause().unwrap();
    let moved = wait_until("all seats have moved", SOON, || queues.moved() >= 10);
    wait_until("it has been paused for longer", SOON, || begun.elapsed() > T + T / 10);
    ensemble.server(leader).resume().unwrap();
    ensemble.wait_ready().unwrap();
    let next = ensemble.leader().unwrap();
    println!("moved after {moved:?}, {next} leads instead of {leader} after {:?}", begun.elapsed());
    assert_ne!(next, leader);
    queues.all_is_kept_over_moves(10);
}

#[test]
fn a_restart_of_all_one_after_another_costs_no_lock_and_no_place() {
    let ensemble = Ensemble::start(3).unwrap();
    let hosts = ensemble.connect_string();
    let clients = (0..4).map(|_| client_of(&hosts, T)).collect();
    let looker = Looker::at(ensemble.addresses());
    let queues = Queues::of(clients, looker, 8, 8);
    let begun = Instant::now();
    ensemble.rolling_restart().unwrap();
    println!("all restarted in {:?}", begun.elapsed());
    queues.all_is_kept_over_moves(8 * 9);
}
