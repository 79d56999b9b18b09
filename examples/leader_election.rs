//! Leader election: one of several processes leads, the others stand by.
//!
//! ```text
//! cargo run --example leader_election
//! ```
//!
//! There are three candidates, each with its own client, as if on separate machines. The first
//! leader steps down, the second receives a request to release the lock, and the third is shut
//! down. The first two contend again after their terms. The fencing token numbers the terms. A
//! leader announces its term before it does anything else. The receivers of its orders then refuse
//! orders of an earlier term. The program checks that there was never a second leader, and that the
//! numbers of the terms increased.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, Sender, unbounded};
use zoolock::{Client, Leadership, LockOptions, Term};

const PATH: &str = "/zoolock-examples/leader";
/// A leader steps down after this time.
const LONGEST: Duration = Duration::from_millis(300);

/// A message to the checker.
enum News {
    Leads(&'static str, u64),
    Ends(&'static str),
}

/// Runs as the leader. Real work would be in a loop, `while !term.wait_timeout(..) { .. }`, with each step
/// shorter than the time until `term.deadline()`.
fn lead(name: &'static str, term: &Term, tell: &Sender<News>) {
    let _ = tell.send(News::Leads(name, term.fencing_token()));
    let is_over = term.wait_timeout(LONGEST);
    println!("{name} {}", if is_over { "has to stop" } else { "steps down" });
    let _ = tell.send(News::Ends(name));
}

fn candidate(
    client: &Client,
    name: &'static str,
    tell: Sender<News>,
) -> zoolock::Result<Leadership> {
    let options = LockOptions::new().identity(name);
    Leadership::start_with_options(client, PATH, options, move |term| lead(name, term, &tell))
}

/// Checks that no two candidates lead at the same time.
struct Witness {
    news: Receiver<News>,
    leading: Option<&'static str>,
    last: u64,
}

impl Witness {
    fn next_leader(&mut self) -> Result<&'static str, Box<dyn Error>> {
        loop {
            match self.news.recv_timeout(Duration::from_secs(30))? {
                News::Ends(name) if self.leading.take() == Some(name) => {}
                News::Ends(name) => return Err(format!("{name} did not lead").into()),
                News::Leads(name, term) => {
                    println!("{name} leads, term {term}");
                    if let Some(other) = self.leading.replace(name) {
                        return Err(format!("{other} and {name} lead at once").into());
                    }
                    if term <= std::mem::replace(&mut self.last, term) {
                        return Err(format!("{term} is lower than the term before").into());
                    }
                    return Ok(name);
                }
            }
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let (tell, news) = unbounded();
    let mut candidates = BTreeMap::new();
    for name in ["Ann", "Bob", "Cid"] {
        let client = Client::connect(servers, Duration::from_secs(10))?;
        let leadership = candidate(&client, name, tell.clone())?;
        candidates.insert(name, (client, leadership));
    }

    let mut witness = Witness { news, leading: None, last: 0 };
    witness.next_leader()?; // which then steps down
    witness.next_leader()?;
    let (client, someone) = &candidates["Ann"];
    if let Some(leader) = someone.leader()? {
        let name = leader.identity.as_deref().unwrap_or("somebody");
        match client.revoke(&leader) {
            Err(zoolock::Error::NotHeld { .. }) => println!("{name} has stepped down by itself"),
            asked => {
                asked?;
                println!("{name} is asked to release");
            }
        }
    }
    let third = witness.next_leader()?;
    if let Some((_, leadership)) = candidates.remove(third) {
        leadership.shutdown();
        println!("{third} was shut down");
    }
    witness.next_leader()?;
    candidates.into_values().for_each(|(_, leadership)| leadership.shutdown());
    println!("four terms, one leader at a time");
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

    /// Reads messages up to the next start of a term.
    fn leads(news: &Receiver<News>) -> (&'static str, u64) {
        let mut terms = news.iter().filter_map(|news| match news {
            News::Leads(name, term) => Some((name, term)),
            News::Ends(_) => None,
        });
        terms.next().expect("another term")
    }

    #[test]
    fn standby_leads_when_the_leaders_session_ends() {
        let server = Server::start().expect("a server");
        let [first, second] = [server.client().unwrap(), server.client().unwrap()];
        let (tell, news) = unbounded();
        let ann = candidate(&first, "Ann", tell.clone()).unwrap();
        let (leader, term) = leads(&news);
        let bob = candidate(&second, "Bob", tell).unwrap();
        server.expire(&first);
        let (next, later) = leads(&news);
        assert_eq!(leader, "Ann");
        // Ann's term may have been over before Bob queued.
        assert!(later > term, "{next}");
        ann.shutdown();
        bob.shutdown();
    }

    #[test]
    fn leader_keeps_leading_in_a_short_outage() {
        let server = Server::start().expect("a server");
        let client = server.client().unwrap();
        let leadership = Leadership::start(&client, PATH, |term| {
            term.wait_timeout(Duration::from_secs(60));
        });
        let (leadership, soon) = (leadership.unwrap(), std::time::Instant::now());
        while !leadership.is_leader() {
            assert!(soon.elapsed() < Duration::from_secs(30));
            std::thread::yield_now();
        }
        server.suspend(&client);
        assert!(leadership.is_leader() && leadership.is_healthy());
        server.resume(&client);
        assert!(leadership.is_leader());
        leadership.shutdown();
    }
}
