//! What all kinds of locks promise when something goes wrong, once for the whole table of subjects.

mod answers;
mod cuts;
mod losing;
mod outages;
mod releasing;
mod untold;
mod waiting;

use std::thread;
use std::time::Duration;

use zoolock::{Client, ClientState, Error, Result};
use zoolock_test_support::{
    FaultProxy, Hold, Op, Probe, Rule, Then, fresh_path, shared_probe, wait_until,
};

use common::{
    Object, SOON, Subject, Visitor, await_nothing_left, client_of, in_use, shared_proxy, stat,
};

/// A session that does not end in a test.
const LONG: Duration = Duration::from_secs(60);

/// One that outlives the silence of a connection, which is noticed after two thirds of it at the
/// latest.
const MEDIUM: Duration = Duration::from_secs(20);

/// One whose end is awaited, or a third of it.
const SHORT: Duration = Duration::from_secs(6);

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
        Scene::of(subject, proxy, client)
    }

    fn of(subject: Subject, proxy: FaultProxy, client: Client) -> Scene {
        let (others, path) = (common::client(), format!("{}/lock", fresh_path("every")));
        let (own, rival) = (subject.at(&client, &path), subject.rival(&others, &path));
        rival.lock().unwrap();
        rival.unlock().unwrap();
        Scene { subject, proxy, client, others, path, own, rival }
    }

    fn nodes(&self) -> Vec<String> {
        self.subject.nodes(&self.path)
    }

    /// Takes the lock; returns when nothing is under way any more. The turn for a permit is deleted behind
    /// the grant.
    fn holds(&self) {
        self.own.lock().unwrap();
        self.subject.await_nodes(&self.path, self.subject.nodes_of_one());
    }

    /// A rival that waits behind whoever is there; it has a node of its own if it queues.
    fn rival_behind(&self) -> Visitor {
        let before = self.nodes().len();
        let behind = Visitor::start(self.rival.clone());
        wait_until("the rival waits", SOON, || {
            let queued = !self.subject.queues() || self.nodes().len() > before;
            in_use(&self.others.stats()) == 1 && queued
        });
        behind
    }

    /// It is held, by its nodes and no others; with its unlock the rival can have it, and nothing of
    /// either is left.
    #[track_caller]
    fn is_alone_until_unlocked(&self, what: &str) {
        let name = self.subject.name;
        let nodes = self.subject.await_nodes(&self.path, self.subject.nodes_of_one());
        let mut made: Vec<_> = nodes.iter().map(|node| stat(node).czxid as u64).collect();
        let mut tokens: Vec<_> = self.own.holds().iter().map(|hold| hold.fencing_token()).collect();
        made.sort_unstable();
        tokens.sort_unstable();
        assert_eq!(
            tokens,
            made,
            "{name}, {what}: {nodes:?} are not its own: {:?}",
            self.own.holds()
        );
        self.own.unlock().unwrap();
        self.leaves_nothing(what);
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

/// A request of a call, by its kind and by how manieth of that kind it is; or the answer to it.
#[derive(Debug, Clone, Copy)]
struct Part {
    op: Op,
    nth: u64,
    answer: bool,
}

impl Part {
    /// All parts of a call that nobody is in the way of.
    fn all_of(subject: Subject, call: impl Fn(&Object)) -> Vec<Part> {
        let scene = Scene::start(subject, LONG);
        call(&scene.own);
        // The turn for a permit is deleted behind the grant.
        subject.await_nodes(&scene.path, subject.nodes_of_one());
        let log = scene.proxy.log();
        scene.own.unlock().unwrap();
        let mut parts = Vec::new();
        for op in [Op::Create, Op::GetChildren, Op::GetData, Op::Delete] {
            let request = format!("> {op:?} {}", scene.path);
            let count = log.iter().filter(|line| line.contains(&request)).count() as u64;
            let both = |nth| [false, true].map(|answer| Part { op, nth, answer });
            parts.extend((1..=count).flat_map(both));
        }
        assert!(parts.len() >= 2, "{}: {log:#?}", subject.name);
        parts
    }

    fn is_lost_at(self, scene: &Scene, then: Then) -> Rule {
        let rule = scene.proxy.on(self.op).nth(self.nth).path_contains(&scene.path);
        match self.answer {
            true => rule.drop_answer(then),
            false => rule.drop_request(then),
        }
    }

    fn is_held_at(self, scene: &Scene) -> Hold {
        let rule = scene.proxy.on(self.op).nth(self.nth).path_contains(&scene.path);
        match self.answer {
            true => rule.hold_answer(),
            false => rule.hold_request(),
        }
    }
}

/// Cases that wait for long, side by side.
fn at_once<C: Send>(cases: impl IntoIterator<Item = C>, run: impl Fn(C) + Sync) {
    thread::scope(|scope| {
        for case in cases {
            let run = &run;
            scope.spawn(move || run(case));
        }
    });
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
