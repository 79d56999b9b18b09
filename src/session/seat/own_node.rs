//! What a seat's own node says: since when it is there, that somebody asks the holder to let go,
//! and by the watch over it, that it is gone.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};
use zookeeper::Stat;

use super::{Seat, State};
use crate::data::{self, Origin};
use crate::node::Kind;
use crate::session::connection::Connection;
use crate::watch::Listening;

/// Being asked to let go.
#[derive(Debug, Default)]
pub(super) struct Revocation {
    /// The transaction of the last request.
    pub(super) asked: Option<i64>,
    listeners: Vec<Sender<()>>,
}

impl Revocation {
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }
}

impl Seat {
    // ---- the watch

    /// When the own node should be watched on `connection`: none if it is, or has none.
    pub(in crate::session) fn watch_due(&self, connection: &Arc<Connection>) -> Option<Instant> {
        let core = self.core.lock();
        let place = core.place.as_ref()?;
        let wanted = core.watched.is_none() && place.name.is_some() && place.is_on(connection);
        let now = !core.revocation.listeners.is_empty();
        wanted.then(|| match now {
            true => core.since,
            false => core.since + connection.timeout() / 4,
        })
    }

    /// The node `name` on `connection` is being watched, if it still is the seat's. False if not.
    pub(in crate::session) fn watched(
        &self,
        name: &str,
        connection: &Arc<Connection>,
        listening: Listening,
    ) -> bool {
        let mut core = self.core.lock();
        let own = core
            .place
            .as_ref()
            .is_some_and(|place| place.name.as_deref() == Some(name) && place.is_on(connection));
        let old = match own {
            true => core.watched.replace(listening),
            false => Some(listening),
        };
        drop(core);
        drop(old);
        own
    }

    /// Is it the seat's own node that was found at its place? The name of a single node does not
    /// say so: somebody may have deleted it, and somebody else have made it again. None if it
    /// cannot be told, since the data were written over.
    pub(in crate::session) fn is_own(&self, data: &[u8], stat: &Stat) -> Option<bool> {
        if self.claim.kind != Kind::Single {
            return Some(true);
        }
        let core = self.core.lock();
        let Some(place) = &core.place else {
            return Some(false);
        };
        match (core.origin, data::decode_single(data)) {
            (Some(origin), _) => Some(origin.token == Origin::from(stat).token),
            (None, Some((id, _))) => Some(id == place.id),
            (None, None) => (stat.version == 0).then_some(false),
        }
    }

    /// The read that should have set the watch over the node `name` failed.
    pub(in crate::session) fn not_watched(&self, name: &str) {
        let mut core = self.core.lock();
        let own = core.place.as_ref();
        let own = own.is_some_and(|place| place.name.as_deref() == Some(name));
        let watched = core.watched.take_if(|_| own);
        drop(core);
        drop(watched);
    }

    // ---- where it began

    /// The fencing token, and since when the seat waits or holds. None until it was read.
    pub(crate) fn origin(&self) -> Option<Origin> {
        self.core.lock().origin
    }

    /// `origin` was read from the node `name`. Of a seat that has moved the first node's counts.
    pub(crate) fn learn_origin(&self, name: &str, origin: Origin) -> Origin {
        let mut core = self.core.lock();
        let place = core.place.as_ref();
        if core.origin.is_none() && place.is_some_and(|p| p.name.as_deref() == Some(name)) {
            core.origin = Some(origin);
        }
        core.origin.unwrap_or(origin)
    }

    /// The origin of another hold that this one stands under.
    pub(crate) fn share_origin(&self, origin: Origin) {
        self.core.lock().origin.get_or_insert(origin);
    }

    /// What a node made for the seat now should say.
    pub(in crate::session) fn data(&self) -> Vec<u8> {
        data::encode(&self.claim.identity, self.origin())
    }

    // ---- revocation

    /// The data of an own node were read, which transaction `mzxid` has written: somebody may have
    /// asked the holder to let go. True if so, and for the first time.
    pub(in crate::session) fn read(&self, data: &[u8], mzxid: i64) -> bool {
        if !data::asks(self.claim.kind, data) {
            return false;
        }
        let mut core = self.core.lock();
        // Read once more, as when the seat moves, it is the same request.
        if core.revocation.asked.replace(mzxid) == Some(mzxid) {
            return false;
        }
        let listeners = core.revocation.listeners.clone();
        drop(core);
        for listener in listeners {
            // Full: it has not listened since the last one.
            let _ = listener.try_send(());
        }
        true
    }

    /// A channel with a message once the holder was asked to let go; disconnected when the seat
    /// ends.
    pub(crate) fn revocation(&self) -> Receiver<()> {
        let (sender, receiver) = bounded(1);
        let mut core = self.core.lock();
        if core.revocation.asked.is_some() {
            let _ = sender.try_send(());
        }
        if matches!(core.state, State::Waiting | State::Held { .. }) {
            core.revocation.listeners.push(sender);
        }
        drop(core);
        receiver
    }
}
