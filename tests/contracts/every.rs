//! What every kind of lock promises, with every option. Each test runs for all subjects in the table.

mod deadlines;
mod ending;
mod excluding;
mod granting;
mod margins;
mod options;
mod outside;
mod owning;
mod places;
mod requests;

use std::time::Duration;

use common::*;
use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    EphemeralLock, LockOptions, Result,
};

/// Returns a client of the shared server. Its session timeout is so long that even on a busy machine, no lease ends and
/// every `try_lock` receives an answer.
pub(crate) fn client() -> Client {
    client_of(&connect_string(), SOON)
}

/// An object of one client, and its rival, an object of another client.
pub(crate) struct Pair {
    pub ours: Client,
    pub others: Client,
    pub path: String,
    pub object: Object,
    pub rival: Object,
}

impl Pair {
    pub(crate) fn of(subject: Subject, name: &str, session_timeout: Duration) -> Pair {
        let [ours, others] = [(); 2].map(|()| client_of(&connect_string(), session_timeout));
        let path = fresh_path(name);
        let (object, rival) = (subject.at(&ours, &path), subject.rival(&others, &path));
        Pair { ours, others, path, object, rival }
    }
}

/// Returns the results of the constructors of all types.
pub(crate) fn each_type(client: &Client, path: &str, options: &LockOptions) -> [Result<()>; 5] {
    let options = || options.clone();
    [
        DistributedLock::with_options(client, path, options()).map(drop),
        DistributedReentrantLock::with_options(client, path, options()).map(drop),
        DistributedRwLock::with_options(client, path, options()).map(drop),
        DistributedSemaphore::with_options(client, path, 1, options()).map(drop),
        EphemeralLock::with_options(client, path, options()).map(drop),
    ]
}
