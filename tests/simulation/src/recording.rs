//! Records the traffic of the servers in a run, to be replayed at a real server. Unless a recording is running, this
//! costs nothing and changes nothing.

use std::cell::RefCell;

use zookeeper_testing::ReadRules;
use zookeeper_testing::ensemble::{Committed, Outgoing, Settings};

use crate::plan::Plan;
use crate::raw;
use crate::world::run;

/// What the servers receive, with the number of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// A client connects.
    Connected(u64),
    /// Bytes arrive, perhaps only a part of a frame.
    Received(u64, Vec<u8>),
    /// The client has closed the connection.
    HungUp(u64),
}

/// What the servers receive at one instant, and how they react to it.
#[derive(Debug, Default)]
pub struct Moment {
    /// What the servers receive, in order.
    pub acts: Vec<Act>,
    /// What the servers send, in order.
    pub sent: Vec<(u64, Outgoing)>,
    /// The transactions that change the tree, in order.
    pub committed: Vec<Committed>,
}

thread_local! {
    /// The rules of the servers that are being recorded, and the recording so far.
    static RECORDED: RefCell<Option<(ReadRules, Vec<Moment>)>> = const { RefCell::new(None) };
    static ACTS: RefCell<Vec<Act>> = const { RefCell::new(Vec::new()) };
}

/// Runs a plan with servers that follow these rules, and returns the traffic.
pub fn record(plan: &Plan, rules: ReadRules) -> Vec<Moment> {
    RECORDED.set(Some((rules, Vec::new())));
    run(plan, false);
    ACTS.take();
    RECORDED.take().map(|(_, moments)| moments).unwrap_or_default()
}

/// Returns the reason why this plan's traffic cannot be replayed at a real server, or `None` if it can.
pub fn unfit(plan: &Plan) -> Option<&'static str> {
    let reasons = [
        (plan.servers > 1, "it has three servers, whose elections and lags cannot be repeated"),
        (plan.disturbs_servers(), "the server crashes or is paused, which takes real time"),
        (plan.used.is_some(), "it sets a directory's counter, which no request can set"),
        (
            raw::settings(plan, Settings::default()).throttle > 0.0,
            "the server refuses requests at random, as if it was overloaded",
        ),
    ];
    reasons.into_iter().find_map(|(is_so, reason)| is_so.then_some(reason))
}

/// Returns the settings of the servers. If a recording is running, they contain its rules.
pub(crate) fn settings(settings: Settings) -> Settings {
    let recorded = RECORDED.with_borrow(|recorded| recorded.as_ref().map(|(rules, _)| *rules));
    let rules = recorded.unwrap_or(settings.rules);
    Settings { rules, ..settings }
}

/// Records what the servers receive.
pub(crate) fn came(act: impl FnOnce() -> Act) {
    if RECORDED.with_borrow(Option::is_some) {
        ACTS.with_borrow_mut(|acts| acts.push(act()));
    }
}

/// Records how the servers react to what they have received since the last call.
pub(crate) fn done(sent: &[(u64, Outgoing)], committed: &[Committed]) {
    RECORDED.with_borrow_mut(|recorded| {
        let Some((_, recorded)) = recorded else { return };
        let acts = ACTS.take();
        if !(acts.is_empty() && sent.is_empty() && committed.is_empty()) {
            recorded.push(Moment { acts, sent: sent.to_vec(), committed: committed.to_vec() });
        }
    });
}
