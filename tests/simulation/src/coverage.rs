//! Events that have to occur in a run of many seeds. If an event never occurs, the simulation does not test it.
//!
//! `build.rs` finds the events in the sources: probes such as `sys::reached("..")` in the library and the client, the
//! simulation's counts such as `kernel::count("net: ..")`, and the variants of some enums, for example of errors and
//! faults. The lists in this file only contain the events that cannot or need not occur, each with the reason.

use std::fmt;

use crate::plan::{Options, Plan};

include!(concat!(env!("OUT_DIR"), "/found.rs"));

/// With this number of seeds, every event has to occur.
pub const ENOUGH: u64 = 10_000;

/// Events that cannot occur, each with the reason.
const NEVER: &[(&str, &str)] = &[
    ("the answer to a create names another node", "no frame is changed: see `faults garbled`"),
    ("an answer out of order is refused", "no frame is changed: see `client-it hostile::answers`"),
    (
        "a waiting call pauses for an overloaded server",
        "the servers of the locks are never too busy",
    ),
    ("a server answers an unknown request out of order", "simulated servers know all requests"),
    ("a call finds contenders that ignore it", "no plan has a latch"),
    ("a leader finds contenders that ignore it", "no plan has a latch"),
    ("a session timeout is too short", "the simulated servers grant what their settings say"),
    ("a server is read-only", "the simulated servers have no mode for that"),
    ("error: ZooKeeper", "it is for answers that no server gives, as the simulated ones do not"),
];

/// Events that need not occur in [`ENOUGH`] seeds, each with what it takes to reach it.
const SELDOM: &[(&str, &str)] = &[
    (
        "a list is postponed until there is a connection",
        "an outage late in a wait of many timeouts",
    ),
    ("a call has one node too many", "more cuts after creates that are carried out late"),
    ("a call ends while it replaces a node", "a cancel while a node takes another's place"),
    (
        "a guarded write begins after the end of its hold",
        "a late write, with the next acquisition begun",
    ),
    ("a lease runs out while a hold is granted", "a client that stalls at the answer that grants"),
    (
        "another node has replaced a node to be removed",
        "`break_lock` of a node that is planted anew",
    ),
    ("a read finds that its write is gone", "a write deleted between a create and its list"),
    ("a request finds its session ended", "a request while the end of its session is agreed on"),
    (
        "an unlock finds that its session has ended",
        "a session that ends while its connection still asks",
    ),
    ("the answer to a handshake arrives too late", "one held back for as long as a client waits"),
    (
        "a handed-over node belongs to another session",
        "a session that ends between two acquisitions",
    ),
    ("the result of replacing a node arrives too late", "a stall as a node is replaced"),
    ("handed-over nodes have already ended", "a lease's end, or a cut, between two acquisitions"),
];

/// Counts a variant of an enum that `build.rs` has found. `class` is the prefix of the count.
pub(crate) fn count_variant(class: &str, variant: &impl fmt::Debug) {
    let shown = format!("{variant:?}");
    let name = shown.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let is_it = |(what, _): &&(&str, &str)| {
        what.strip_prefix(class).and_then(|rest| rest.strip_prefix(": ")) == Some(name)
    };
    let (what, _) = COUNTED.iter().find(is_it).expect("an enum that build.rs lists");
    kernel::count(what);
}

/// Counts the lock options in a plan.
pub(crate) fn count_options(plan: &Plan) {
    for object in plan.objects() {
        let Options {
            identity,
            local_handoffs,
            background_release,
            hold_at_least,
            hold_at_most,
            margin,
        } = &object.options;
        let count = |is_set: bool, what| is_set.then(|| kernel::count(what));
        count(identity.is_some(), "option: identity");
        count(*local_handoffs > 0, "option: local_handoffs");
        count(*background_release, "option: background_release");
        count(hold_at_least.is_some(), "option: hold_at_least");
        count(hold_at_most.is_some(), "option: hold_at_most");
        count(margin.is_some(), "option: margin");
    }
}

/// Describes events that should have occurred but did not, events that occurred but cannot, and unknown listed events.
pub fn gaps(occurs: impl Fn(&str) -> bool) -> Vec<String> {
    let all = || PROBES.iter().chain(COUNTED);
    let excluded = || NEVER.iter().chain(SELDOM);
    let is = |what: &'static str| move |(one, _): &(&str, &str)| *one == what;
    let unknown = excluded().filter(|(what, _)| !all().any(is(what)));
    let unknown = unknown.map(|(what, _)| format!("no such event: {what}"));
    let occurring = NEVER.iter().filter(|(what, _)| occurs(what));
    let occurring =
        occurring.map(|(what, why)| format!("it occurs: {}, but should not: {why}", named(what)));
    let missing = all().filter(|(what, _)| !occurs(what) && !excluded().any(is(what)));
    let missing =
        missing.map(|(what, place)| format!("it never occurs: {} ({place})", named(what)));
    unknown.chain(occurring).chain(missing).collect()
}

/// Marks the names of probes as reached. The simulation's own counts are returned unchanged.
pub fn named(what: &str) -> String {
    match PROBES.iter().any(|(probe, _)| *probe == what) {
        true => format!("reached: {what}"),
        false => what.to_owned(),
    }
}
