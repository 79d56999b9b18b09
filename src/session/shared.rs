//! The state that all users of one client share, and the effects of the connection's events.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use log::{Level, warn};
use zookeeper::{Listener, SessionEvent, SessionEventKind, State, ZooKeeper};

use super::events::{ClientState, Stats, Subscribers};
use super::holds::Holds;
use super::levels::Levels;
use super::own::OwnNodes;
use super::registrar::Registrar;
use super::requests::Requests;
use crate::base::outages::Outages;
use crate::base::sys;
use crate::base::wait::{Until, Wait};

/// The state that all users of one client share. Dropping it closes the client.
pub(crate) struct Inner {
    pub(crate) requests: Arc<Requests>,
    pub(crate) own: Arc<OwnNodes>,
    pub(crate) holds: Arc<Holds>,
    pub(crate) levels: Arc<Levels>,
    outages: Arc<Outages>,
    pub(crate) subscribers: Subscribers,
    listener: Listener<SessionEvent>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (servers, state) = (&self.requests.zk, self.state());
        f.debug_struct("Inner").field("servers", servers).field("state", &state).finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl Inner {
    /// `zk` may have no session yet. `acl` is the ACL of all nodes that are created.
    pub(crate) fn new(
        zk: ZooKeeper,
        acl: Vec<zookeeper::Acl>,
        registrar: Option<Arc<dyn Registrar>>,
    ) -> Arc<Inner> {
        let requests = Arc::new(Requests::new(zk, acl, registrar));
        let own = OwnNodes::new(Arc::clone(&requests));
        let levels = Arc::<Levels>::default();
        let holds = Holds::new(Arc::clone(&own), Arc::clone(&levels));
        let inner = Arc::new_cyclic(|me: &Weak<Inner>| {
            let me = Weak::clone(me);
            let listener = Listener::new(move |event: &SessionEvent| {
                if let Some(inner) = me.upgrade() {
                    inner.on_event(event);
                }
            });
            let subscribers = Subscribers::new();
            let outages = Arc::new(Outages::default());
            Inner { requests, own, holds, levels, outages, subscribers, listener }
        });
        // After `subscribe`, an event may arrive at any time.
        inner.on_suspended();
        inner.requests.zk.subscribe(&inner.listener);
        let mut is_told = false;
        while inner.requests.is_connected() != is_told {
            is_told = !is_told;
            if is_told { inner.on_connected() } else { inner.on_suspended() }
        }
        if inner.requests.registrar.is_some() {
            inner.keep_registered();
        }
        inner
    }

    /// Ends every hold and every wait. Never blocks: the session ends a little later.
    pub(crate) fn shut_down(&self) {
        self.requests.close(|| {
            self.holds.close();
            self.own.forget(None);
            self.subscribers.close();
        });
    }

    /// Ends the session, and waits for its end for at most `limit`.
    pub(crate) fn close(&self, limit: Duration) -> zookeeper::Result<()> {
        self.shut_down();
        // Another thread may be about to end the holds. The session must not end before the holds
        // have ended.
        let _ = sys::recv(self.requests.closed());
        self.requests.zk.with_timeout(limit).close()?;
        self.requests.registrar.iter().for_each(|registrar| registrar.forget());
        Ok(())
    }

    /// Handles an event of the session. Runs on a thread of the client, which must not wait.
    fn on_event(self: &Arc<Self>, event: &SessionEvent) {
        match event.kind {
            SessionEventKind::Suspended => self.on_suspended(),
            SessionEventKind::Resumed => {
                self.requests.epoch.fetch_add(1, Ordering::Relaxed);
                self.on_connected();
            }
            SessionEventKind::Connected => self.on_connected(),
            SessionEventKind::LeaseEnded => self.holds.lose_expired(),
            SessionEventKind::Expired => {
                self.holds.lose_expired();
                self.own.forget(Some(event.session_id));
                self.requests.directories.clear();
                self.subscribers.lost(Duration::ZERO);
            }
            // The session's client may also end by itself, if one of its threads panics.
            SessionEventKind::Closed => self.shut_down(),
            _ => {}
        }
    }

    fn on_suspended(self: &Arc<Self>) {
        self.subscribers.tell(ClientState::Suspended);
        self.outages.begin();
        let after = self.requests.timeout();
        self.requests.call_at(sys::now() + after, self, move |inner| {
            // A client that never had a session cannot lose it.
            if inner.requests.session_id() != 0 && !inner.requests.is_connected() {
                inner.subscribers.lost(after);
            }
        });
    }

    /// Registers the session eight times per session timeout, because the reaper may have been
    /// restarted, or may have had too many clients.
    fn keep_registered(self: &Arc<Self>) {
        let again = sys::now() + self.requests.timeout() / 8;
        self.requests.call_at(again, self, |inner| {
            if !inner.requests.is_closed() {
                inner.register();
                inner.keep_registered();
            }
        });
    }

    /// Registers the session with the reaper, if the program has one. Never waits.
    fn register(&self) {
        let (requests, registrar) = (&self.requests, &self.requests.registrar);
        if let Some((registrar, key)) = registrar.as_ref().zip(requests.session_key())
            && let Some(said) = registrar.register(key)
        {
            requests.note(Level::Warn, move || warn!(target: "zoolock", "{said}"));
        }
    }

    fn on_connected(self: &Arc<Self>) {
        self.subscribers.tell(ClientState::Connected);
        self.requests.connected.send();
        self.register();
        self.own.on_connected();
        self.outages.end();
    }

    /// Returns when the waits of a call have to end.
    pub(crate) fn until(&self, wait: &Wait) -> Until {
        Until::new(wait, self.requests.patience(), Some(&self.outages))
    }

    pub(crate) fn state(&self) -> ClientState {
        match self.requests.zk.state() {
            _ if self.requests.is_closed() => ClientState::Closed,
            State::Connected => ClientState::Connected,
            State::Closed => ClientState::Closed,
            _ if self.subscribers.is_lost() => ClientState::Lost,
            _ => ClientState::Suspended,
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let counts = self.requests.zk.counts();
        Stats {
            requests: counts.requests,
            events: counts.events,
            connections: counts.connections,
            sessions: counts.sessions,
            resumed: self.requests.epoch(),
            holds_lost: self.holds.lost.load(Ordering::Relaxed),
            held: self.holds.registry.held(),
            waiting: self.requests.waiting.load(Ordering::Relaxed),
            deleting: self.own.table.lock().leaving(),
            is_registered: self.requests.registrar.as_ref().is_some_and(|one| one.is_registered()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    use super::*;
    use crate::base::kind::LockKind;
    use crate::base::options::LockOptions;
    use crate::base::path::LockPath;
    use crate::base::wait::Until;
    use crate::session::nodes::{Nodes, Term};
    use crate::session::own::Place;
    use crate::session::release;
    use crate::session::table::Unanswered;
    use crate::session::{Facts, HoldState, Node};

    /// Runs a server that grants one client a session. After that, it sends nothing if it `stays`,
    /// or else closes the connection.
    fn server(stays: bool) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            // Both messages of the handshake are preceded by their length.
            let mut length = [0; 4];
            client.read_exact(&mut length).unwrap();
            client.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize]).unwrap();
            // Protocol 0, the timeout in milliseconds, the session, its password, not read-only.
            let mut answer = 37_u32.to_be_bytes().to_vec();
            answer.extend(0_u32.to_be_bytes());
            answer.extend(if stays { 10_000_u32 } else { 500 }.to_be_bytes());
            answer.extend(0x5e55_u64.to_be_bytes());
            answer.extend(16_u32.to_be_bytes());
            answer.extend([7; 16]);
            answer.push(0);
            client.write_all(&answer).unwrap();
            if stays {
                let _ = io::copy(&mut client, &mut io::sink());
            }
        });
        address
    }

