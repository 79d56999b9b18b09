//! How a hold's node goes to the next thread of the process, without a word to the servers: the part
//! that the seat's mutex decides.

use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::{Core, Seat, State};
use crate::clock::Moment;
use crate::session::seats::Seats;
use crate::watch::Listening;

/// Farther than anyone looks ahead.
const FAR: Duration = Duration::from_secs(u32::MAX as u64);

/// Who else wants what is kept.
#[derive(Debug, Default)]
pub(super) struct Recall {
    /// The directory is watched, or was until something came.
    listening: Option<Listening>,
    /// Somebody has come, or may have.
    called: bool,
    /// How long it may be kept.
    until: Option<Instant>,
}

impl Recall {
    /// The connection of the watch is gone. What it says from now on is nothing.
    pub(super) fn stop_listening(&mut self) -> Option<Listening> {
        self.listening.take()
    }
}

impl Seat {
    /// The thread that owns the hold, where a thread owns it.
    pub(crate) fn owner(&self) -> Option<ThreadId> {
        self.core.lock().owner
    }

    /// Ends the hold, and leaves what it has to another seat that nobody owns yet. None, and nothing
    /// has changed, if a third of the session timeout is not left of its lease, or somebody has
    /// asked for it, or a read shares its place, or it is about to move: the servers have to be told.
    pub(in crate::session) fn pass_on(&self, seats: &Seats) -> Option<Arc<Seat>> {
        let mut core = self.core.lock();
        let term = core.sound_term()?;
        // Whoever comes next has to wait for a read in this place.
        let shared = core.shares > 0 || core.read_under;
        if shared || core.next.is_some() || core.revocation.is_asked() {
            return None;
        }
        let mut heir = Seat::new(self.number, self.claim.clone(), None);
        let heirs = heir.core.get_mut();
        heirs.owner = None;
        heirs.kept = true;
        heirs.granted = core.granted;
        heirs.state = State::Held { term };
        heirs.name.clone_from(&core.name);
        heirs.origin = core.origin;
        heirs.since = core.since;
        heirs.place = core.place.take();
        heirs.watched = core.watched.take();
        heirs.recall = std::mem::take(&mut core.recall);
        let heir = Arc::new(heir);
        // Under the mutex: what is heard of the node meanwhile finds one of the two.
        if !seats.replace(&heir) {
            let mut heirs = heir.core.lock();
            (core.place, core.watched) = (heirs.place.take(), heirs.watched.take());
            core.recall = std::mem::take(&mut heirs.recall);
            return None;
        }
        core.state = State::Released;
        let asked = std::mem::take(&mut core.revocation);
        drop(core);
        drop(asked);
        self.raise_ended();
        Some(heir)
    }

    /// The calling thread takes over what another one has left. False if less than a third of the
    /// session timeout is left of its lease.
    pub(crate) fn take_over(&self) -> bool {
        let mut core = self.core.lock();
        if !core.kept || core.sound_term().is_none() {
            return false;
        }
        core.kept = false;
        if self.claim.owner.is_some() {
            core.owner = Some(thread::current().id());
        }
        true
    }

    // ---- keeping it for somebody who may come

    /// Is it there for whoever takes it over?
    pub(crate) fn is_kept(&self) -> bool {
        self.core.lock().kept
    }

    /// How long it may be kept if that is for `time` after its grant; a time that the clock cannot hold
    /// has no end. None if not at all, or if somebody else has come.
    pub(in crate::session) fn may_keep(&self, time: Duration) -> Option<Instant> {
        let mut core = self.core.lock();
        let until = core.granted.checked_add(time).unwrap_or_else(|| core.granted + FAR);
        core.recall.until = Some(until);
        (until > Instant::now() && !core.recall.called).then_some(until)
    }

    /// Is it kept for whoever comes, not only for whoever waits?
    pub(crate) fn stays(&self) -> bool {
        let core = self.core.lock();
        let recall = &core.recall;
        let in_time = recall.until.is_some_and(|until| until > Instant::now());
        core.kept && in_time && recall.listening.is_some() && !recall.called
    }

    /// Its time is over, or its connection is.
    pub(in crate::session) fn is_kept_too_long(&self, now: Instant) -> bool {
        let core = self.core.lock();
        let late = core.recall.until.is_some_and(|until| until <= now);
        let place = core.place.as_ref();
        core.kept && (late || place.is_none_or(|place| place.connection().is_dead()))
    }

    /// Nobody has looked who else is there.
    pub(in crate::session) fn is_unattended(&self) -> bool {
        self.core.lock().recall.listening.is_none()
    }

    /// Its directory is watched from now on.
    pub(in crate::session) fn attended(&self, listening: Listening) {
        let mut core = self.core.lock();
        let old = core.recall.listening.replace(listening);
        drop(core);
        drop(old);
    }

    /// Somebody has come: it is not kept again.
    pub(in crate::session) fn recall(&self) {
        self.core.lock().recall.called = true;
    }
}

impl Core {
    /// The term of the lease that it is held in, if the connection lives and a third of the session
    /// timeout is left.
    fn sound_term(&self) -> Option<u64> {
        let State::Held { term } = self.state else {
            return None;
        };
        let connection = self.place.as_ref()?.connection();
        let (current, left) = connection.lease(Moment::now());
        let sound = current == term && left >= connection.timeout() / 3 && !connection.is_dead();
        sound.then_some(term)
    }
}

#[cfg(test)]
mod tests;
