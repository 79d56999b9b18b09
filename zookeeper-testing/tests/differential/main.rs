//! Compares the server with a real one. The same random operations by the same clients must result in the same answers
//! and events on both. The operations depend only on a seed, which is reported in case of a failure. Names, data,
//! errors, versions, transactions, ACLs and owners are compared, but not clocks or the order of children.
//!
//! Releases of ZooKeeper differ in which events they send to a client that may not read a node. Therefore, the test
//! first determines the rules of the real server, and configures the other one to follow them.

mod side;
mod step;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fastrand::Rng;
use zoolock_test_support::Server;
use zoolock_zookeeper::{Acl, CreateMode, Permissions};
use zoolock_zookeeper_testing::{self as testing, ReadRules};

use side::{Seen, Side};
use step::{Change, Step, USER, What};

const SEEDS: u64 = 12;
const STEPS: usize = 250;

/// All schedules together must produce each of these outcomes at least this often.
const OFTEN: usize = 3;
const NEEDED: &[(&str, &[&str])] = &[
    ("NoAuth", &["GetData", "GetChildren", "GetAcl", "SetAcl"]),
    ("NoAuth", &["Create", "Delete", "SetData", "Check", "Multi"]),
    ("InvalidAcl", &["Create", "SetAcl", "Multi"]),
    ("AuthFailed", &["AddAuth"]),
    ("BadVersion", &["SetData", "Multi"]),
    ("NotEmpty", &["Delete", "Multi"]),
    ("NodeExists", &["Create", "Multi"]),
    ("NoNode", &["Multi"]),
    ("Ok", &["Multi", "Deletes"]),
];

/// The index of the client with the credentials of [`USER`], and of the one without any.
const OWNER: usize = 0;
const NOBODY: usize = 2;

/// Returns an ACL that allows only the owner.
fn private() -> Vec<Acl> {
    vec![Acl::new(Permissions::ALL, "digest", USER)]
}

fn create(path: &str, acl: Vec<Acl>) -> Step {
    let change = Change::Create(path.to_owned(), Vec::new(), acl, CreateMode::Persistent);
    Step(OWNER, What::Write(change))
}

fn set_data(path: &str) -> Step {
    Step(OWNER, What::Write(Change::SetData(path.to_owned(), vec![7], None)))
}

/// Determines the rules that a server follows from its behaviour.
fn rules_of(server: SocketAddr) -> ReadRules {
    let mut side = Side::new(server, "/rules/tree");
    let (hidden, later) = ("/rules/tree/hidden", "/rules/tree/later");
    side.take(&create(hidden, private()));
    let exists = side.take(&Step(NOBODY, What::Exists(hidden.to_owned(), false)));
    side.take(&Step(NOBODY, What::Exists(later.to_owned(), true)));
    let created = side.take(&create(later, private()));
    side.close();
    match (exists.text == "Err(NoAuth)", created.events.is_empty()) {
        (false, false) => ReadRules::Open,
        (false, true) => ReadRules::Events,
        (true, true) => ReadRules::EventsAndExists,
        (true, false) => panic!("no release refuses `exists` and tells of what may not be read"),
    }
}

/// Starts a real server, and another one that follows its rules. The real one does not delete containers by itself.
fn servers() -> (Server, testing::Server, ReadRules) {
    let real = Server::builder().jvm_flag("-Dznode.container.checkIntervalMs=2000000000").start();
    let real = real.expect("a server");
    let rules = rules_of(real.address());
    (real, testing::Server::start_with(rules).expect("a server"), rules)
}

/// Takes a step on both sides, expects that the results are the same, and appends them to the log.
fn take(sides: &mut [Side; 2], step: &Step, log: &mut Vec<String>, name: &str) -> Seen {
    let [expected, seen] = sides.each_mut().map(|side| side.take(step));
    log.push(format!("{} {step:?}: {} {:?}", log.len(), expected.text, expected.events));
    assert_eq!(expected, seen, "{name}: the real server first\n{}", log.join("\n"));
    expected
}

