//! A ZooKeeper server in the process of a test.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use crossbeam_channel::Receiver;
use zookeeper::testing;

use crate::client::{Client, ClientBuilder};
use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::session::{ClientState, ConnectionEvent};

/// A server.
pub struct Server(testing::Server);

impl Server {
    /// Starts one.
    pub fn start() -> io::Result<Server> {
        testing::Server::start().map(Server)
    }

    /// Where
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.0.connect_string()
    }
}
