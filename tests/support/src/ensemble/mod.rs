//! Several servers that elect a leader, and the faults that a test can cause in such an ensemble.

mod builder;
mod network;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::server::ask;
use crate::wait::poll;
use crate::{Probe, Server};
pub use builder::EnsembleBuilder;
use network::Network;

/// The limit for an election. If a leader falls silent, the members detect that only after `syncLimit`.
const LEADER_WITHIN: Duration = Duration::from_secs(30);
/// The limit for all members to join the quorum.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// A member must answer within this time to count as serving.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The timeout of sessions opened to check members, which may be abandoned.
const SESSION_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Leader,
    Follower,
}

/// Several ZooKeeper servers of this process, on loopback ports, that replicate the same data.
///
/// Members are identified by an index that starts at 0; their ZooKeeper ids start at 1. Each is a [`Server`] that can
/// be stopped, killed, paused and started again. Members connect to each other only through proxies, so that one can be
/// [cut off](Self::cut_off). Clients connect directly, or through a [`FaultProxy`](crate::FaultProxy).
///
/// As with a [`Server`], all members stop and their directories are removed when the value is dropped or the process
/// ends.
#[derive(Debug)]
pub struct Ensemble {
    // Members are dropped before the network, so that they do not detect that their links break.
    members: Vec<Server>,
    network: Network,
}

impl Ensemble {
    /// Starts an ensemble with default settings; see [`EnsembleBuilder::start`].
    pub fn start(size: usize) -> io::Result<Self> {
        Self::builder(size).start()
    }

    /// Returns a builder for an ensemble of `size` members.
    pub fn builder(size: usize) -> EnsembleBuilder {
        EnsembleBuilder::new(size)
    }

    /// The number of members, running or not.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns a member. Its [`Server::start_again`] does not wait until the member has joined the quorum.
    #[must_use]
    pub fn server(&self, index: usize) -> &Server {
        &self.members[index]
    }

    /// Returns the clients' addresses of the members, by index. They never change.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(Server::address).collect()
    }

    /// Returns all addresses in the format of ZooKeeper clients, `127.0.0.1:<port>,127.0.0.1:<port>,...`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let each: Vec<_> = self.members.iter().map(Server::connect_string).collect();
        each.join(",")
    }

    /// Waits until exactly one running member claims to lead, and answers reads and writes. Returns the member's index.
    ///
    /// A leader that has been cut off still claims to lead until it detects that, and this method waits for that. A
    /// paused leader does not answer, so it makes no claim. Fails after 30 s, with the claims of all members.
    pub fn leader(&self) -> io::Result<usize> {
        let leader = poll(LEADER_WITHIN, || self.working_leader());
        leader.ok_or_else(|| {
            let text = format!("no leader within {LEADER_WITHIN:?}: {}", self.describe());
            io::Error::new(io::ErrorKind::TimedOut, text)
        })
    }

    /// Waits for the [`leader`](Self::leader), and returns the indices of the running members that claim to follow one.
    /// A follower that has been cut off makes this claim until it detects that.
    pub fn followers(&self) -> io::Result<Vec<usize>> {
        self.leader()?;
        Ok(self.in_role(Role::Follower))
    }

    /// Waits for the [`leader`](Self::leader), kills it (SIGKILL), and returns its index.
    pub fn kill_leader(&self) -> io::Result<usize> {
        let leader = self.leader()?;
        self.members[leader].kill()?;
        Ok(leader)
    }

    /// Waits until every member answers a read and a write, which proves that it has joined the quorum. A member that
    /// is stopped, paused or cut off is not ready. Fails after 60 s; the error contains the end of the log of a member
    /// that does not answer.
    pub fn wait_ready(&self) -> io::Result<()> {
        let mut result = Ok(());
        poll(READY_WITHIN, || {
            let mut members = self.members.iter().enumerate();
            result = members.try_for_each(|(index, member)| {
                if self.network.is_cut_off(index) || !member.is_active() {
                    return Ok(());
                }
                serves(member).map_err(|error| (index, error))
            });
            result.is_ok().then_some(())
        });
        result.map_err(|(index, error)| {
            let (roles, tail) = (self.describe(), self.members[index].log_tail());
            let text = format!(
                "member {index} is not ready within {READY_WITHIN:?}: {error}; {roles}; \
                 the end of its log:\n{tail}"
            );
            io::Error::new(io::ErrorKind::TimedOut, text)
        })
    }

    /// Restarts the members one by one, first the followers and then the leader, and waits until each has rejoined the
    /// quorum. When the leader is stopped, the others elect a new one.
    pub fn rolling_restart(&self) -> io::Result<()> {
        let leader = self.leader()?;
        for index in (0..self.len()).filter(|&index| index != leader) {
            self.members[index].restart()?;
            self.wait_ready()?;
        }
        self.members[leader].stop()?;
        self.leader()?;
        self.members[leader].start_again()?;
        self.wait_ready()
    }

    /// Turns every link between a member and the others into a black hole in both directions: existing connections stay
    /// open, and new ones can be opened, but no data pass. Nothing is refused or closed. Clients can still connect to
    /// the member.
    ///
    /// A follower continues to answer reads, but not writes, until it has received nothing from its leader for
    /// `syncLimit`. It then closes its clients' connections and tries in vain to find a leader. In the meantime, the
    /// leader expires the sessions of these clients, unless they are resumed on another member. A leader that is cut
    /// off steps down after the same time, and the others elect a new one.
    pub fn cut_off(&self, index: usize) {
        assert!(index < self.len(), "no member {index} of {}", self.len());
        self.network.cut_off(index);
    }

    /// Repairs the links of all members that have been cut off. Connections that were black holes are closed, so data
    /// in transit are lost and the members connect again.
    pub fn heal(&self) {
        self.network.heal();
    }

    fn working_leader(&self) -> Option<usize> {
        let leaders = self.in_role(Role::Leader);
        let &[leader] = leaders.as_slice() else { return None };
        serves(&self.members[leader]).ok().map(|()| leader)
    }

    fn in_role(&self, wanted: Role) -> Vec<usize> {
        let all = 0..self.len();
        all.filter(|&index| role(&self.members[index]) == Some(wanted)).collect()
    }

    fn describe(&self) -> String {
        let each = self.members.iter().enumerate().map(|(index, member)| {
            let cut = if self.network.is_cut_off(index) { ", cut off" } else { "" };
            match (member.is_active(), role(member)) {
                (false, _) => format!("{index} does not run{cut}"),
                (true, Some(role)) => format!("{index} is {role:?}{cut}"),
                (true, None) => format!("{index} does not serve{cut}"),
            }
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Returns the role that `member` claims, or `None` while it is stopped, paused or without a quorum. A member that has
/// just lost its quorum still claims its role for a while.
fn role(member: &Server) -> Option<Role> {
    if !member.is_active() {
        return None;
    }
    let answer = ask(member.address(), "srvr", ANSWER_WITHIN).ok()?;
    match answer.lines().find_map(|line| line.strip_prefix("Mode: "))?.trim() {
        "leader" => Some(Role::Leader),
        "follower" => Some(Role::Follower),
        _ => None,
    }
}

/// Checks that `member` answers reads and writes: opening a session is a transaction, which only a quorum can commit
/// and which this member must then have applied.
fn serves(member: &Server) -> io::Result<()> {
    let probe = Probe::connect_within(member.address(), SESSION_TIMEOUT, ANSWER_WITHIN)?;
    probe.exists("/")?;
    probe.close()
}
