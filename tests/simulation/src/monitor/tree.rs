//! The monitor's copy of the servers' tree, and what each change of it means for holds, acquisitions and writes.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::Process;
use zookeeper_testing::ensemble::{Change, ChangeKind, Committed};

use super::lists::{self, contends, is_permit};
use super::outages::{self, has_lost_one};
use super::{
    DATA, FRAMES, Gone, LATE, Maker, Monitor, Node, NodeId, SOON, UNTOLD, calls, check, holds,
    violation,
};
use crate::client::has_stalled;
use crate::histories;
use crate::plan::{Kind, Place};
use crate::raw;

impl Monitor {
    pub(super) fn node(&self, path: &str, token: u64) -> Option<&Node> {
        self.nodes.get(path).filter(|node| node.czxid as u64 == token)
    }

    pub(super) fn children<'a>(
        &'a self,
        directory: &str,
    ) -> impl Iterator<Item = (&'a str, &'a Node)> + use<'a> {
        let prefix = format!("{directory}/");
        let below = self.nodes.range(prefix.clone()..);
        let below = below.map_while(move |(path, node)| Some((path.strip_prefix(&prefix)?, node)));
        below.filter(|(name, _)| !name.contains('/'))
    }

    /// Returns whether others have deleted this process's node at this path, or ended the session that owned it.
    pub(super) fn is_robbed(&self, process: Process, path: &str) -> bool {
        let is_its = |session| self.sessions.get(session) == Some(&process);
        self.robbed.iter().any(|(session, robbed)| robbed == path && is_its(session))
    }

    /// Returns whether others have deleted this session's node at this path. If this has not been detected, the owner
    /// of an `EphemeralLock` may delete a node that another client has created at the path in the meantime.
    fn is_late(&self, session: i64, path: &str) -> bool {
        self.robbed.contains(&(session, path.to_owned()))
    }

    pub(crate) fn has_left_since(&self, directory: &str, since: Duration) -> bool {
        let left = self.left_at.get(directory).into_iter().flat_map(BTreeMap::values);
        left.map(|(_, left)| *left).max() >= Some(since)
    }

    pub(crate) fn is_any_robbed(&self, directory: &str) -> bool {
        self.robbed.iter().any(|(_, path)| parent(path) == directory)
    }

    /// Checks that no transaction creates two contenders in or below a directory: they would have the same token.
    fn check_tokens(&self, one: &Committed) {
        let is_made = |change: &&Change| {
            let is_of_session =
                matches!(change.kind, ChangeKind::Created { owner, .. } if owner != 0);
            is_of_session && is_of_queue(name_of(&change.path))
        };
        let made = one.changes.iter().filter(is_made).map(|change| parent(&change.path));
        let made: Vec<&str> = made.collect();
        for (at, &one) in made.iter().enumerate() {
            let is_near =
                |&&other: &&&str| one == other || parent(one) == other || parent(other) == one;
            if let Some(other) = made[..at].iter().find(is_near) {
                violation(format!("two contenders at {other}, or below it, have one token"));
            }
        }
    }

    pub(super) fn committed(&mut self, one: &Committed) {
        self.check_directories(one);
        self.check_tokens(one);
        for change in &one.changes {
            let path = &*change.path;
            match &change.kind {
                ChangeKind::Created { owner, data } => {
                    let node = Node {
                        owner: *owner,
                        czxid: one.zxid,
                        made: kernel::elapsed(),
                        said: String::from_utf8_lossy(data).into_owned(),
                        by: one.session,
                        is_written: false,
                        ahead: self.count_ahead(path),
                    };
                    self.gone.remove(path);
                    self.last_change.insert(parent(path).to_owned(), one.zxid);
                    self.were.insert(lists::contender(path, &node));
                    self.nodes.insert(path.to_owned(), node);
                    self.check_created(path, *owner);
                }
                ChangeKind::Deleted => self.deleted(path, one),
                ChangeKind::DataSet(data) if path.starts_with(DATA) => {
                    self.version += 1;
                    self.written(path, data);
                }
                ChangeKind::DataSet(data) => {
                    let Some(node) = self.nodes.get_mut(path) else { continue };
                    node.is_written = true;
                    // A holder answers a request by writing these data, which are not a request themselves.
                    if &data[..] == b"__REVOKE__" {
                        let node = (path.to_owned(), node.czxid as u64);
                        self.requested.entry(node.clone()).or_insert_with(kernel::elapsed);
                        self.asked.insert(node);
                    }
                }
                ChangeKind::AclSet => {}
            }
        }
    }

    /// Checks that a client deletes a directory only if it created the directory, and only together with its own node,
    /// and that the directory is deleted with its last node. The tree does not contain this transaction yet.
    fn check_directories(&self, one: &Committed) {
        if one.is_close || one.session == 0 {
            return;
        }
        let deleted = one.changes.iter().filter(|change| change.kind == ChangeKind::Deleted);
        let deleted: Vec<&str> = deleted.map(|change| &*change.path).collect();
        let is_deleted = |path: &str| deleted.contains(&path);
        for &path in &deleted {
            let is_of_others = path.starts_with(DATA) || path.starts_with(raw::ROOT);
            let Some(node) = self.nodes.get(path).filter(|_| !is_of_others) else { continue };
            if node.owner == 0 && !self.broken.contains(path) {
                let has_its_node = self.children(path).any(|(name, child)| {
                    child.owner == one.session && is_deleted(&format!("{path}/{name}"))
                });
                let is_made = self.sessions.get(&node.by) == self.sessions.get(&one.session);
                let is_its = is_made && !node.is_written && has_its_node;
                if !is_its && !self.is_late(one.session, path) {
                    violation(format!("a client deletes {path}, which is not its own"));
                }
                continue;
            }
            let directory = parent(path);
            // After a failed call, the node is deleted without the directory.
            let was_held = self.acquisitions.keys().any(|((place, _), token)| {
                place.path() == directory && *token == node.czxid as u64
            });
            let is_only = |made: &Node| {
                !made.is_written
                    && made.czxid == node.czxid
                    && self.last_change.get(directory) == Some(&node.czxid)
            };
            // If a session is closed in the middle of a downgrade, the directory remains.
            let may_stay = self.sessions.get(&node.owner).is_some_and(|owner| {
                has_lost_one(&self.outages, *owner) || self.closing.contains(owner)
            });
            if self.is_undisturbed
                && self.is_quick
                && !may_stay
                && node.owner == one.session
                && was_held
                && !self.broken.contains(path)
                && self.nodes.get(directory).is_some_and(is_only)
                && !is_deleted(directory)
            {
                violation(format!("{directory} remains after its only node"));
            }
        }
    }

    fn check_created(&self, path: &str, owner: i64) {
        let name = name_of(path);
        // A client may create the node of a permit only while it has the turn, which means that its turn node is first.
        if let Some(place) = parent(path).strip_suffix("/leases")
            && owner != 0
            && !self.has_strangers
        {
            let turns = format!("{place}/locks");
            let all = || self.children(&turns).filter(|(name, _)| is_of_queue(name));
            // The last group of a permit's id shows to which turn it belongs.
            let its = all().find(|(turn, _)| turn.get(27..39) == name.get(27..39));
            let number = |name: &str| number_of(name).unwrap_or(u64::MAX);
            if let Some((its, _)) = its
                && let Some((first, _)) = all().find(|(turn, _)| number(turn) < number(its))
            {
                violation(format!("{path} is requested in the turn {its}, behind {first}"));
            }
        }
    }

    fn deleted(&mut self, path: &str, one: &Committed) {
        let Some(node) = self.nodes.remove(path) else { return };
        let (now, timeout) = (kernel::elapsed(), self.timeout);
        if !is_of_queue(name_of(path)) {
            self.last_change.insert(parent(path).to_owned(), one.zxid);
        }
        let left = self.left_at.entry(parent(path).to_owned()).or_default();
        left.insert(node.maker(), (node.made, now));
        let (is_late, is_broken) = (self.is_late(one.session, path), self.broken.contains(path));
        let is_own = one.is_close || one.session == 0 || one.session == node.owner;
        let is_of_locks = node.owner != 0 && !path.starts_with(raw::ROOT);
        if !is_own && !is_late && is_of_locks && !is_broken {
            violation(format!("{path}, of session {:#x}, is deleted by another", node.owner));
        }
        let by_somebody = match one.is_close {
            true => self.expired.contains(&node.owner),
            false => one.session != node.owner || is_broken || is_late,
        };
        if by_somebody {
            self.robbed.insert((node.owner, path.to_owned()));
        }
        let is_hidden = self.hidden.contains(path);
        if is_hidden {
            self.untold.insert(path.to_owned());
        }
        let was_behind = by_somebody && !is_hidden && self.is_behind(path, node.czxid);
        self.gone.insert(path.to_owned(), Gone { by_somebody, was_behind });
        if let Some(place) = parent(path).strip_suffix("/locks")
            && by_somebody
            && !one.is_close
        {
            let owner = self.sessions.get(&node.owner).copied();
            let soon = (self.slowest * FRAMES).max(timeout / 3);
            for (&number, call) in &mut self.waiting {
                let is_its = owner == Some(call.process) && call.place.path() == place;
                if is_its && call.kind == Kind::Semaphore {
                    call.turnless = Some(now);
                    kernel::after(soon, move || calls::has_a_turn(number, node.owner, now));
                }
            }
        }
        if !by_somebody && !one.is_close {
            self.check_left(path, &node);
        }
        let reserved = self.reserved.remove(path);
        if let Some(until) = reserved
            // Permits that were acquired together are lost together.
            && (self.is_gentle || self.is_steady && self.is_quick && !self.is_any_robbed(parent(path)))
            && !by_somebody
            && !one.is_close
            && until > now
        {
            violation(format!("{path} is deleted before {until:?}, until when it must exist"));
        }
        for (&number, held) in &mut self.held {
            if held.has_left || held.is_doubtful || !held.has_node(path) {
                continue;
            }
            if by_somebody {
                held.is_doubtful = true;
                histories::doubted(held.id);
                // From time to time, clients check nodes for which they have received no event.
                let time = if is_hidden { timeout * UNTOLD } else { timeout * 3 / 2 };
                kernel::after(time, move || holds::goes_on(number, now));
            } else if !kernel::is_dead(held.process) && held.is_held() == Some(true) {
                let what = if one.is_close { "the end of" } else { "a deletion in" };
                let how = format!("with {what} session {:#x}", node.owner);
                let has = format!("{} has {} ({:?})", held.who, held.place, held.kind);
                violation(format!("{has} while its node {path} is deleted, {how}"));
            }
        }
    }

    /// Returns the contenders in a directory: for each, whether it is a read, its number, and its node.
    pub(super) fn contenders(&self, directory: &str) -> impl Iterator<Item = (bool, i32, &Node)> {
        self.children(directory).filter_map(|(name, node)| {
            let (is_read, number) = contender(name)?;
            Some((is_read, number, node))
        })
    }

    /// Returns how long it may take a waiter to acquire a free lock in a run without delays.
    pub(super) fn soon(&self) -> Duration {
        SOON.max(self.slowest * FRAMES)
    }

    /// Returns how long it may take a thread to queue.
    pub(crate) fn late(&self) -> Duration {
        LATE.max(self.slowest)
    }

    /// Returns how many contenders are ahead of a node, by their numbers alone.
    fn count_ahead(&self, path: &str) -> usize {
        let own = contender(name_of(path)).map_or(i32::MAX, |(_, own)| own);
        self.contenders(parent(path)).filter(|(_, other, _)| *other < own).count()
    }

    /// Returns whether a lock has had a node since `begun` that is not from a call of this thread.
    pub(crate) fn was_taken(&self, kind: Kind, place: Place, begun: Duration) -> bool {
        let (path, since) = (place.path(), begun.saturating_sub(self.lag));
        let parts = ["", "/locks", "/leases"].map(|part| format!("{path}{part}"));
        let directories =
            parts.iter().map(|path| if kind == Kind::Single { parent(path) } else { path });
        let mut directories = directories.map(|directory| self.left_at.get(directory));
        let is_other = |maker: &Maker, made: Duration| made < begun || !self.is_of_thread(maker);
        let was_there = |left: &BTreeMap<Maker, (Duration, Duration)>| {
            left.iter().any(|(maker, (made, left))| *left >= since && is_other(maker, *made))
        };
        let is_its = |name: &str| contends(name) || is_permit(name);
        let is_there = |directory: &str| {
            let mut nodes = self.children(directory).filter(|(name, _)| is_its(name));
            nodes.any(|(_, node)| is_other(&node.maker(), node.made))
        };
        parts.iter().any(|directory| is_there(directory))
            || kind == Kind::Single
                && self.nodes.get(path).is_some_and(|node| is_other(&node.maker(), node.made))
            || directories.any(|left| left.is_some_and(was_there))
    }

    /// Returns whether the running thread created a node.
    pub(super) fn is_of_thread(&self, (session, said): &Maker) -> bool {
        let process = kernel::own_process();
        self.sessions.get(session) == Some(&process)
            && said.contains(&format!("/{}#", kernel::whoami().1))
    }

    /// Returns whether this node, which may just have been deleted, had to wait for another one. A read below a write
    /// may have the number of the write, although it was created later.
    pub(super) fn is_behind(&self, path: &str, czxid: i64) -> bool {
        let Some((is_read, number)) = contender(name_of(path)) else { return false };
        let mut others = self.contenders(parent(path));
        others.any(|(other_reads, other, node)| {
            other < number && node.czxid < czxid && !(is_read && other_reads)
        })
    }

    /// Checks that a node without a holder does not remain for long when another session has queued.
    fn check_left(&mut self, path: &str, node: &Node) {
        let (directory, now) = (parent(path), kernel::elapsed());
        let Some(left) = self.left.remove(&(path.to_owned(), node.czxid as u64)) else { return };
        let Some((_, number)) = contender(name_of(path)) else { return };
        let rivals = self.contenders(directory);
        let rivals = rivals.filter(|(_, other, one)| *other > number && one.owner != node.owner);
        let Some(since) = rivals.map(|(_, _, one)| one.made).min() else { return };
        let ended = self.ended_at.iter().find(|(place, _)| place.path() == directory);
        // The client is notified of other contenders when it has a connection.
        let notified = self.connected.get(&left.process).map(|(at, _)| at);
        let both = ended.map(|(_, ended)| ended).into_iter().chain(notified);
        let since = both.copied().fold(since.max(left.since), Duration::max);
        // From time to time, clients check nodes for which they have received no event.
        let limit =
            if self.is_well && !self.has_hidden { self.soon() } else { self.timeout * UNTOLD };
        if now - since > limit
            && !has_stalled(left.process, since)
            && !self.reserved.contains_key(path)
            && !self.several_may_have(left.process, directory)
        {
            let since = left.since;
            violation(format!("{path} remains unused since {since:?}, with others behind it"));
        }
    }

    fn written(&mut self, path: &str, data: &[u8]) {
        let text = String::from_utf8_lossy(data);
        self.written.insert(text.to_string());
        if self.not_written.contains(&*text) {
            violation(format!("{text:?} was reported not to be written"));
        }
        let mut parts = text.split(' ');
        let (Some(node), Some(token)) = (parts.next(), parts.next()) else { return };
        let hold: Option<usize> = parts.next().and_then(|hold| hold.parse().ok());
        if let Some(hold) = hold
            && let Some(queue) = self.exclusive.get(&hold)
        {
            let queue = self.queues.entry(*queue).or_default();
            queue.written = self.version;
            if !self.held.contains_key(&hold) && queue.newest > hold {
                violation(format!(
                    "{path} was written for {node}, and its next acquisition has begun"
                ));
            }
        }
        if self.nodes.get(node).is_none_or(|node| node.czxid.to_string() != token) {
            violation(format!("{path} was written for {node} ({token}), which does not exist"));
        }
    }

    /// Returns the queue nodes and ephemeral nodes that still exist at the end of the run.
    pub(crate) fn left_behind(&self) -> Vec<String> {
        let is_left = |(path, node): &(&String, &Node)| {
            (node.owner != 0 || name_of(path).starts_with("_c_")) && !self.planted.contains(*path)
        };
        self.nodes.iter().filter(is_left).map(|(path, _)| path.clone()).collect()
    }

    /// Returns a node below a place, or the node of the place's `EphemeralLock`, on which an operator may act.
    pub(crate) fn below(&self, place: Place, nth: usize) -> Option<String> {
        let prefix = format!("{place}/");
        let is_it = |(path, node): &(&String, &Node)| {
            path.starts_with(&prefix) || (*path == place.path() && node.owner != 0)
        };
        let below: Vec<_> = self.nodes.iter().filter(is_it).map(|(path, _)| path).collect();
        below.get(nth % below.len().max(1)).map(|path| (*path).clone())
    }

    pub(crate) fn sessions_nodes(&self, directory: &str) -> Vec<String> {
        let own = self.children(directory).filter(|(_, node)| node.owner != 0);
        own.map(|(name, _)| format!("{directory}/{name}")).collect()
    }

    pub(crate) fn holders(&self) -> Vec<String> {
        let held = self.held.values().filter(|held| !held.has_left);
        held.map(|held| format!("{} has {} ({:?})", held.who, held.place, held.kind)).collect()
    }
}

