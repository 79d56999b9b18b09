//! What every kind of lock promises with every option, said once: each test is a contract that runs over
//! the table of subjects.

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

/// A client of the shared server, with so long a session that a busy machine ends no lease, and leaves
/// no try without an answer.
pub(crate) fn client() -> Client {
    client_of(&connect_string(), SOON)
}