    fn connected() -> Arc<Inner> {
        let servers = server(true).to_string();
        let zk = ZooKeeper::connect(&servers, Duration::from_secs(10)).unwrap();
        Inner::new(zk, Vec::new(), None)
    }

    /// Returns the facts of a lock whose holds last at most this long.
    fn facts(kind: LockKind, at_most: Option<Duration>) -> Arc<Facts> {
        let path = LockPath::parse("/lock").unwrap();
        let options = LockOptions { hold_at_most: at_most, ..LockOptions::new() };
        Arc::new(Facts { lock: path.clone(), directory: path, kind, options })
    }

    fn node(inner: &Inner, facts: &Facts) -> Node {
        let place = Place::of(inner.requests.session_id(), facts);
        let until = Until::within(Duration::from_secs(60));
        let key = inner.own.enter(&place, 1, &until).unwrap().start;
        let name = "node".to_owned();
        Node { key, name, czxid: 1, token: 1, takes_directory: false }
    }

    #[test]
    fn nodes_of_another_session_are_not_granted() {
        let inner = connected();
        let facts = facts(LockKind::Ephemeral, None);
        let until = Until::within(Duration::from_secs(60));
        for (id, is_held) in
            [(inner.requests.session_id(), true), (inner.requests.session_id() + 1, false)]
        {
            let mut nodes = vec![node(&inner, &facts)];
            let granted = inner.holds.grant(&facts, &"".into(), &mut nodes, id, &until);
            assert_eq!(matches!(granted, Ok(Some(_))), is_held, "in session {id:x}");
        }
        let (session, timeout) = (inner.requests.session_id(), inner.requests.timeout());
        while inner.requests.zk.in_session(session).lease().valid_for >= timeout / 20 * 9 {
            thread::sleep(timeout / 1000);
        }
        // Such a lease is renewed first, but the server does not answer.
        let (mut nodes, until) = (vec![node(&inner, &facts)], Until::within(Duration::ZERO));
        let granted = inner.holds.grant(&facts, &"".into(), &mut nodes, session, &until);
        assert!(granted.is_err(), "with a third of the lease");
    }

