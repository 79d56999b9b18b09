//! The path, client and options of a lock object, from which it makes its claims.

use std::sync::Arc;

use super::local::Ownership;
use crate::client::Client;
use crate::contenders::{Contender, contenders};
use crate::error::{Error, Result};
use crate::names::Mode;
use crate::observer::{Call, LockKind, Observed};
use crate::options::LockOptions;
use crate::path::LockPath;
use crate::patience::Patience;
use crate::recipe::{Recipe, Want};
use crate::session::{Claim, Departure, Grant, Session};
use crate::signal::Until;
use crate::sys::thread;

/// A lock's path, the client that uses it, and its options.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) client: Client,
    pub(crate) path: LockPath,
    pub(crate) options: LockOptions,
}

impl Site {
    pub(crate) fn new(client: &Client, path: &str, options: LockOptions) -> Result<Site> {
        let (client, path) = (client.clone(), LockPath::parse(path)?);
        Ok(Site { client, path, options: options.check()? })
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        self.client.session()
    }

    /// Returns the calling thread's claim to nodes in `directory`, which is the lock's path, below
    /// it, or above it.
    pub(crate) fn claim(
        &self,
        directory: &LockPath,
        (mode, ownership): (Option<Mode>, Ownership),
    ) -> Claim {
        let identity = self.options.identity.clone();
        Claim {
            lock: self.path.clone(),
            directory: directory.clone(),
            mode,
            owner: ownership.of(thread::current().id()),
            identity: identity.unwrap_or_else(|| self.client.identity()),
            background: self.options.background_release,
            at_least: self.options.hold_at_least,
        }
    }

    /// Runs a call, and tells the observer its outcome.
    pub(crate) fn observe(
        &self,
        what: (Option<Mode>, Ownership),
        patience: Patience,
        acquire: impl FnOnce(Patience, Option<&Call>) -> Result<Option<Arc<Grant>>>,
    ) -> Result<Option<Arc<Grant>>> {
        let patience = patience.now();
        let Some(observer) = self.client.observer().cloned() else {
            return acquire(patience, None);
        };
        let lock = match what {
            (None, _) => LockKind::Ephemeral,
            (Some(Mode::Exclusive), Ownership::AnyThread) => LockKind::Exclusive,
            (Some(Mode::Exclusive), Ownership::ThisThread) => LockKind::Reentrant,
            (Some(Mode::Read), _) => LockKind::Read,
            (Some(Mode::Write), _) => LockKind::Write,
            (Some(Mode::Permit), _) => LockKind::Semaphore,
        };
        let observed = Observed { observer, lock, name: Arc::clone(&self.options.name) };
        let call = Call::begin(observed, matches!(patience, Patience::Until(_)));
        let got = acquire(patience, Some(&call));
        if !call.has_entered_again() {
            let grant = got.as_ref().ok().and_then(Option::as_ref);
            // Before the observer is told of the call, so that no end is missed.
            let is_over = grant.and_then(|grant| grant.observe(call.observed()));
            call.end(got.as_ref().map(Option::is_some));
            is_over.into_iter().for_each(|tell| tell());
        }
        got
    }

    /// Takes what the recipe says, on the servers; with `until`, waits for it.
    pub(crate) fn take(
        &self,
        claim: &Claim,
        recipe: &dyn Recipe,
        until: Option<&Until>,
        call: Option<&Call>,
    ) -> Result<Option<Arc<Grant>>> {
        self.take_instead_of(None, claim, recipe, until, call)
    }

    /// Like [`take`](Self::take), replacing the node of the previous thread.
    pub(crate) fn take_instead_of(
        &self,
        departure: Option<Departure>,
        claim: &Claim,
        recipe: &dyn Recipe,
        until: Option<&Until>,
        call: Option<&Call>,
    ) -> Result<Option<Arc<Grant>>> {
        let on_position = self.options.on_position.as_ref();
        let want = Want { session: self.session(), claim, recipe, departure, on_position, call };
        match until {
            Some(until) => want.acquire(until),
            None => want.try_acquire(),
        }
    }

    pub(crate) fn contenders(&self) -> Result<Vec<Contender>> {
        contenders(self.session(), &self.path)
    }

    pub(crate) fn not_held(&self) -> Error {
        Error::NotHeld { path: self.path.as_str().to_owned() }
    }

    /// Returns the error for an unlock without a hold.
    pub(crate) fn refuse(&self) -> Error {
        match self.session().is_closed() {
            true => Error::Closed,
            false => self.not_held(),
        }
    }
}
