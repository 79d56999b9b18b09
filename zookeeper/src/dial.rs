//! Finds a server that accepts a connection. Before each connection, it resolves the names again. It
//! tries the addresses shortly one after the other, and takes the first connection that a server
//! accepts. It waits only for events, and sends nothing to the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::core::addresses::{Addresses, Next, Target};
use crate::core::clock::Moment;
use crate::error::ConnectFailure;
use crate::resolver::{Lookup, Resolver};
use crate::shared::Shared;
use crate::sys::net::Stream;
use crate::sys::{self, random};

/// The pauses between rounds. They are drawn from the whole range ("full jitter"), so that the
/// clients of a restarted server do not all return at the same moment. They never exceed a tenth of the
/// session timeout.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long to wait for an address before the next one is tried in parallel. A name that is not
/// resolved yet gets the same time: after it, the next name and earlier addresses are tried. A working
/// resolver is faster, even if it is far away and has several domains to search, whereas a lost packet
/// costs seconds. Therefore, only a name that hangs costs this time.
const STAGGER: Duration = Duration::from_millis(250);

/// Tries servers, round after round.
#[derive(Debug)]
pub(crate) struct Dialer {
    addresses: Addresses,
    resolver: Resolver,
    failures: u32,
}

/// One round: each address is tried once.
#[derive(Debug)]
pub(crate) struct Round {
    begun: Instant,
    tried: Vec<Target>,
    under_way: Vec<Attempt>,
    /// When the next address may be tried in parallel with those in progress.
    next_start: Instant,
    pub(crate) causes: Vec<String>,
    /// Whether a server did not answer at all.
    pub(crate) is_silent: bool,
    /// The failure of the server that got furthest in opening a session.
    pub(crate) failure: ConnectFailure,
}

/// A connection that a server has not accepted yet.
#[derive(Debug)]
struct Attempt {
    stream: Stream,
    target: Target,
    begun: Instant,
}

impl Dialer {
    pub(crate) fn new(shared: &Shared, lookup: Lookup) -> Dialer {
        let mut hosts = shared.hosts.hosts.clone();
        hosts.sort_by_cached_key(|_| random());
        Dialer {
            addresses: Addresses::new(hosts),
            resolver: Resolver::new(lookup, Arc::clone(&shared.dialing)),
            failures: 0,
        }
    }

    /// Waits after failures, and begins the next round.
    pub(crate) fn round(&mut self, shared: &Shared) -> Round {
        if self.failures > 0 {
            let begin = rest(shared).unwrap_or_else(sys::now);
            self.pause(shared, begin + self.jitter(shared));
        }
        // Earlier answers of the resolver may date from the last connection or the last pause. They
        // do not count for the new round.
        self.take_answers(&mut Round::new());
        self.addresses.age();
        let round = Round::new();
        self.addresses.ask(round.begun).iter().for_each(|name| self.resolver.ask(name));
        self.failures = self.failures.saturating_add(1).min(16);
        round
    }

    fn pause(&self, shared: &Shared, until: Instant) {
        while sys::now() < until && !shared.look(|core| core.is_over()) {
            shared.dialing.sleep(until);
        }
    }

    fn jitter(&self, shared: &Shared) -> Duration {
        let most = PAUSE_MIN * 2_u32.saturating_pow(self.failures);
        let most = most.min(PAUSE_MAX).min(shared.look(|core| core.timeout()) / 10);
        let jitter = random() % u64::try_from(most.as_nanos()).unwrap_or(u64::MAX).max(1);
        PAUSE_MIN + Duration::from_nanos(jitter)
    }

    /// Notes that a server accepted a request on the connection of this round.
    pub(crate) fn succeeded(&mut self, lasted: Duration) {
        self.failures = if lasted > PAUSE_MAX { 0 } else { self.failures.min(3) };
    }

    /// Takes the answers that the resolver has given so far.
    fn take_answers(&mut self, round: &mut Round) {
        while let Some((name, answer)) = self.resolver.answer() {
            match answer {
                Ok(addresses) => self.addresses.resolved(&name, addresses),
                Err(error) => {
                    self.addresses.not_resolved(&name);
                    round.causes.push(format!("{name}: {error}"));
                }
            }
            // Nothing is sent to an address if its name no longer resolves to it.
            round.under_way.retain_mut(|attempt| self.addresses.confirm(&mut attempt.target));
        }
    }

