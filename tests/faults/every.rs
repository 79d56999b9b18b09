//! What all kinds of locks promise when something goes wrong, once for the whole table of subjects.

mod losing;
mod outages;
mod releasing;
mod untold;
mod waiting;

use std::time::Duration;

use zoolock::{Client, ClientState, Error, Result};
use zoolock_test_support::{FaultProxy, Op, Probe, fresh_path, shared_probe, wait_until};

use common::{Object, SOON, Subject, Visitor, await_nothing_left, client_of, shared_proxy};

/// A session that does not end in a test.
const LONG: Duration = Duration::from_secs(60);

/// An object of a client behind a proxy, and one that it excludes, of another client. All
/// directories are there already, so that the first create is that of a node that contends.
struct Scene {
    subject: Subject,
    proxy: FaultProxy,
    client: Client,
    others: Client,
    path: String,
    own: Object,
    rival: Object,
}

impl Scene {
    fn start(subject: Subject, session_timeout: Duration) -> Scene {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), session_timeout);
        let (others, path) = (common::client(), format!("{}/lock", fresh_path("every")));
        let (own, rival) = (subject.at(&client, &path), subject.rival(&others, &path));
        rival.lock().unwrap();
        rival.unlock().unwrap();
        Scene { subject, proxy, client, others, path, own, rival }
    }

    fn nodes(&self) -> Vec<String> {
        self.subject.nodes(&self.path)
    }

    /// The rival can have it, and nothing is left on the server or in the client.
    #[track_caller]
    fn leaves_nothing(&self, what: &str) {
        let name = self.subject.name;
        assert!(self.rival.try_lock_for(SOON).unwrap(), "{name}, {what}: {:?}", self.nodes());
        self.rival.unlock().unwrap();
        wait_until("it is connected", SOON, || self.client.state() == ClientState::Connected);
        await_nothing_left(&self.client);
        assert_eq!(self.nodes(), [""; 0], "{name}, {what}: {}", self.log());
        println!("{name}, {what}: {:?}", self.client.stats());
    }

    fn log(&self) -> String {
        self.proxy.log().join("\n")
    }
}

/// What an operator may do. Directories stay where somebody was quicker.
fn delete_all(path: &str) {
    let probe = shared_probe().unwrap();
    let mut nodes = tree(&probe, path);
    // The last one made goes first, so that nobody is let in to what is still to go.
    nodes.sort_by_key(|(_, made)| std::cmp::Reverse(*made));
    nodes.iter().for_each(|(node, _)| drop(probe.delete(node)));
}

/// All nodes below a path, and what tells whether they are still the same.
fn tree(probe: &Probe, path: &str) -> Vec<(String, u64)> {
    let Some(stat) = probe.stat(path).unwrap() else {
        return Vec::new();
    };
    let mut below = probe.children(path).unwrap();
    below.sort();
    let below = below.into_iter().flat_map(|node| tree(probe, &format!("{path}/{node}")));
    [(path.to_owned(), stat.czxid as u64)].into_iter().chain(below).collect()
}

/// Several locks say what became of each.
fn each(error: Error) -> Vec<Error> {
    match error {
        Error::Release { failures } => failures,
        one => vec![one],
    }
}

/// Whether all that a call says is such an error.
fn says<T>(result: Result<T>, such: impl Fn(&Error) -> bool) -> bool {
    result.is_err_and(|error| each(error).iter().all(such))
}
