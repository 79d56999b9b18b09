//! The promises of every kind of lock with every option. Each test is a contract that runs over the
//! table of subjects.

mod deadlines;
mod ending;
mod excluding;
mod granting;
mod leaving;
mod options;
mod order;
mod outside;
mod owning;
mod places;
mod requests;

use common::{SOON, client_of};
use zoolock::Client;
use zoolock_test_support::connect_string;

/// Returns a client of the shared server. Its session is so long that a busy machine ends no lease,
/// and leaves no try without an answer.
pub(crate) fn client() -> Client {
    client_of(&connect_string(), SOON)
}
