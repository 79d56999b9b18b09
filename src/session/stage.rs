//! What tests of single steps start from.

use std::sync::Arc;
use std::time::Duration;

use zoolock_test_support::{connect_string, fresh_path};

use super::{Connection, Seat};
use crate::client::Client;
use crate::local::Ownership;
use crate::node::{Kind, new_name_prefix};
use crate::options::LockOptions;
use crate::site::Site;

/// A client of the shared server, and its connection.
pub(crate) fn client() -> (Client, Arc<Connection>) {
    let client = Client::connect(&connect_string(), Duration::from_secs(10)).expect("connect");
    let connection = client.session().live().expect("a connection");
    (client, connection)
}

/// A client, its connection, and a seat that it holds on it, without a node on the server: what is
/// tested does not ask it.
pub(super) struct Holder {
    pub(super) client: Client,
    pub(super) connection: Arc<Connection>,
    pub(super) seat: Arc<Seat>,
}

impl Holder {
    pub(super) fn new(ownership: Ownership) -> Holder {
        let (client, connection) = client();
        let site = Site::new(&client, &fresh_path("held"), LockOptions::new()).expect("a path");
        let claim = site.claim(&site.path, Kind::Exclusive, ownership);
        let seat = client.session().seat(claim).expect("a seat");
        let id = seat.enter(&connection).expect("an id");
        let name = new_name_prefix(&id, Kind::Exclusive) + "0000000007";
        assert!(seat.entered(&id, &name), "its place");
        seat.grant(&connection, &name).expect("granted");
        Holder { client, connection, seat }
    }
}
