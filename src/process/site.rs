//! The parts of a lock object that its calls need: the client, and the facts that are the same for
//! each call. This module also runs each call and reports it to the observer.

use std::sync::Arc;

use crate::base::contender::Contender;
use crate::base::error::{Error, Result};
use crate::base::kind::LockKind;
use crate::base::options::LockOptions;
use crate::base::path::LockPath;
use crate::base::wait::{Until, Wait};
use crate::client::Client;
use crate::contenders::contenders;
use crate::observer::{Observed, Report};
use crate::queue::{Attempt, Recipe, acquire, acquire_single};
use crate::session::{Facts, Grant, Inner, Replaceable, Requests};

/// What a lock object requests, and the client that sends the requests.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) client: Client,
    pub(crate) facts: Arc<Facts>,
}

impl Site {
    /// Creates the site of a lock. The directory of its nodes is its path. For a single node, it is
    /// the directory above that path.
    pub(crate) fn new(
        client: &Client,
        path: &str,
        kind: LockKind,
        options: LockOptions,
    ) -> Result<Site> {
        let (client, lock, options) =
            (client.clone(), LockPath::parse(path)?, options.check(kind)?);
        let requests = &client.inner.requests;
        if requests.session_id() != 0 {
            requests.check_margin(options.margin)?;
        }
        let directory = match kind.is_single_node() {
            true => lock.split().0,
            false => lock.clone(),
        };
        Ok(Site { client, facts: Arc::new(Facts { lock, directory, kind, options }) })
    }

    /// Creates the site of another part of the same lock.
    pub(crate) fn part(&self, directory: LockPath, kind: LockKind, options: LockOptions) -> Site {
        let (client, lock) = (self.client.clone(), self.facts.lock.clone());
        Site { client, facts: Arc::new(Facts { lock, directory, kind, options }) }
    }

    /// Returns the lock's path.
    pub(crate) fn path(&self) -> &str {
        self.facts.lock.as_str()
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.client.inner
    }

    pub(crate) fn requests(&self) -> &Requests {
        &self.inner().requests
    }

    /// Runs a call with the limits of `wait`, and reports its outcome to the observer.
    pub(crate) fn observe(
        &self,
        wait: &Wait,
        acquire: impl FnOnce(&Until, Option<&Report>) -> Result<Option<Arc<Grant>>>,
    ) -> Result<Option<Arc<Grant>>> {
        let until = self.inner().until(wait);
        let report = self.client.builder.observer.clone().map(|observer| {
            let (lock, name) = (self.facts.kind, Arc::clone(&self.facts.options.name));
            Report::begin(Observed { observer, lock, name }, until.waits)
        });
        let got = wait.check(self.path()).and_then(|()| acquire(&until, report.as_ref()));
        if let Some(report) = report {
            let grant = got.as_ref().ok().and_then(Option::as_ref);
            // The observer is registered before the call is reported, so that it does not miss the
            // end of the hold.
            let is_over = grant.and_then(|grant| grant.observe(&report.observed));
            report.end(got.as_ref().map(Option::is_some));
            is_over.into_iter().for_each(|tell| tell());
        }
        got
    }

    /// Acquires the nodes of the recipe on the servers, or the single node. The call replaces the
    /// node `replaceable`, which the previous thread has released.
    pub(crate) fn take(
        &self,
        recipe: Recipe<'_>,
        replaceable: Option<Replaceable>,
        until: &Until,
        report: Option<&Report>,
    ) -> Result<Option<Arc<Grant>>> {
        let chosen = self.facts.options.identity.clone();
        let identity = chosen.unwrap_or_else(|| self.client.identity());
        let attempt = Attempt::new(self.inner(), &self.facts, identity, until, report);
        match self.facts.kind.is_single_node() {
            true => acquire_single(attempt),
            false => acquire(attempt, recipe, replaceable),
        }
    }

    pub(crate) fn contenders(&self) -> Result<Vec<Contender>> {
        contenders(self.requests(), &self.facts.lock)
    }

    /// Returns the error of an unlock call without a hold.
    pub(crate) fn refusal(&self) -> Error {
        match self.requests().is_closed() {
            true => Error::Closed,
            false => Error::not_held(self.path()),
        }
    }
}