#[test]
fn test_server_answers_and_notifies_like_a_real_one() {
    let (real, _, rules) = servers();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let (mut told, mut unsorted) = (0, [0; 2]);
    for seed in 1..=SEEDS {
        let mut rng = Rng::with_seed(seed);
        let (root, name) = (format!("/seed-{seed}/tree"), format!("seed {seed}"));
        let ours = testing::Server::start_with(rules).expect("a server");
        let mut sides = [Side::new(real.address(), &root), Side::new(ours.address(), &root)];
        let (mut paths, mut log) = (Vec::new(), Vec::new());
        for _ in 0..STEPS {
            let step = Step::random(&mut rng, &root, &paths);
            let seen = take(&mut sides, &step, &mut log, &name);
            *counts.entry(format!("{} {}", step.name(), seen.outcome())).or_default() += 1;
            told += seen.events.len();
            paths.extend(seen.created);
        }
        for (count, side) in unsorted.iter_mut().zip(sides) {
            *count += side.unsorted;
            side.close();
        }
    }
    println!("{rules:?}: {told} events, {unsorted:?} lists out of order, {counts:?}");
    for (outcome, names) in NEEDED {
        for name in *names {
            let count = counts.get(&format!("{name} {outcome}")).copied().unwrap_or_default();
            assert!(count >= OFTEN, "{name} ended in {outcome} {count} times: it is no test");
        }
    }
    assert!(told > STEPS / 4 && unsorted.iter().all(|count| *count > 0), "it is no test");
}

/// Covers each kind of event after the ACL has changed, and watches that report nothing.
#[test]
fn test_server_denies_reads_like_a_real_one() {
    let (real, ours, rules) = servers();
    let side = |address| Side::new(address, "/hidden/tree");
    let mut sides = [real.address(), ours.address()].map(side);
    let (path, child, later) = ("/hidden/tree/a", "/hidden/tree/a/b", "/hidden/tree/c");
    let set_acl = |acl| Step(OWNER, What::SetAcl(path.to_owned(), acl, None));
    let exists = |path: &str| Step(NOBODY, What::Exists(path.to_owned(), true));
    let data = || Step(NOBODY, What::GetData(path.to_owned(), true));
    let children = || Step(NOBODY, What::GetChildren(path.to_owned(), true));
    let watches = |since| Step(NOBODY, What::SetWatches(since, vec![path.to_owned()]));
    let delete = |path: &str| Step(OWNER, What::Write(Change::Delete(path.to_owned(), None)));
    let hidden = [
        create(path, Acl::open()),
        data(),
        children(),
        // First two events that may be hidden, and then those that are sent because the client may read the node again.
        set_acl(private()),
        set_data(path),
        create(child, Acl::open()),
        set_acl(Acl::open()),
        set_data(path),
        delete(child),
        // `exists` on a node, and on one that does not exist yet.
        exists(path),
        exists(later),
        set_acl(private()),
        set_data(path),
        exists(path),
        create(later, private()),
        exists(later),
        // Watches that are set without reading.
        set_acl(Acl::open()),
        watches(None),
        set_acl(private()),
        set_data(path),
        // Both kinds of watches, which report a single event.
        set_acl(Acl::open()),
        data(),
        children(),
        set_acl(private()),
        delete(path),
    ];
    // A client that reconnects is notified of missed and of hidden changes, whether or not it may read the nodes. Two
    // nodes have changed in the meantime.
    let missed = [
        create(path, Acl::open()),
        data(),
        set_acl(private()),
        Step(NOBODY, What::Away(vec![Change::SetData(path.to_owned(), vec![8], None)])),
        set_acl(Acl::open()),
        set_data(path),
        // Changes since that transaction are reported immediately as well.
        set_acl(private()),
        watches(Some(0)),
        set_acl(Acl::open()),
    ];
    let mut log = Vec::new();
    let mut events = |steps: &[Step]| -> usize {
        steps.iter().map(|step| take(&mut sides, step, &mut log, "hidden").events.len()).sum()
    };
    let told = (events(&hidden), events(&missed));
    assert_eq!(told, if rules == ReadRules::Open { (6, 2) } else { (0, 3) });
}
