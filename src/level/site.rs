//! The path, client and options of a lock object, from which it makes its claims.

use std::sync::Arc;

use crate::client::Client;
use crate::contender::Contender;
use crate::contenders::contenders;
use crate::error::{Error, Result};
use crate::inner::{Claim, Grant, Holder, Inner, Requests};
use crate::kind::LockKind;
use crate::observer::{Call, Observed};
use crate::options::LockOptions;
use crate::path::LockPath;
use crate::recipe::Want;
use crate::sys::thread;
use crate::wait::Until;

/// A lock's path, the client that uses it, and its options.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) client: Client,
    pub(crate) path: LockPath,
    pub(crate) options: LockOptions,
}

impl Site {
    pub(crate) fn new(client: &Client, path: &str, options: LockOptions) -> Result<Site> {
        let (client, path, options) = (client.clone(), LockPath::parse(path)?, options.check()?);
        let requests = &client.inner().requests;
        if requests.session_id() != 0 {
            requests.check_margin(options.margin)?;
        }
        Ok(Site { client, path, options })
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        self.client.inner()
    }

    pub(crate) fn requests(&self) -> &Requests {
        &self.inner().requests
    }

    /// Returns the calling thread's claim to nodes in `directory`, which is the lock's path, below
    /// it, or above it.
    pub(crate) fn claim(&self, directory: &LockPath, kind: LockKind) -> Claim {
        let chosen = self.options.identity.clone();
        Claim {
            lock: self.path.clone(),
            directory: directory.clone(),
            kind,
            holder: Holder { thread: thread::current().id(), at_most: self.options.hold_at_most },
            is_chosen: chosen.is_some(),
            identity: chosen.unwrap_or_else(|| self.client.identity()),
            background: self.options.background_release,
            at_least: self.options.hold_at_least,
            margin: self.options.margin,
        }
    }

    /// Runs a call that waits as `until` says, and reports its outcome to the observer.
    pub(crate) fn observe(
        &self,
        kind: LockKind,
        until: Option<&Until>,
        acquire: impl FnOnce(Option<&Call>) -> Result<Option<Arc<Grant>>>,
    ) -> Result<Option<Arc<Grant>>> {
        let call = self.client.observer().cloned().map(|observer| {
            let observed = Observed { observer, lock: kind, name: Arc::clone(&self.options.name) };
            Call::begin(observed, until.is_some())
        });
        let mut got = acquire(call.as_ref());
        if let Some(until) = until {
            got = until.explain(got);
        }
        call.inspect(|call| Site::end_call(call, &got));
        got
    }

    /// Reports the outcome of a call to its observer.
    fn end_call(call: &Call, got: &Result<Option<Arc<Grant>>>) {
        if call.is_reentry() {
            return;
        }
        let grant = got.as_ref().ok().and_then(Option::as_ref);
        // Registered before the call is reported, so that no end is missed.
        let is_over = grant.and_then(|grant| grant.observe(call.observed()));
        call.end(got.as_ref().map(Option::is_some));
        is_over.into_iter().for_each(|tell| tell());
    }

    /// Has `acquire` take nodes on the servers. With `until`, waits for them.
    pub(crate) fn take(
        &self,
        claim: &Claim,
        until: Option<&Until>,
        call: Option<&Call>,
        acquire: impl FnOnce(Want<'_>) -> Result<Option<Arc<Grant>>>,
    ) -> Result<Option<Arc<Grant>>> {
        let (inner, waits) = (self.inner(), until.is_some());
        match until {
            Some(until) => acquire(Want { inner, claim, until, waits, call }),
            None => {
                inner.requests.require_connection(claim.lock.as_str())?;
                let until = &Until::within(inner.requests.patience());
                acquire(Want { inner, claim, until, waits, call })
            }
        }
    }

    pub(crate) fn contenders(&self) -> Result<Vec<Contender>> {
        contenders(self.requests(), &self.path)
    }

    /// Returns the error for an unlock without a hold.
    pub(crate) fn refusal(&self) -> Error {
        match self.requests().is_closed() {
            true => Error::Closed,
            false => Error::NotHeld { path: self.path.as_str().to_owned() },
        }
    }
}
