//! Leader election: whoever has the lock leads, until it steps down or the lock is lost.
//!
//! ```text
//! cargo run --example leader_election
//! ```
//!
//! Three candidates, each with a client of its own, as if on machines of their own. Ann steps down
//! after her term, Bob goes away in the middle of his, Cid leads until his work is done. The terms are
//! numbered by the fencing token: whoever gets orders from a leader refuses those of an earlier term.
//! The program checks that there was never a second leader, and that the terms rose.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::error::Error;
use std::thread;
use std::time::Duration;

use zoolock::crossbeam_channel::{Sender, after, select, unbounded};
use zoolock::{Client, DistributedLock, Guard, Hold};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const TERM: Duration = Duration::from_millis(500);

/// One who wants to lead.
struct Candidate {
    name: &'static str,
    client: Client,
    lock: DistributedLock,
}

impl Candidate {
    fn new(servers: &str, name: &'static str) -> zoolock::Result<Candidate> {
        let client = Client::builder(servers).identity(name).connect()?;
        let lock = DistributedLock::new(&client, "/zoolock-examples/leader")?;
        Ok(Candidate { name, client, lock })
    }

    /// Waits until it is elected. It leads for as long as the guard says that the lock is held.
    fn campaign(&self) -> zoolock::Result<Guard> {
        self.lock.acquire()
    }

    /// Who leads: for people to look at, since it may be out of date when it arrives.
    fn leader(&self) -> zoolock::Result<Option<String>> {
        let holder = self.lock.contenders()?.into_iter().find(|one| one.holds);
        Ok(holder.and_then(|holder| holder.identity))
    }
}

/// What a leader does: its work, until that is done or it leads no more.
fn lead(term: &Hold) {
    select! {
        recv(term.lost()) -> _ => {}
        recv(after(TERM)) -> _ => {}
    }
}

/// What the witness is told.
enum News {
    Leads(&'static str, u64),
    Ends(&'static str),
}

fn one_term(candidate: &Candidate, tell: &Sender<News>) -> Outcome<()> {
    let term = candidate.campaign()?;
    tell.send(News::Leads(candidate.name, term.fencing_token()?))?;
    let leader = candidate.leader()?.unwrap_or("nobody".into());
    println!("{} says that {leader} leads", candidate.name);
    lead(&term);
    tell.send(News::Ends(candidate.name))?;
    if candidate.name == "Bob" {
        candidate.client.close()?; // The next one need not wait for the end of the session.
        return match term.release() {
            Err(error) if error.is_lost() => Ok(()),
            other => Err(format!("the lock outlived its client: {other:?}").into()),
        };
    }
    Ok(term.release()?)
}

fn run() -> Outcome<()> {
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let (tell, news) = unbounded();
    let candidates: Vec<_> = ["Ann", "Bob", "Cid"]
        .into_iter()
        .map(|name| Candidate::new(servers, name))
        .collect::<Result<_, _>>()?;
    let campaigns: Vec<_> = candidates
        .into_iter()
        .map(|candidate| (candidate, tell.clone()))
        .map(|(candidate, tell)| thread::spawn(move || one_term(&candidate, &tell)))
        .collect();
    drop(tell);

    let (mut leader, mut last) = (None, 0);
    for news in news {
        match news {
            News::Leads(name, term) => {
                println!("{name} leads, term {term}");
                if let Some(other) = leader.replace(name) {
                    return Err(format!("{other} and {name} lead at once").into());
                }
                if term <= last {
                    return Err(format!("term {term} comes after term {last}").into());
                }
                last = term;
            }
            News::Ends(name) => {
                println!("{name} leads no more");
                leader = None;
            }
        }
    }
    for campaign in campaigns {
        campaign.join().map_err(|_| "a candidate panicked")??;
    }
    println!("three terms, one leader at a time");
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("leader_election: {error}");
        std::process::exit(1);
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use zoolock::testing::Server;

    use super::*;

    #[test]
    fn a_leader_whose_session_has_ended_leads_no_more_and_the_next_term_is_higher() {
        let server = Server::start().expect("a server");
        let [ann, bob] = ["Ann", "Bob"]
            .map(|name| Candidate::new(&server.connect_string(), name).expect("a candidate"));
        let first = ann.campaign().unwrap();
        assert_eq!(bob.leader().unwrap().as_deref(), Some("Ann"));
        server.expire(&ann.client);
        lead(&first); // returns
        assert!(!first.is_held());
        let second = bob.campaign().unwrap();
        assert_eq!(ann.leader().unwrap().as_deref(), Some("Bob"));
        assert!(second.fencing_token().unwrap() > first.fencing_token().unwrap());
        assert!(first.release().is_err_and(|error| error.is_lost()));
    }

    #[test]
    fn a_leader_leads_on_while_suspended() {
        let server = Server::start().expect("a server");
        let ann = Candidate::new(&server.connect_string(), "Ann").expect("a candidate");
        let term = ann.campaign().unwrap();
        server.suspend(&ann.client);
        assert!(term.is_held());
        server.resume(&ann.client);
        term.release().unwrap();
    }
}
