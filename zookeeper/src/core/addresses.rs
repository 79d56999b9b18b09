//! Decides which addresses to try, and in which order. Pure: the results of the resolver and the time
//! are inputs.
//!
//! A name may get another address after it was resolved, and its old address may then belong to a
//! server of another ensemble. The client must not open a session there, and must ignore an answer
//! that its session has expired. Therefore names are resolved again in each round, and earlier
//! addresses are tried only if that fails or takes long.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::hosts::Host;

/// An address to try, and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) name: String,
    /// Whether its name was resolved to it in this round. Otherwise the address may already belong to
    /// another server, and can only be used to resume a session, which other ensembles do not have.
    pub(crate) is_confirmed: bool,
}

/// What to try next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Try(Target),
    /// Nothing until this instant: the next name is still being resolved.
    Wait(Instant),
    /// Nothing, unless the names that are still being resolved have more addresses.
    Nothing,
}

/// The known addresses of the servers.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// The hosts, in the order of the round.
    hosts: Vec<Host>,
    names: Vec<Name>,
}

/// A name, for all ports that it is listed with.
#[derive(Debug)]
struct Name {
    name: String,
    /// The addresses to which the name was last resolved.
    addresses: Vec<SocketAddr>,
    /// Whether it was resolved in this round.
    is_fresh: bool,
    /// When the lookup in progress began.
    asked: Option<Instant>,
}

impl Addresses {
    /// Creates the table. The hosts are tried in this order; each round begins with the next of
    /// them.
    pub(crate) fn new(hosts: Vec<Host>) -> Addresses {
        let mut names: Vec<Name> = Vec::new();
        for host in hosts.iter().filter(|host| host.literal().is_none()) {
            if !names.iter().any(|known| known.is(&host.name)) {
                let (name, addresses) = (host.name.clone(), Vec::new());
                names.push(Name { name, addresses, is_fresh: false, asked: None });
            }
        }
        Addresses { hosts, names }
    }

    /// Begins a new round. Earlier addresses are no longer confirmed.
    pub(crate) fn age(&mut self) {
        self.hosts.rotate_left(1);
        self.names.iter_mut().for_each(|name| name.is_fresh = false);
    }

    /// Returns the names to resolve now, without those that are being resolved already.
    pub(crate) fn ask(&mut self, now: Instant) -> Vec<String> {
        let idle = self.names.iter_mut().filter(|name| name.asked.is_none());
        let asked = idle.map(|name| {
            name.asked = Some(now);
            name.name.clone()
        });
        asked.collect()
    }

    /// Notes the addresses of a name.
    pub(crate) fn resolved(&mut self, name: &str, addresses: Vec<SocketAddr>) {
        for known in self.names.iter_mut().filter(|known| known.is(name)) {
            known.asked = None;
            known.is_fresh = true;
            known.addresses.clone_from(&addresses);
        }
    }

    /// Notes that a name could not be resolved.
    pub(crate) fn not_resolved(&mut self, name: &str) {
        self.names.iter_mut().filter(|known| known.is(name)).for_each(|known| known.asked = None);
    }

    /// Returns the names that are being resolved.
    pub(crate) fn unresolved(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter(|name| name.asked.is_some()).map(|name| &*name.name)
    }

    /// Returns the next address that has not been tried. Each name has `patience` to be resolved.
    /// Earlier addresses come last, and only to resume a session.
    pub(crate) fn next(
        &self,
        is_tried: impl Fn(&Target) -> bool,
        is_resuming: bool,
        now: Instant,
        patience: Duration,
    ) -> Next {
        for host in &self.hosts {
            let asked = self.name(host).and_then(|name| name.asked);
            if let Some(until) = asked.map(|asked| asked + patience).filter(|until| now < *until) {
                return Next::Wait(until);
            }
            if let Some(target) = self.of(host).find(|to| to.is_confirmed && !is_tried(to)) {
                return Next::Try(target);
            }
        }
        let mut targets = self.hosts.iter().flat_map(|host| self.of(host));
        match targets.find(|target| is_resuming && !is_tried(target)) {
            Some(target) => Next::Try(target),
            None => Next::Nothing,
        }
    }

    /// Checks the name of a target again. Returns false if it no longer has that address.
    pub(crate) fn confirm(&self, target: &mut Target) -> bool {
        let mut targets = self.hosts.iter().flat_map(|host| self.of(host));
        let same = targets.find(|one| one.name == target.name && one.address == target.address);
        target.is_confirmed |= same.as_ref().is_some_and(|same| same.is_confirmed);
        same.is_some()
    }

