//! The server of `testing` beside a real one: the same random operations by the same clients must
//! have the same answers and the same events on both. Names, data, errors, versions, transactions,
//! ACLs and owners are compared; clocks are not, nor the order of children.
//!
//! Releases differ in what they tell a client that may not read a node. The real server is asked
//! for its rules first, and the other one follows the same.
//!
//! `ZOOLOCK_SEED` runs one schedule, which a failure names. A schedule depends on nothing but its
//! seed.

mod side;
mod step;

use std::collections::BTreeMap;
use std::env;
use std::net::SocketAddr;

use fastrand::Rng;
use zoolock_test_support::Server;
use zoolock_zookeeper::testing::{self, ReadRules};
use zoolock_zookeeper::{Acl, CreateMode, Permissions};

use side::{Seen, Side};
use step::{Change, Step, USER};

const SEEDS: u64 = 8;
const STEPS: usize = 250;

/// What all schedules together have to come to, each at least so many times.
const OFTEN: usize = 3;
const NEEDED: [(&str, &str); 16] = [
    ("get data", "NoAuth"),
    ("get children", "NoAuth"),
    ("get ACL", "NoAuth"),
    ("set ACL", "NoAuth"),
    ("create", "NoAuth"),
    ("delete", "NoAuth"),
    ("set data", "NoAuth"),
    ("check", "NoAuth"),
    ("multi", "NoAuth"),
    ("create", "InvalidAcl"),
    ("set ACL", "InvalidAcl"),
    ("multi", "InvalidAcl"),
    ("add credentials", "AuthFailed"),
    ("set data", "BadVersion"),
    ("delete", "NotEmpty"),
    ("create", "NodeExists"),
];

/// The client that has the credentials of [`USER`], and the one that has none.
const OWNER: usize = 0;
const NOBODY: usize = 2;

/// What is the owner's alone.
fn private() -> Vec<Acl> {
    vec![Acl::new(Permissions::ALL, "digest", USER)]
}

fn create(path: &str, acl: Vec<Acl>) -> Step {
    Step::Write(OWNER, Change::Create(path.to_owned(), Vec::new(), acl, CreateMode::Persistent))
}

fn set_data(path: &str) -> Step {
    Step::Write(OWNER, Change::SetData(path.to_owned(), vec![7], None))
}

/// The rules that a server follows, by what it does.
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

/// Takes a step on both sides, which must be the same. What it came to is appended.
fn take(sides: &mut [Side; 2], step: &Step, log: &mut Vec<String>, name: &str) -> Seen {
    let [expected, seen] = sides.each_mut().map(|side| side.take(step));
    log.push(format!("{} {step:?}: {} {:?}", log.len(), expected.text, expected.events));
    assert_eq!(expected, seen, "{name}: the real server first\n{}", log.join("\n"));
    expected
}

#[test]
fn it_answers_and_tells_as_a_real_server_does() {
    let real = Server::start().expect("a server");
    let rules = rules_of(real.address());
    let seed = env::var("ZOOLOCK_SEED").ok().map(|seed| seed.parse::<u64>().expect("a number"));
    let seeds = seed.map_or(1..=SEEDS, |seed| seed..=seed);
    let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
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
    // A schedule that is run again is judged by what its servers say.
    if seed.is_some() {
        return;
    }
    let count = |(name, outcome): (&'static str, &str)| counts.get(&(name, outcome.to_owned()));
    let rare = |needed: &(_, _)| count(*needed).is_none_or(|count| *count < OFTEN);
    let exists = (rules == ReadRules::EventsAndExists).then_some(("exists", "NoAuth"));
    let missing: Vec<_> = NEEDED.into_iter().chain(exists).filter(rare).collect();
    assert!(missing.is_empty(), "{missing:?} came less than {OFTEN} times: it is no test");
    assert!(told > STEPS / 4 && unsorted.iter().all(|count| *count > 0), "it is no test");
}

/// Each kind of event, behind a change of the ACL; and what becomes of watches that are not told.
#[test]
fn whoever_may_not_read_is_told_as_by_a_real_server() {
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
    let delete = |path: &str| Change::Delete(path.to_owned(), None);
    let hidden = [
        create(path, Acl::open()),
        data(),
        children(),
        // Two events that may be hidden, and no other ones when it may be read again.
        set_acl(private()),
        set_data(path),
        create(child, Acl::open()),
        set_acl(Acl::open()),
        set_data(path),
        Step::Write(OWNER, delete(child)),
        // `exists` where there is something, and where there will be.
        exists(path),
        exists(later),
        set_acl(private()),
        set_data(path),
        exists(path),
        create(later, private()),
        exists(later),
        // Both kinds of watches, and one event.
        set_acl(Acl::open()),
        data(),
        children(),
        set_acl(private()),
        Step::Write(OWNER, delete(path)),
    ];
    // A client that comes back is told what it has missed, and what was hidden from it, whether it
    // may read that or not: two nodes have changed.
    let missed = [
        create(path, Acl::open()),
        data(),
        set_acl(private()),
        Step::Away(NOBODY, OWNER, vec![Change::SetData(path.to_owned(), vec![8], None)]),
        set_acl(Acl::open()),
        set_data(path),
    ];
    let mut log = Vec::new();
    let mut events = |steps: &[Step]| -> usize {
        steps.iter().map(|step| take(&mut sides, step, &mut log, "hidden").events.len()).sum()
    };
    let told = (events(&hidden), events(&missed));
    println!("{rules:?}\n{}", log.join("\n"));
    assert_eq!(told, if rules == ReadRules::Open { (5, 1) } else { (0, 2) });
}
