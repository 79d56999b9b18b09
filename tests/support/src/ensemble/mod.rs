//! Several servers that elect a leader, and the faults of such an ensemble.

mod builder;
mod network;
mod role;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::Server;
use crate::wait::poll;
pub use builder::EnsembleBuilder;
use network::Network;
use role::{Role, is_active, role, serves};

/// The limit of an election, which waits for `syncLimit` when a leader falls silent.
const LEADER_WITHIN: Duration = Duration::from_secs(30);
/// The time in which members must join the quorum.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// ZooKeeper servers of this process that replicate each other, on loopback ports.
///
/// Members are identified by their index, from 0; their ZooKeeper ids count from 1. Each is a [`Server`] that
/// can be stopped, killed, paused and started again. The members reach each other only through proxies, so
/// that one can be [cut off](Self::cut_off). Clients reach each of them directly, or through a
/// [`FaultProxy`](crate::FaultProxy) of the test.
///
/// The drop of the value and the end of the process end all members and remove their directories, as with a
/// [`Server`].
#[derive(Debug)]
pub struct Ensemble {
    // Dropped first, so that no member sees its links break.
    members: Vec<Server>,
    network: Network,
}

impl Ensemble {
    /// Starts an ensemble with default settings; see [`EnsembleBuilder::start`].
    ///
    /// # Errors
    ///
    /// As [`EnsembleBuilder::start`].
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

    /// One member. Its [`Server::start_again`] does not wait for the quorum.
    ///
    /// # Panics
    ///
    /// When `index` is not below [`len`](Self::len).
    #[must_use]
    pub fn server(&self, index: usize) -> &Server {
        &self.members[index]
    }

    /// Returns the addresses for clients, by index. They never change.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(Server::address).collect()
    }

    /// All addresses in the format of ZooKeeper clients, `127.0.0.1:<port>,127.0.0.1:<port>,...`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let each: Vec<_> = self.members.iter().map(Server::connect_string).collect();
        each.join(",")
    }

    /// Waits until exactly one running member claims to lead and answers reads and writes. Returns its index.
    ///
    /// A leader that is cut off makes that claim until it notices, so this waits for that too. A paused
    /// leader claims nothing.
    ///
    /// # Errors
    ///
    /// When there is no such leader within 30 s. The text has the claims of the members.
    pub fn leader(&self) -> io::Result<usize> {
        let leader = poll(LEADER_WITHIN, || self.working_leader());
        leader.ok_or_else(|| {
            let text = format!("no leader within {LEADER_WITHIN:?}: {}", self.describe());
            io::Error::new(io::ErrorKind::TimedOut, text)
        })
    }

    /// Waits for the [`leader`](Self::leader), and returns the indexes of the running members that claim to
    /// follow at this moment. A member that was cut off makes that claim until it notices.
    ///
    /// # Errors
    ///
    /// As [`leader`](Self::leader).
    pub fn followers(&self) -> io::Result<Vec<usize>> {
        self.leader()?;
        Ok(self.in_role(Role::Follower))
    }

    /// Waits for the [`leader`](Self::leader), kills it (SIGKILL), and returns its index.
    ///
    /// # Errors
    ///
    /// As [`leader`](Self::leader) and [`Server::kill`].
    pub fn kill_leader(&self) -> io::Result<usize> {
        let leader = self.leader()?;
        self.members[leader].kill()?;
        Ok(leader)
    }

    /// Waits until every member answers a read and a write, and so is in the quorum. Members that are
    /// stopped, paused or cut off do not count.
    ///
    /// # Errors
    ///
    /// When one does not within 60 s. The text has the end of its log.
    pub fn wait_ready(&self) -> io::Result<()> {
        let mut waiting: Vec<usize> = (0..self.len()).collect();
        let mut last_error = None;
        let done = poll(READY_WITHIN, || {
            waiting.retain(|&index| self.is_expected(index));
            while let Some(&index) = waiting.first() {
                if let Err(error) = serves(&self.members[index]) {
                    last_error = Some((index, error));
                    return None;
                }
                waiting.remove(0);
            }
            Some(())
        });
        match (done, last_error) {
            (None, Some((index, error))) => Err(self.not_ready(index, &error)),
            _ => Ok(()),
        }
    }

    /// Restarts the running members one after another, the followers first and the leader last, and waits for
    /// each to rejoin the quorum. Before the leader starts again, the others elect another one if they are
    /// enough.
    ///
    /// # Errors
    ///
    /// Those of [`leader`](Self::leader), [`Server::stop`], [`Server::start_again`] and
    /// [`wait_ready`](Self::wait_ready).
    pub fn rolling_restart(&self) -> io::Result<()> {
        let leader = self.leader()?;
        let followers = (0..self.len()).filter(|&index| index != leader);
        for index in followers.chain([leader]) {
            let member = &self.members[index];
            if member.process_id().is_none() {
                continue;
            }
            member.stop()?;
            let running = self.members.iter().filter(|m| m.process_id().is_some());
            if index == leader && running.count() * 2 > self.len() {
                self.leader()?;
            }
            member.start_again()?;
            self.wait_ready()?;
        }
        Ok(())
    }

    /// Turns every link between a member and the others into a black hole in both directions: nothing is
    /// refused or closed, existing connections stay open, new ones can be opened, and nothing passes. Clients
    /// still reach the member.
    ///
    /// A follower keeps answering reads, but no writes, until it has not heard from its leader for
    /// `syncLimit`. Then it closes its clients' connections and seeks a leader in vain. Meanwhile the others
    /// expire the sessions of its clients, unless these are resumed elsewhere. A leader steps down after the
    /// same limit, and the others elect another.
    ///
    /// # Panics
    ///
    /// When `index` is not below [`len`](Self::len).
    pub fn cut_off(&self, index: usize) {
        assert!(index < self.len(), "no member {index} of {}", self.len());
        self.network.cut_off(index);
    }

    /// Repairs the links of all members that were cut off. Connections that were black holes are closed, so
    /// the members connect again, and data on the way is lost.
    ///
    /// # Panics
    ///
    /// As [`FaultProxy::restore`](crate::FaultProxy::restore).
    pub fn heal(&self) {
        self.network.heal();
    }

    fn working_leader(&self) -> Option<usize> {
        let leaders = self.in_role(Role::Leader);
        let &[leader] = leaders.as_slice() else {
            return None;
        };
        serves(&self.members[leader]).ok().map(|()| leader)
    }

    fn in_role(&self, wanted: Role) -> Vec<usize> {
        let all = 0..self.len();
        all.filter(|&index| role(&self.members[index]) == Some(wanted)).collect()
    }

    fn is_expected(&self, index: usize) -> bool {
        is_active(&self.members[index]) && !self.network.is_cut_off(index)
    }

    fn not_ready(&self, index: usize, error: &io::Error) -> io::Error {
        let (roles, tail) = (self.describe(), self.members[index].log_tail());
        let text = format!(
            "member {index} is not ready within {READY_WITHIN:?}: {error}; {roles}; \
             the end of its log:\n{tail}"
        );
        io::Error::new(io::ErrorKind::TimedOut, text)
    }

    fn describe(&self) -> String {
        let each = self.members.iter().enumerate().map(|(index, member)| {
            let cut = if self.network.is_cut_off(index) { ", cut off" } else { "" };
            match (is_active(member), role(member)) {
                (false, _) => format!("{index} does not run{cut}"),
                (true, Some(role)) => format!("{index} is {role:?}{cut}"),
                (true, None) => format!("{index} does not serve{cut}"),
            }
        });
        each.collect::<Vec<_>>().join(", ")
    }
}