    #[test]
    fn grant_after_the_close_is_freed() {
        let inner = connected();
        let (facts, until) =
            (facts(LockKind::Reentrant, None), Until::within(Duration::from_secs(60)));
        let mut nodes = vec![node(&inner, &facts)];
        inner.holds.close();
        let session = inner.requests.session_id();
        let granted = inner.holds.grant(&facts, &"".into(), &mut nodes, session, &until);
        assert!(granted.is_err());
        assert_eq!(Arc::strong_count(&facts), 1, "the nodes still exist");
    }

    #[test]
    fn thread_does_not_wait_for_a_hold_that_is_over_by_the_clock() {
        let inner = connected();
        for (at_most, is_held) in [(None, true), (Some(Duration::ZERO), false)] {
            let facts = facts(LockKind::Reentrant, at_most);
            let (zk, list) = (&inner.requests.zk, vec![node(&inner, &facts)]);
            let lease = zk.in_session(inner.requests.session_id()).lease();
            let term = Term::new(&inner.requests, lease, Duration::ZERO);
            let grant = Nodes::grant(&facts, &"".into(), list, term);
            // The hold has ended by the clock, but no timer has detected that yet.
            inner.holds.registry.add(grant.nodes(), || zk.keep_lease()).unwrap();
            assert_eq!(inner.holds.registry.holds_here(&facts), is_held, "{at_most:?}");
            inner.holds.registry.remove(grant.nodes());
        }
    }

    #[test]
    fn hold_that_a_forked_child_has_copied_is_over() {
        let inner = connected();
        let facts = facts(LockKind::Reentrant, None);
        let list = vec![node(&inner, &facts)];
        let lease = inner.requests.zk.in_session(inner.requests.session_id()).lease();
        let mut term = Term::new(&inner.requests, lease, Duration::ZERO);
        // This simulates a hold that was granted in the parent process.
        term.process = 0;
        let grant = Nodes::grant(&facts, &"".into(), list, term);
        assert!(grant.valid_for().is_zero() && matches!(grant.state(), HoldState::Lost(_)));
        let before = inner.stats().requests;
        assert!(release(&inner.holds, &grant).is_err_and(|error| error.is_lost()));
        assert_eq!(inner.stats().requests, before);
    }

