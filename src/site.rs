//! Where a lock lives, and on whose behalf: what every kind of lock makes its claims from.

use std::sync::Arc;
use std::thread;

use crate::client::Client;
use crate::contenders::{Contender, contenders};
use crate::error::{Error, Result};
use crate::local::Ownership;
use crate::node::Kind;
use crate::options::LockOptions;
use crate::path::LockPath;
use crate::semaphore::LOCKS;
use crate::session::{Claim, Session};

/// A lock's path, the client that uses it, and how.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) client: Client,
    pub(crate) path: LockPath,
    pub(crate) options: LockOptions,
}

impl Site {
    pub(crate) fn new(client: &Client, path: &str, options: LockOptions) -> Result<Site> {
        Ok(Site { client: client.clone(), path: LockPath::parse(path)?, options: options.check()? })
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        self.client.session()
    }

    /// The calling thread's claim to a place in `directory`, which is the lock's path or below it.
    pub(crate) fn claim(&self, directory: &LockPath, kind: Kind, ownership: Ownership) -> Claim {
        let identity = self.options.identity.clone();
        let directories = || [directory, &self.path].map(LockPath::clone);
        let (remember, tidy) = match kind {
            _ if !self.options.remove_empty_directory => (Vec::new(), Vec::new()),
            Kind::Single => (Vec::new(), Vec::new()),
            // A semaphore's: what is left of the others goes with the last permit.
            Kind::Permit => {
                let [leases, path] = directories();
                let tidy = vec![leases, self.path.below(LOCKS), path];
                (directories().to_vec(), tidy)
            }
            _ if *directory != self.path => (directories().to_vec(), Vec::new()),
            _ => (vec![directory.clone()], vec![directory.clone()]),
        };
        Claim {
            lock: self.path.clone(),
            directory: directory.clone(),
            kind,
            owner: match ownership {
                Ownership::AnyThread => None,
                Ownership::ThisThread => Some(thread::current().id()),
            },
            identity: identity.unwrap_or_else(|| self.client.identity()),
            tidy,
            remember,
            background: self.options.background_release,
            observer: self.options.observer.clone(),
        }
    }

    pub(crate) fn contenders(&self) -> Result<Vec<Contender>> {
        contenders(self.session(), &self.path)
    }

    pub(crate) fn named(&self) -> String {
        self.path.as_str().to_owned()
    }

    pub(crate) fn not_held(&self) -> Error {
        let path = self.named();
        Error::NotHeld { path }
    }
}
