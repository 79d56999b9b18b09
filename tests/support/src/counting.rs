//! A server whose sequence numbers can be set, for tests of their end.

use std::env;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::sync::OnceLock;
use std::time::Duration;

use crate::port::ReservedPort;
use crate::server::config::Program;
use crate::{Server, ServerBuilder};

const SOURCE: &str = include_str!("../java/CountingServer.java");
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// A real ZooKeeper server in a Java program that can set the number of the next sequential node.
/// It derefs to its [`Server`] for everything else.
///
/// It needs a JDK, because the program is compiled when it starts. That takes a second or two.
#[derive(Debug)]
pub struct CountingServer {
    server: Server,
    orders: ReservedPort,
}

impl CountingServer {
    /// Starts such a server, and returns when it answers.
    ///
    /// # Errors
    ///
    /// As [`ServerBuilder::start`]; and `Unsupported` when there is no Java compiler.
    pub fn start() -> io::Result<Self> {
        let orders = ReservedPort::any()?;
        let program = Program::Source { text: SOURCE, port: orders.address().port() };
        // The digest is for replicas, and does not allow for numbers that are set.
        let settings = ServerBuilder::of(program).jvm_flag("-Dzookeeper.digest.enabled=false");
        let server = settings.start()?;
        Ok(Self { server, orders })
    }

    /// Returns the server that all tests of this process share. Starts it at the first call.
    /// Without a Java compiler, it prints `skipped: ..` and returns `None`, unless
    /// `ZOOLOCK_INTEROP` is `required`.
    ///
    /// # Panics
    ///
    /// When the server cannot be started for another reason, or is required. The text says why.
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

    /// Sets the number of the next sequential child of `path`. Later children count on from there.
    /// The number survives a restart.
    ///
    /// Call this while no client creates or deletes children of `path`: while a change is under
    /// way, the server counts on from a copy.
    ///
    /// # Errors
    ///
    /// When there is no such node, or no answer within 20 s.
    pub fn set_counter(&self, path: &str, number: i32) -> io::Result<()> {
        let failed = |why: &dyn std::fmt::Display| {
            io::Error::other(format!("failed to set the counter of `{path}` to {number}: {why}"))
        };
        let answer = self.order(&format!("{number} {path}\n"));
        match answer.map_err(|error| failed(&error))?.trim() {
            "ok" => Ok(()),
            "" => Err(failed(&self.server.log_tail())),
            why => Err(failed(&why)),
        }
    }

    fn order(&self, line: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.orders.address(), ANSWER_WITHIN)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.write_all(line.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

impl Deref for CountingServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
