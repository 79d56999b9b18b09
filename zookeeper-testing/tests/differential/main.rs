//! The server compared with a real one. The same random operations by the same clients must give
//! the same answers and events on both. The comparison covers names, data, errors, versions, transactions,
//! ACLs and owners, but not clocks or the order of children.
//!
//! Releases differ in the events for a client that may not read a node. The test first determines the rules
//! of the real server, and the other one follows them.
//!
//! `ZOOLOCK_SEED` runs one schedule, which a failure names. A schedule depends only on its seed.

mod side;
mod step;

use std::collections::BTreeMap;
use std::env;
use std::net::SocketAddr;

use fastrand::Rng;
use zoolock_test_support::Server;
use zoolock_zookeeper::{Acl, CreateMode, Permissions};
use zoolock_zookeeper_testing::{self as testing, ReadRules};

use side::{Seen, Side};
use step::{Change, Step, USER};

const SEEDS: u64 = 8;
const STEPS: usize = 250;

/// All schedules together must reach each outcome at least this often.
const OFTEN: usize = 3;
const NEEDED: [(&str, &str); 16] = [
    ("GetData", "NoAuth"),
    ("GetChildren", "NoAuth"),
    ("GetAcl", "NoAuth"),
    ("SetAcl", "NoAuth"),
    ("Create", "NoAuth"),
    ("Delete", "NoAuth"),
    ("SetData", "NoAuth"),
    ("Check", "NoAuth"),
    ("Multi", "NoAuth"),
    ("Create", "InvalidAcl"),
    ("SetAcl", "InvalidAcl"),
    ("Multi", "InvalidAcl"),
    ("AddAuth", "AuthFailed"),
    ("SetData", "BadVersion"),
    ("Delete", "NotEmpty"),
    ("Create", "NodeExists"),
];

/// The client with the credentials of [`USER`], and the one without.
const OWNER: usize = 0;
const NOBODY: usize = 2;

/// An ACL for the owner alone.
fn private() -> Vec<Acl> {
    vec![Acl::new(Permissions::ALL, "digest", USER)]
}

fn create(path: &str, acl: Vec<Acl>) -> Step {
    Step::Write(OWNER, Change::Create(path.to_owned(), Vec::new(), acl, CreateMode::Persistent))
}

fn set_data(path: &str) -> Step {
    Step::Write(OWNER, Change::SetData(path.to_owned(), vec![7], None))
}

/// The rules that a server follows, determined by its behaviour.
fn rules_of(server: SocketAddr) -> ReadRules {
    let mut side = Side::new(server, "/rules/tree");
    let (hidden, later) = ("/rules/tree/hidden", "/rules/tree/later");
    side.take(&create(hidden, private()));
    let exists = side.take(&Step::Exists(NOBODY, hidden.to_owned(), false));
    side.take(&Step::Exists(NOBODY, later.to_owned(), true));
    let created = side.take(&create(later, private()));
    side.close();
    match (exists.text == "Err(NoAuth)", created.events.is_empty()) {
        (false, false) => ReadRules::Open,
        (false, true) => ReadRules::Events,
        (true, true) => ReadRules::EventsAndExists,
        (true, false) => panic!("no release refuses `exists` and tells of what may not be read"),
    }
}

/// Takes a step on both sides, expects the same result, and appends it to the log.
fn take(sides: &mut [Side; 2], step: &Step, log: &mut Vec<String>, name: &str) -> Seen {
    let [expected, seen] = sides.each_mut().map(|side| side.take(step));
    log.push(format!("{} {step:?}: {} {:?}", log.len(), expected.text, expected.events));
    assert_eq!(expected, seen, "{name}: the real server first\n{}", log.join("\n"));
    expected
}

#[test]
fn test_server_answers_and_notifies_like_a_real_one() {
    let real = Server::start().expect("a server");
    let rules = rules_of(real.address());
    let seed = env::var("ZOOLOCK_SEED").ok().map(|seed| seed.parse::<u64>().expect("a number"));
    let seeds = seed.map_or(1..=SEEDS, |seed| seed..=seed);
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let (mut told, mut unsorted) = (0, [0; 2]);
    for seed in seeds {
        let mut rng = Rng::with_seed(seed);
        let (root, name) = (format!("/seed-{seed}/tree"), format!("seed {seed}"));
        let ours = testing::Server::start_with(rules).expect("a server");
        let mut sides = [Side::new(real.address(), &root), Side::new(ours.address(), &root)];
        let (mut paths, mut log) = (Vec::new(), Vec::new());
        for _ in 0..STEPS {
            let step = Step::random(&mut rng, &root, &paths);
            let seen = take(&mut sides, &step, &mut log, &name);
            *counts.entry((step.name(), seen.outcome().to_owned())).or_default() += 1;
            told += seen.events.len();
            paths.extend(seen.created);
        }
        for (count, side) in unsorted.iter_mut().zip(sides) {
            *count += side.unsorted;
            side.close();
        }
    }
    println!("{rules:?}: {told} events, {unsorted:?} lists out of order, {counts:?}");
    // A repeated schedule is judged by its servers' answers.
    if seed.is_some() {
        return;
    }
    let rare = |(name, outcome): &(&str, &str)| {
        let count = counts.get(&((*name).to_owned(), (*outcome).to_owned()));
        count.is_none_or(|count| *count < OFTEN)
    };
    let exists = (rules == ReadRules::EventsAndExists).then_some(("Exists", "NoAuth"));
    let missing: Vec<_> = NEEDED.into_iter().chain(exists).filter(rare).collect();
    assert!(missing.is_empty(), "{missing:?} came less than {OFTEN} times: it is no test");
    assert!(told > STEPS / 4 && unsorted.iter().all(|count| *count > 0), "it is no test");
}