    fn name(&self, host: &Host) -> Option<&Name> {
        self.names.iter().find(|name| name.is(&host.name))
    }

    /// Returns the known targets of a host.
    fn of(&self, host: &Host) -> impl Iterator<Item = Target> {
        let literal = host.literal().map(|address| (address, true));
        let known = self.name(host).into_iter();
        let known = known.flat_map(|name| name.addresses.iter().map(|to| (*to, name.is_fresh)));
        let port = host.port;
        let target = move |(mut address, is_confirmed): (SocketAddr, bool)| {
            address.set_port(port);
            Target { address, name: host.name.clone(), is_confirmed }
        };
        literal.into_iter().chain(known).map(target)
    }
}

impl Name {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::super::hosts::HostList;
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(250);

    struct Story {
        now: Instant,
        addresses: Addresses,
        tried: Vec<Target>,
    }

    impl Story {
        /// Begins with the first round.
        fn new(servers: &str) -> Story {
            let hosts = HostList::parse(servers).expect("a connect string").hosts;
            let (now, tried) = (Instant::now(), Vec::new());
            let mut story = Story { now, addresses: Addresses::new(hosts), tried };
            story.addresses.ask(now);
            story
        }

        fn resolved(&mut self, name: &str, ips: &[&str]) {
            let address = |ip: &&str| SocketAddr::new(ip.parse().expect("an address"), 0);
            self.addresses.resolved(name, ips.iter().map(address).collect());
        }

        /// Begins the next round, and returns the names to resolve.
        fn round(&mut self) -> Vec<String> {
            self.tried.clear();
            self.addresses.age();
            self.addresses.ask(self.now)
        }

        fn next(&self, is_resuming: bool) -> Next {
            let is_tried = |target: &Target| self.tried.contains(target);
            self.addresses.next(is_tried, is_resuming, self.now, PATIENCE)
        }

        /// Returns all targets that may be tried now, to resume a session or to open one.
        fn all(&mut self, is_resuming: bool) -> Vec<String> {
            let mut all = Vec::new();
            while let Next::Try(target) = self.next(is_resuming) {
                all.push(target.to_string());
                self.tried.push(target);
            }
            all
        }
    }

    #[test]
    fn each_round_begins_with_the_next_host() {
        let mut story = Story::new("10.0.0.1:1,10.0.0.2:1,10.0.0.3:1");
        for first in ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.1:1"] {
            assert_eq!(story.all(false)[0], first);
            story.round();
        }
    }

    #[test]
    fn earlier_addresses_come_last_and_only_to_resume_a_session() {
        for answers in [false, true] {
            let mut story = Story::new("a:1,b:1");
            story.resolved("a", &["10.0.0.1"]);
            story.resolved("b", &["10.0.0.2"]);
            story.round();
            story.round();
            story.resolved("b", &["10.0.0.3"]);
            assert_eq!(story.next(true), Next::Wait(story.now + PATIENCE));
            match answers {
                true => story.addresses.not_resolved("a"),
                false => story.now += PATIENCE,
            }
            assert_eq!(story.all(false), ["10.0.0.3:1"], "answers: {answers}");
            assert_eq!(story.all(true), ["10.0.0.1:1"], "answers: {answers}");
            assert!(!story.tried[1].is_confirmed);
        }
    }

    #[test]
    fn late_answer_confirms_or_removes_an_earlier_address() {
        let mut story = Story::new("a:1");
        story.resolved("a", &["10.0.0.1", "10.0.0.2"]);
        story.round();
        story.now += PATIENCE;
        assert_eq!(story.all(true), ["10.0.0.1:1", "10.0.0.2:1"]);
        let mut under_way = story.tried.clone();
        story.resolved("a", &["10.0.0.2", "10.0.0.3"]);
        under_way.retain_mut(|target| story.addresses.confirm(target));
        println!("{under_way:?}");
        assert_eq!(under_way.len(), 1);
        assert_eq!(under_way[0].to_string(), "10.0.0.2:1");
        assert!(under_way[0].is_confirmed);
        // The address has been confirmed, so it may be tried again.
        assert_eq!(story.all(true), ["10.0.0.2:1", "10.0.0.3:1"]);
    }
}