/// Checks how many contenders were reported to be ahead of a call when it queued. The call began at `begun`.
pub(crate) fn stood((path, token): &NodeId, ahead: Option<usize>, is_first: bool, begun: Duration) {
    // After a session has ended or a node has been deleted, a call queues again.
    let was_cut = outages::was_cut_off(kernel::own_process(), begun);
    check(|monitor| {
        let (node, directory) = (monitor.node(path, *token)?, parent(path));
        let left = monitor.left_at.get(directory).and_then(|left| left.get(&node.maker()));
        let mut beside = monitor.children(directory).filter(|(_, one)| one.maker() == node.maker());
        let is_again = was_cut
            || monitor.has_strangers
            || monitor.is_any_robbed(directory)
            || left.is_some_and(|(made, _)| *made >= begun)
            || beside.nth(1).is_some();
        let is_so = match ahead {
            // Each write that was counted may have a read below it by now.
            Some(count) => is_first && (count <= node.ahead * 2 || is_again),
            None => !is_first || node.made < begun || monitor.several_had(directory, node.made),
        };
        (!is_so).then(|| format!("{ahead:?} are reported ahead of {path}, but {} were", node.ahead))
    });
}

/// Returns whether a contender's name is that of a read, and its number. Writes count as exclusive locks here.
fn contender(name: &str) -> Option<(bool, i32)> {
    let (head, number) = name.split_at_checked(name.len().checked_sub(10)?)?;
    let is_read = head.ends_with("__READ__");
    let is_any = is_read || head.ends_with("__WRIT__") || head.ends_with("-lock-");
    let number = number.parse().ok().filter(|number| (0..i32::MAX).contains(number))?;
    is_any.then_some((is_read, number))
}

/// Returns whether a name has the form of a contender's, with an id and a number.
pub(super) fn is_of_queue(name: &str) -> bool {
    name.starts_with("_c_") && name.is_char_boundary(39) && number_of(name).is_some()
}

pub(super) fn number_of(name: &str) -> Option<u64> {
    name.get(name.len().checked_sub(10)?..)?.parse().ok()
}

pub(super) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}
