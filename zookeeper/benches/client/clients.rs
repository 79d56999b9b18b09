//! Who takes part, each behind the same few calls on the caller's own thread.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use tokio::runtime::{Builder, Runtime};
use zookeeper_client::Acls;
use zoolock_test_support::Probe;
use zoolock_zookeeper::{Acl, CreateMode, ZooKeeper};

use crate::Outcome;

/// Half of the longest that the servers allow: few heartbeats among the requests counted.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contestant {
    /// The crate `zookeeper`, which all are compared with.
    #[value(name = "zookeeper")]
    Classic,
    /// This one.
    #[value(name = "zoolock-zookeeper")]
    Own,
    /// The crate `zookeeper-client`, asynchronous: each thread blocks on its own.
    #[value(name = "zookeeper-client")]
    Asynchronous,
    /// The floor: a thread that writes to a socket and reads from it. For one thread only.
    #[value(name = "socket")]
    Socket,
}

/// One session, for any number of threads.
pub(crate) trait Client: Send + Sync {
    /// Creates an ephemeral sequential node, lists the directory, deletes the node.
    fn cycle(&self, folder: &str) -> Outcome<()>;

    /// The same; the first two do not wait for each other, if that can be said. Answers come in the
    /// order of the requests: who waits for the last one first wakes once.
    fn together(&self, folder: &str) -> Outcome<()> {
        self.cycle(folder)
    }

    /// How many bytes there are.
    fn read(&self, path: &str) -> Outcome<usize>;
}

impl Contestant {
    pub(crate) fn can(self, threads: usize) -> bool {
        self != Contestant::Socket || threads == 1
    }

    pub(crate) fn connect(self, server: &str) -> Outcome<Box<dyn Client>> {
        Ok(match self {
            #[cfg(not(feature = "classic"))]
            Contestant::Classic => return Err("built without the feature `classic`".into()),
            #[cfg(feature = "classic")]
            Contestant::Classic => {
                let ignore = |_: zookeeper::WatchedEvent| ();
                let client = zookeeper::ZooKeeper::connect(server, SESSION_TIMEOUT, ignore)?;
                Box::new(Classic(client))
            }
            Contestant::Own => Box::new(Own {
                client: ZooKeeper::connect(server, SESSION_TIMEOUT)?,
                acl: Acl::open(),
            }),
            Contestant::Asynchronous => {
                let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
                let mut connector = zookeeper_client::Client::connector();
                connector = connector.with_session_timeout(SESSION_TIMEOUT);
                let client = runtime.block_on(connector.connect(server))?;
                Box::new(Asynchronous { client, runtime })
            }
            Contestant::Socket => Box::new(Socket(Probe::connect(server)?)),
        })
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("?", |value| value.get_name()))
    }
}

fn prefix(folder: &str) -> String {
    format!("{folder}/node-")
}

struct Own {
    client: ZooKeeper,
    acl: Vec<Acl>,
}

impl Client for Own {
    fn cycle(&self, folder: &str) -> Outcome<()> {
        let mode = CreateMode::EphemeralSequential;
        let (path, _) = self.client.create(&prefix(folder), b"", &self.acl, mode)?;
        self.client.get_children(folder)?;
        Ok(self.client.delete(&path, None)?)
    }

    fn together(&self, folder: &str) -> Outcome<()> {
        let (prefix, mode) = (prefix(folder), CreateMode::EphemeralSequential);
        let (made, listed) = self.client.submit(|batch| {
            let made = batch.create(&prefix, b"", &self.acl, mode);
            (made, batch.get_children(folder, None))
        });
        listed.wait()?;
        let (path, _) = made.wait()?;
        Ok(self.client.delete(&path, None)?)
    }

    fn read(&self, path: &str) -> Outcome<usize> {
        Ok(self.client.get_data(path)?.0.len())
    }
}

#[cfg(feature = "classic")]
struct Classic(zookeeper::ZooKeeper);

#[cfg(feature = "classic")]
impl Client for Classic {
    fn cycle(&self, folder: &str) -> Outcome<()> {
        let acl = zookeeper::Acl::open_unsafe().clone();
        let mode = zookeeper::CreateMode::EphemeralSequential;
        let path = self.0.create(&prefix(folder), Vec::new(), acl, mode)?;
        self.0.get_children(folder, false)?;
        Ok(self.0.delete(&path, None)?)
    }

    fn read(&self, path: &str) -> Outcome<usize> {
        Ok(self.0.get_data(path, false)?.0.len())
    }
}

struct Asynchronous {
    client: zookeeper_client::Client,
    runtime: Runtime,
}

/// How it makes its nodes.
fn ephemeral() -> zookeeper_client::CreateOptions<'static> {
    zookeeper_client::CreateMode::EphemeralSequential.with_acls(Acls::anyone_all())
}

impl Client for Asynchronous {
    fn cycle(&self, folder: &str) -> Outcome<()> {
        let prefix = prefix(folder);
        self.runtime.block_on(async {
            let (_, number) = self.client.create(&prefix, b"", &ephemeral()).await?;
            self.client.get_children(folder).await?;
            let path = format!("{prefix}{number}");
            Ok(self.client.delete(&path, None).await?)
        })
    }

    /// Its calls send when they are made, not when they are awaited.
    fn together(&self, folder: &str) -> Outcome<()> {
        let prefix = prefix(folder);
        self.runtime.block_on(async {
            let made = self.client.create(&prefix, b"", &ephemeral());
            let listed = self.client.get_children(folder);
            listed.await?;
            let (_, number) = made.await?;
            let path = format!("{prefix}{number}");
            Ok(self.client.delete(&path, None).await?)
        })
    }

    fn read(&self, path: &str) -> Outcome<usize> {
        Ok(self.runtime.block_on(self.client.get_data(path))?.0.len())
    }
}

struct Socket(Probe);

impl Client for Socket {
    fn cycle(&self, folder: &str) -> Outcome<()> {
        let path = self.0.create(&prefix(folder), b"", true, true)?;
        self.0.children(folder)?;
        Ok(self.0.delete(&path)?)
    }

    fn read(&self, path: &str) -> Outcome<usize> {
        let read = self.0.get(path)?;
        Ok(read.map_or(0, |(data, _)| data.len()))
    }
}
