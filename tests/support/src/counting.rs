//! A server whose sequence numbers can be set, to test what happens when they overflow.

use std::env;
use std::io;
use std::ops::Deref;
use std::sync::OnceLock;
use std::time::Duration;

use crate::Server;
use crate::port::ReservedPort;
use crate::server::ask;

const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// A real ZooKeeper server in a Java program that can set the number of the next sequential node. In all other
/// respects, it is a [`Server`], to which it dereferences.
///
/// It requires a JDK, because the program is compiled at each start, which takes a second or two.
#[derive(Debug)]
pub struct CountingServer {
    server: Server,
    orders: ReservedPort,
}

impl CountingServer {
    fn start() -> io::Result<Self> {
        let orders = ReservedPort::any()?;
        // The digest, which serves to compare replicas, would not match after the counter has been changed.
        let mut settings = Server::builder().jvm_flag("-Dzookeeper.digest.enabled=false");
        settings.counts_at = Some(orders.address().port());
        Ok(Self { server: settings.start()?, orders })
    }

    /// Returns the server that all tests of this process share. The first call starts it. Without a Java compiler,
    /// prints `skipped: ..` and returns `None`, or panics if `ZOOLOCK_INTEROP` is `required`. Panics if the server
    /// cannot start for another reason.
    #[must_use]
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<CountingServer>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| {
            let required = env::var_os("ZOOLOCK_INTEROP").is_some_and(|value| value == "required");
            match Self::start() {
                Ok(server) => Some(server),
                Err(error) if !required && error.kind() == io::ErrorKind::Unsupported => {
                    println!("skipped: {error}");
                    None
                }
                Err(error) => panic!("{error}"),
            }
        });
        shared.as_ref()
    }

    /// Sets the number of the next sequential child of `path`. Later children have the numbers that follow it, even
    /// after a restart.
    ///
    /// Call this only while no client creates or deletes children of `path`: during such a change, the server holds a
    /// copy of the node, and would overwrite the number. Fails if the node does not exist, or if there is no answer
    /// within 20 s.
    pub fn set_counter(&self, path: &str, number: i32) -> io::Result<()> {
        let failed = |why: &dyn std::fmt::Display| {
            io::Error::other(format!("failed to set the counter of `{path}` to {number}: {why}"))
        };
        let answer = ask(self.orders.address(), &format!("{number} {path}\n"), ANSWER_WITHIN);
        match answer.map_err(|error| failed(&error))?.trim() {
            "ok" => Ok(()),
            "" => Err(failed(&self.server.log_tail())),
            why => Err(failed(&why)),
        }
    }
}

impl Deref for CountingServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