    #[test]
    fn hold_that_was_seen_to_be_over_stays_so() {
        let inner = connected();
        let lease = inner.requests.zk.in_session(inner.requests.session_id()).lease();
        let mut term = Term::new(&inner.requests, lease, Duration::from_secs(60));
        assert!(term.left().is_zero());
        // This simulates a heartbeat that has renewed the lease.
        term.margin = Duration::ZERO;
        assert!(term.left().is_zero());
    }

    #[test]
    fn deletion_of_an_old_node_spares_a_later_directory() {
        let inner = connected();
        let facts = facts(LockKind::Reentrant, None);
        for (czxid, is_known) in [(2, true), (1, false)] {
            // The node was created by transaction 1, and the directory by this one.
            inner.requests.directories.note_made(&facts.directory, czxid);
            inner.own.delete(&Node { takes_directory: true, ..node(&inner, &facts) });
            let known = inner.requests.directories.note_missing(&facts.directory);
            assert_eq!(known.is_some(), is_known, "of transaction {czxid}");
        }
    }

    #[test]
    fn second_close_waits_until_the_first_has_ended_the_holds() {
        let inner = connected();
        // The first thread blocks on this.
        let ending = inner.holds.registry.stand_still();
        let (tell, closed) = crossbeam_channel::unbounded();
        let close = || {
            let (inner, tell) = (Arc::clone(&inner), tell.clone());
            thread::spawn(move || {
                let _ = inner.close(Duration::ZERO);
                tell.send(()).unwrap();
            })
        };
        let first = close();
        while !inner.requests.is_closed() {
            thread::yield_now();
        }
        let second = close();
        assert!(closed.recv_timeout(Duration::from_millis(200)).is_err(), "a session may end");
        drop(ending);
        [first, second].into_iter().for_each(|close| close.join().unwrap());
        assert_eq!(closed.try_iter().count(), 2);
    }

    #[test]
    fn connection_that_ends_right_behind_the_connect_is_lost_in_time() {
        let timeout = Duration::from_secs(10);
        let zk = ZooKeeper::connect(&server(false).to_string(), timeout).unwrap();
        while zk.state() == State::Connected {
            thread::yield_now();
        }
        let inner = Inner::new(zk, Vec::new(), None);
        assert_eq!(inner.state(), ClientState::Suspended);
        let told = inner.subscribers.subscribe().recv_timeout(timeout * 3);
        assert_eq!((told, inner.state()), (Ok(ClientState::Lost), ClientState::Lost));
    }

    #[test]
    fn create_that_is_given_up_behind_the_close_is_forgotten() {
        let inner = connected();
        let place = Place::of(inner.requests.session_id(), &facts(LockKind::Reentrant, None));
        let until = Until::within(Duration::from_secs(60));
        inner.shut_down();
        let key = inner.own.enter(&place, 1, &until).unwrap().start;
        let (id, epoch) = ("id".to_owned(), Some(inner.requests.epoch()));
        let create = Unanswered { id, epoch, until: sys::now() };
        inner.own.table.lock().no_answer(key, create);
        inner.own.give_up(&place, &mut vec![key], None);
        assert_eq!(inner.stats().deleting, 0);
    }

    #[test]
    fn client_that_ends_by_itself_closes_its_locks() {
        let inner = connected();
        let until = inner.until(&Wait::FOREVER);
        // This simulates the end of the client's reader thread.
        drop(inner.requests.zk.with_timeout(Duration::ZERO).close());
        let told = inner.requests.closed().recv_timeout(Duration::from_secs(30));
        assert!(told.is_err_and(|error| error.is_disconnected()), "nobody is told");
        let waited = inner.requests.await_connection("/lock", &until);
        assert!(matches!(waited, Err(crate::Error::Closed)), "{waited:?}");
        assert_eq!(inner.state(), ClientState::Closed);
    }
}
