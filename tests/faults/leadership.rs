//! `Leadership` over cuts, outages and the ends of sessions.

use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, unbounded};
use zoolock::{Client, ClientState, Hold, HoldState, Leadership, LockOptions};
use zoolock_test_support::{FaultProxy, fresh_path, wait_until};

use common::{SOON, await_nodes, await_resumed, client_of, shared_proxy};

/// No lease ends in it, however slow the machine is.
const LONG: Duration = Duration::from_secs(30);

/// Leads behind a proxy of its own, and tells of its terms.
struct Candidate {
    proxy: FaultProxy,
    client: Client,
    leadership: Leadership,
    terms: Receiver<Hold>,
}

impl Candidate {
    fn start(path: &str, session_timeout: Duration) -> Candidate {
        let (proxy, (tell, terms)) = (shared_proxy(), unbounded());
        let client = client_of(&proxy.connect_string(), session_timeout);
        let leadership = Leadership::new(&client, path, LockOptions::new(), move |term| {
            let _ = tell.send(Hold::clone(term));
            while !term.wait(LONG) {}
        });
        Candidate { proxy, client, leadership: leadership.unwrap(), terms }
    }

    #[track_caller]
    fn leads(&self) -> Hold {
        self.terms.recv_timeout(SOON).expect("it leads in the end")
    }
}

fn token(hold: &Hold) -> u64 {
    hold.fencing_token().unwrap()
}

#[test]
fn a_term_goes_on_over_a_cut_and_whoever_waits_keeps_its_place() {
    let path = fresh_path("leads-over-a-cut");
    let leader = Candidate::start(&path, LONG);
    let term = leader.leads();
    let next = Candidate::start(&path, LONG);
    let nodes = await_nodes(&path, 2);
    for times in 1..=3 {
        for candidate in [&leader, &next] {
            candidate.proxy.cut();
            await_resumed(&candidate.client, times);
            assert!(candidate.leadership.health());
        }
    }
    assert_eq!((term.state(), await_nodes(&path, 2)), (HoldState::Held, nodes));
    assert!(leader.leadership.is_leader() && leader.terms.is_empty());
    leader.leadership.shutdown();
    assert!(token(&next.leads()) > token(&term));
    next.leadership.shutdown();
}

#[test]
fn whoever_has_lost_its_session_leads_again_behind_the_others() {
    let path = fresh_path("leads-again");
    let mut leader = Candidate::start(&path, LONG);
    let mut last = leader.leads();
    let mut next = Candidate::start(&path, LONG);
    for round in 0..4 {
        await_nodes(&path, 2);
        assert_eq!(leader.proxy.expire_sessions().unwrap(), 1);
        let term = next.leads();
        println!("round {round}: term {}", token(&term));
        assert!(token(&term) > token(&last));
        wait_until("the one before knows", SOON, || !last.is_held());
        assert!(next.leadership.is_leader() && !leader.leadership.is_leader());
        (leader, next, last) = (next, leader, term);
    }
    [leader, next].into_iter().for_each(|candidate| candidate.leadership.shutdown());
}

#[test]
fn without_servers_its_health_is_bad_and_it_leads_again_when_they_are_back() {
    let path = fresh_path("leads-later");
    let one = Candidate::start(&path, Duration::from_secs(1));
    let term = one.leads();
    one.proxy.refuse(true);
    one.proxy.cut();
    wait_until("its term is over", SOON, || !term.is_held());
    assert!(!one.leadership.is_leader());
    wait_until("its health is bad", SOON, || !one.leadership.health());
    assert_eq!(one.client.state(), ClientState::Lost);
    one.proxy.refuse(false);
    assert!(token(&one.leads()) > token(&term));
    assert!(one.leadership.health() && one.leadership.is_leader());
    one.leadership.shutdown();
    await_nodes(&path, 0);
}
