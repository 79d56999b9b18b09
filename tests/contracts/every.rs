//! What every kind of lock promises with every option. Each test runs over the table of subjects.

mod deadlines;
mod ending;
mod excluding;
mod granting;
mod leaving;
mod margins;
mod options;
mod order;
mod outside;
mod owning;
mod places;
mod requests;
mod too_long;

use common::{SOON, client_of};
use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    EphemeralLock, LockOptions, Result,
};
use zoolock_test_support::connect_string;

/// A client of the shared server. Its session is so long that a busy machine ends no lease and answers every
/// try.
pub(crate) fn client() -> Client {
    client_of(&connect_string(), SOON)
}

/// What the constructor of each type says.
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
