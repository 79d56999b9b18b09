//! Several servers that elect a leader among them, and the faults of such an ensemble.

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

/// How long an election may take; it has to wait for `syncLimit` when a leader goes silent.
const LEADER_WITHIN: Duration = Duration::from_secs(30);
/// How long members may take to be in the quorum.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// ZooKeeper servers of this process's own that replicate each other, on loopback ports.
///
/// Members are told apart by their index, from 0; their ZooKeeper ids count from 1. Each is a
/// [`Server`] that can be stopped, killed, paused and started again. The members reach each other
/// only through proxies, so that one can be [cut off](Self::cut_off); clients reach each of them
/// directly, or through a [`FaultProxy`](crate::FaultProxy) of the test.
///
/// All members end, and their directories are removed, when the value is dropped or the process
/// ends, as with a [`Server`].
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

    /// Settings for an ensemble of `size` members to be started.
    pub fn builder(size: usize) -> EnsembleBuilder {
        EnsembleBuilder::new(size)
    }

    /// How many members there are, running or not.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// One member; [`Server::start_again`] on it does not wait for the quorum.
    ///
    /// # Panics
    ///
    /// When `index` is not below [`len`](Self::len).
    #[must_use]
    pub fn server(&self, index: usize) -> &Server {
        &self.members[index]
    }

    /// The addresses clients connect to, by index; they never change.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(Server::address).collect()
    }

    /// All addresses as ZooKeeper clients take them, `127.0.0.1:<port>,127.0.0.1:<port>,...`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let each: Vec<_> = self.members.iter().map(Server::connect_string).collect();
        each.join(",")
    }

    /// Waits until exactly one running member says that it leads and answers requests, also to
    /// write; its index.
    ///
    /// A leader that is cut off says so until it notices, so this waits for that, too; one that
    /// is paused says nothing.
    ///
    /// # Errors
    ///
    /// When there is no such leader within 30 s; the text has what the members say.
    pub fn leader(&self) -> io::Result<usize> {
        let leader = poll(LEADER_WITHIN, || self.working_leader());
        leader.ok_or_else(|| {
            let text = format!("no leader within {LEADER_WITHIN:?}: {}", self.describe());
            io::Error::new(io::ErrorKind::TimedOut, text)
        })
    }

    /// Waits for the [`leader`](Self::leader); the indexes of the running members that say at
    /// this moment that they follow. One that was cut off says so until it notices.
    ///
    /// # Errors
    ///
    /// As [`leader`](Self::leader).
    pub fn followers(&self) -> io::Result<Vec<usize>> {
        self.leader()?;
        Ok(self.in_role(Role::Follower))
    }

    /// Waits for the [`leader`](Self::leader) and kills it (SIGKILL); which one it was.
    ///
    /// # Errors
    ///
    /// As [`leader`](Self::leader) and [`Server::kill`].
    pub fn kill_leader(&self) -> io::Result<usize> {
        let leader = self.leader()?;
        self.members[leader].kill()?;
        Ok(leader)
    }

    /// Waits until every member that runs, is not paused and not cut off answers a request to
    /// read and one to write, so that it is in the quorum.
    ///
    /// # Errors
    ///
    /// When one does not within 60 s; the text has the end of its log.
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

    /// Stops the running members one after another, the followers first and the leader last, and
    /// starts each again and waits until it is back in the quorum before the next. The leader is
    /// not started before the others have another one, if they are enough to have one.
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

    /// Turns every link between a member and the others into a black hole, both ways: nothing
    /// is refused or closed, existing connections stay open, new ones can be opened, and nothing
    /// passes. Clients still reach the member.
    ///
    /// A follower goes on answering reads, not writes, until it has not heard of its leader for
    /// `syncLimit`; then it closes its clients' connections and looks for a leader in vain. The
    /// others expire the sessions of its clients meanwhile, unless they are resumed elsewhere. A leader
    /// steps down by the same limit, and the others elect another.
    ///
    /// # Panics
    ///
    /// When `index` is not below [`len`](Self::len).
    pub fn cut_off(&self, index: usize) {
        assert!(index < self.len(), "no member {index} of {}", self.len());
        self.network.cut_off(index);
    }

    /// Makes the links of all members that were cut off work again. Connections that were black
    /// holes are closed, so the members connect anew; what was on its way is lost.
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