/// Each kind of event after a change of the ACL, and the watches that stay silent.
#[test]
fn test_server_denies_reads_like_a_real_one() {
    let real = Server::start().expect("a server");
    let rules = rules_of(real.address());
    let ours = testing::Server::start_with(rules).expect("a server");
    let root = "/hidden/tree";
    let mut sides = [real.address(), ours.address()].map(|address| Side::new(address, root));
    let (path, child, later) = ("/hidden/tree/a", "/hidden/tree/a/b", "/hidden/tree/c");
    let set_acl = |acl| Step::SetAcl(OWNER, path.to_owned(), acl, None);
    let exists = |path: &str| Step::Exists(NOBODY, path.to_owned(), true);
    let data = || Step::GetData(NOBODY, path.to_owned(), true);
    let children = || Step::GetChildren(NOBODY, path.to_owned(), true);
    let watches = |since| Step::SetWatches(NOBODY, since, vec![path.to_owned()]);
    let delete = |path: &str| Change::Delete(path.to_owned(), None);
    let hidden = [
        create(path, Acl::open()),
        data(),
        children(),
        // Two events that may be hidden, and no others once the node is readable again.
        set_acl(private()),
        set_data(path),
        create(child, Acl::open()),
        set_acl(Acl::open()),
        set_data(path),
        Step::Write(OWNER, delete(child)),
        // `exists` on a present node and on a future one.
        exists(path),
        exists(later),
        set_acl(private()),
        set_data(path),
        exists(path),
        create(later, private()),
        exists(later),
        // Watches that are set unread.
        set_acl(Acl::open()),
        watches(None),
        set_acl(private()),
        set_data(path),
        // Both kinds of watches, and one event.
        set_acl(Acl::open()),
        data(),
        children(),
        set_acl(private()),
        Step::Write(OWNER, delete(path)),
    ];
    // A client that returns hears of missed and hidden changes, whether or not it may read the nodes. Two
    // nodes have changed.
    let missed = [
        create(path, Acl::open()),
        data(),
        set_acl(private()),
        Step::Away(NOBODY, OWNER, vec![Change::SetData(path.to_owned(), vec![8], None)]),
        set_acl(Acl::open()),
        set_data(path),
        // What has changed since is reported at once, too.
        set_acl(private()),
        watches(Some(0)),
        set_acl(Acl::open()),
    ];
    let mut log = Vec::new();
    let mut events = |steps: &[Step]| -> usize {
        steps.iter().map(|step| take(&mut sides, step, &mut log, "hidden").events.len()).sum()
    };
    let told = (events(&hidden), events(&missed));
    println!("{rules:?}\n{}", log.join("\n"));
    assert_eq!(told, if rules == ReadRules::Open { (6, 2) } else { (0, 3) });
}

/// A container that is created with its first node in one transaction, and deleted with its last one.
#[test]
fn test_server_creates_and_deletes_containers_in_a_multi_like_a_real_one() {
    let real = Server::start().expect("a server");
    let ours = testing::Server::start_with(rules_of(real.address())).expect("a server");
    let root = "/orders/tree";
    let mut sides = [real.address(), ours.address()].map(|address| Side::new(address, root));
    let container = |path: &str| {
        Change::Create(path.to_owned(), Vec::new(), Acl::open(), CreateMode::Container)
    };
    let node = |path: &str| {
        let path = format!("{path}/lock-");
        Change::Create(path, vec![1], Acl::open(), CreateMode::EphemeralSequential)
    };
    let delete = |path: &str, version| Change::Delete(path.to_owned(), version);
    let path = "/orders/tree/1";
    let (first, second) =
        (&*format!("{path}/lock-0000000000"), &*format!("{path}/lock-0000000001"));
    let make = |path: &str| Step::Multi(OWNER, vec![container(path), node(path)]);
    let remove = |node| Step::Multi(OWNER, vec![delete(node, None), delete(path, Some(0))]);
    let look = || {
        [
            Step::Exists(OWNER, path.to_owned(), false),
            Step::GetChildren(OWNER, root.to_owned(), true),
        ]
    };
    let steps = [
        vec![make(path), make(path), make("/orders/tree/missing/1")],
        vec![
            Step::GetChildren(NOBODY, path.to_owned(), true),
            Step::Exists(NOBODY, path.to_owned(), true),
        ],
        // Somebody has come.
        vec![
            Step::Write(NOBODY, node(path)),
            remove(first),
            Step::Write(NOBODY, delete(second, None)),
        ],
        // The node is another's, or gone.
        vec![remove(second), remove(first), remove(first), make(path)],
        // Somebody has written into the container.
        vec![set_data(path), remove(first), Step::Write(OWNER, delete(first, None))],
        vec![make(path), Step::Write(OWNER, delete(path, Some(1))), make(path)],
        // The container may not be deleted.
        vec![Step::SetAcl(OWNER, path.to_owned(), private(), None)],
        vec![Step::Multi(NOBODY, vec![delete(first, None), delete(path, Some(0))]), remove(first)],
    ];
    let mut log = Vec::new();
    for step in steps.into_iter().flatten().flat_map(|step| [vec![step], look().into()].concat()) {
        take(&mut sides, &step, &mut log, "containers");
    }
    println!("{}", log.join("\n"));
    let refused = |why: &str| log.iter().filter(|line| line.contains(why)).count();
    let reasons = ["NodeExists", "NotEmpty", "BadVersion", "NoNode", "NoAuth"];
    assert!(reasons.iter().all(|why| refused(why) > 0), "it is no test");
}