    /// Returns the next connection of the round, or `None` when the round is over.
    pub(crate) fn next(&mut self, round: &mut Round, shared: &Shared) -> Option<(Stream, Target)> {
        let limit = shared.look(|core| core.patience(Moment::now()));
        let stagger = STAGGER.min(limit / 3);
        while !shared.look(|core| core.is_over()) {
            self.take_answers(round);
            let now = sys::now();
            if let Some(found) = round.check(now, limit) {
                return Some(found);
            }
            let is_resuming = shared.look(|core| core.session_id() != 0);
            let is_tried = |target: &Target| round.has_tried(target);
            let until = match self.addresses.next(is_tried, is_resuming, now, stagger) {
                Next::Try(target) if round.under_way.is_empty() || now >= round.next_start => {
                    match rest(shared) {
                        None => {
                            round.start(target, now);
                            round.next_start = now + stagger;
                            continue;
                        }
                        // A short pause does not end the round. Otherwise, each round would try
                        // only the first address of a name.
                        Some(end) if end <= now + PAUSE_MAX => end,
                        // After a long pause the names are resolved again.
                        Some(_) => return None,
                    }
                }
                Next::Try(_) => round.next_start,
                Next::Wait(until) => until,
                Next::Nothing if round.under_way.is_empty() => self.wait_for_names(round, limit)?,
                Next::Nothing => now + limit,
            };
            let ends = round.under_way.iter().map(|attempt| attempt.begun + limit);
            let until = ends.fold(until, Instant::min);
            shared.dialing.wait(round.under_way.iter().map(|attempt| &attempt.stream), until);
        }
        None
    }

    /// Returns until when to wait for names, if nothing else is left to try. The round is over if any
    /// address was tried, because resolving a name may take forever.
    fn wait_for_names(&self, round: &mut Round, limit: Duration) -> Option<Instant> {
        let end = round.begun + limit;
        if round.tried.is_empty() && sys::now() < end {
            self.addresses.unresolved().next()?;
            return Some(end);
        }
        for name in self.addresses.unresolved() {
            round.causes.push(format!("{name}: still being resolved"));
            round.is_silent = true;
        }
        None
    }
}

impl Round {
    fn new() -> Round {
        let now = sys::now();
        Round {
            begun: now,
            tried: Vec::new(),
            under_way: Vec::new(),
            next_start: now,
            causes: Vec::new(),
            is_silent: false,
            failure: ConnectFailure::Name,
        }
    }

    /// Returns whether the target was tried, or is being tried. An unconfirmed target may be tried
    /// again once it is confirmed.
    fn has_tried(&self, target: &Target) -> bool {
        let under_way = self.under_way.iter().map(|attempt| &attempt.target);
        let mut tried = self.tried.iter().chain(under_way);
        tried.any(|one| one.address == target.address && one.is_confirmed >= target.is_confirmed)
    }

    fn start(&mut self, target: Target, now: Instant) {
        match Stream::connect(target.address) {
            Ok(stream) => self.under_way.push(Attempt { stream, target, begun: now }),
            Err(error) => self.failed(target, ConnectFailure::Unreachable, &error.to_string()),
        }
    }

    fn failed(&mut self, target: Target, failure: ConnectFailure, why: &str) {
        self.failure = self.failure.max(failure);
        self.causes.push(format!("{target}: {why}"));
        self.tried.push(target);
    }

    /// Returns the first established connection. Targets that were tried in parallel can be tried again.
    fn check(&mut self, now: Instant, limit: Duration) -> Option<(Stream, Target)> {
        for Attempt { stream, target, begun } in std::mem::take(&mut self.under_way) {
            match stream.is_connected() {
                Err(error) => self.failed(target, ConnectFailure::Unreachable, &error.to_string()),
                Ok(true) => {
                    self.under_way.clear();
                    self.tried.push(target.clone());
                    return Some((stream, target));
                }
                Ok(false) if now >= begun + limit => {
                    let reason = format!("no answer in {limit:.1?}");
                    self.failed(target, ConnectFailure::Silent, &reason);
                    self.is_silent = true;
                }
                Ok(false) => self.under_way.push(Attempt { stream, target, begun }),
            }
        }
        None
    }
}

/// Returns the end of the pause before the next handshake, or `None` if one may be sent now.
pub(crate) fn rest(shared: &Shared) -> Option<Instant> {
    let now = Moment::now();
    let next = shared.look(|core| core.next_handshake(now));
    (next > now.monotonic).then_some(next)
}

#[cfg(test)]
mod tests;
