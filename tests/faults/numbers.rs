//! Locks whose turns take no list, since the numbers of their nodes tell that nobody has come: what makes
//! the numbers worthless is noticed, and then a list is asked for again.

use std::time::Duration;

use zoolock::{Client, DistributedRwLock, EphemeralLock};
use zoolock_test_support::{FaultProxy, Op, Then, fresh_path, wait_until};

use common::{
    BRIEFLY, Object, SOON, Subject, Task, await_resumed, client, client_of, every_subject_that,
    place, shared_proxy, stat,
};

/// No lease ends in it, however slow the machine is.
const LONG: Duration = Duration::from_secs(30);

/// A client whose turns at a path take no list any more.
struct Warm {
    subject: Subject,
    proxy: FaultProxy,
    client: Client,
    path: String,
    object: Object,
}

impl Warm {
    fn start(subject: Subject, name: &str) -> Warm {
        let (proxy, path) = (shared_proxy(), fresh_path(name));
        let client = client_of(&proxy.connect_string(), LONG);
        let object = subject.at(&client, &path);
        let warm = Warm { subject, proxy, client, path, object };
        wait_until("no list is asked for", SOON, || {
            let lists = warm.lists();
            warm.turn();
            lists == warm.lists()
        });
        warm
    }

    fn lists(&self) -> u64 {
        self.proxy.requests(Op::GetChildren)
    }

    /// Its node has gone when this returns.
    fn turn(&self) {
        self.object.lock().unwrap();
        self.object.unlock().unwrap();
        self.subject.await_nodes(&self.path, 0);
    }
}

fn every_warm(name: &str, contract: impl Fn(Warm) + Sync) {
    let is_one = |subject: Subject| subject.has_a_directory() && subject.goes_with_its_unlock();
    every_subject_that(is_one, |subject| contract(Warm::start(subject, name)));
}

/// Also one of the same client, whose numbers are not those of somebody else.
#[test]
fn another_object_of_the_same_client_is_waited_for() {
    every_warm("same-client", |warm| {
        let rival = warm.subject.rival(&warm.client, &warm.path);
        let held = Task::spawn(move || rival.lock().map(|()| rival)).result("the rival").unwrap();
        let (object, lists) = (warm.object.clone(), warm.lists());
        let turn = Task::spawn(move || object.lock().and_then(|()| object.unlock()));
        wait_until("it looks who is there", SOON, || turn.is_done() || warm.lists() > lists);
        warm.subject.await_nodes(&warm.path, 2);
        assert!(!turn.is_done() && stat(&warm.path).num_children == 2, "{}", warm.subject.name);
        warm.client.close().unwrap();
        assert!(turn.result("its turn").is_err_and(|error| error.is_closed()));
        drop(held);
    });
}

/// Its node may be there still, and is not forgotten.
#[test]
fn a_turn_behind_a_delete_without_an_answer_asks_for_a_list() {
    every_warm("unanswered", |warm| {
        let lost = warm.proxy.on(Op::Delete).path_contains(&warm.path).drop_answer(Then::Cut);
        warm.turn();
        assert!(lost.wait(SOON), "{:#?}", warm.proxy.log());
        await_resumed(&warm.client, 1);
        let lists = warm.lists();
        warm.turn();
        assert!(warm.lists() > lists, "{}", warm.subject.name);
    });
}

/// Reads pass each other, so that of two that came one after the other the first may still be there.
#[test]
fn reads_beside_another_prove_nothing_to_a_write() {
    let (own, others, path) = (client(), client(), fresh_path("beside"));
    let [own, theirs] =
        [&own, &others].map(|client| DistributedRwLock::new(client, &path).unwrap());
    let (read, write) = (own.read_lock(), own.write_lock());
    let turns = |count: u32| {
        for _ in 0..count {
            read.lock().unwrap();
            read.unlock().unwrap();
        }
    };
    turns(3);
    let theirs = theirs.read_lock().acquire().unwrap();
    turns(3);
    assert!(!write.try_lock_for(BRIEFLY).unwrap(), "a write beside a read: {theirs:?}");
    assert!(theirs.is_held());
    theirs.release().unwrap();
    write.lock().unwrap();
    write.unlock().unwrap();
}

/// Single nodes are named by their users. Two of them look like the next two nodes of a queue that somebody else
/// holds, and the next number of the server's is the one behind them.
#[test]
fn single_nodes_named_like_numbers_prove_nothing_about_their_directory() {
    every_subject_that(Subject::has_a_directory, |subject| {
        let ([own, others], path) = ([client(), client()], fresh_path("named-like-numbers"));
        let (rival, object) = (subject.rival(&others, &path), subject.at(&own, &path));
        rival.lock().unwrap();
        let held: u32 = place(&rival.hold().node()).parse().unwrap();
        for number in [held + 1, held + 2] {
            let single = EphemeralLock::new(&own, format!("{path}/order-{number:010}")).unwrap();
            single.lock().unwrap();
            single.unlock().unwrap();
        }
        let got = object.try_lock_for(BRIEFLY);
        println!("{}: {got:?} beside {:?}", subject.name, rival.hold());
        assert!(rival.is_held() && matches!(got, Ok(false)), "{}: two holders", subject.name);
        rival.unlock().unwrap();
        object.lock().unwrap();
        object.unlock().unwrap();
    });
}
