//! The floor: the crate `zoolock-zookeeper`, called on the caller's thread. An acquisition is a create, a list, a watch
//! on the node ahead if there is one, and a delete. A lost connection is an error. The floor of a single-node lock is a
//! create and a delete.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zookeeper::{Acl, CreateMode, WatchedEvent, ZkError, ZooKeeper};

use crate::session::{Exclusive, Outcome, Session, Side, lacks};

const SEQUENCE: usize = 10;

pub(crate) fn connect(hosts: &str, timeout: Duration) -> Outcome<Box<dyn Session>> {
    let zookeeper = ZooKeeper::connect(hosts, timeout, |_: WatchedEvent| ())?;
    Ok(Box::new(Raw(Arc::new(zookeeper))))
}

/// Connects like [`connect`], for single-node locks. These have no waiters.
pub(crate) fn connect_single(hosts: &str, timeout: Duration) -> Outcome<Box<dyn Session>> {
    let zookeeper = ZooKeeper::connect(hosts, timeout, |_: WatchedEvent| ())?;
    Ok(Box::new(RawSingle(Arc::new(zookeeper))))
}

struct Raw(Arc<ZooKeeper>);

struct RawSingle(Arc<ZooKeeper>);

impl Session for RawSingle {
    fn lock(&self, path: &str, side: Side) -> Outcome<Box<dyn Exclusive>> {
        match side {
            Side::Mutex => {
                Ok(Box::new(Single { zookeeper: Arc::clone(&self.0), path: path.to_owned() }))
            }
            _ => lacks("read-write lock"),
        }
    }
}

impl Session for Raw {
    fn lock(&self, path: &str, side: Side) -> Outcome<Box<dyn Exclusive>> {
        match side {
            Side::Mutex => Ok(Box::new(Queue {
                zookeeper: Arc::clone(&self.0),
                path: path.to_owned(),
                held: Mutex::default(),
            })),
            _ => lacks("read-write lock"),
        }
    }
}

struct Queue {
    zookeeper: Arc<ZooKeeper>,
    path: String,
    /// The node of the thread that has the lock.
    held: Mutex<Option<String>>,
}

impl Queue {
    /// Creates a node, and returns its name.
    fn enter(&self) -> Outcome<String> {
        match self.create("lock-", CreateMode::EphemeralSequential) {
            Err(ZkError::NoNode) => make_directories(&self.zookeeper, &self.path)?,
            made => return Ok(made?),
        }
        Ok(self.create("lock-", CreateMode::EphemeralSequential)?)
    }

    fn create(&self, name: &str, mode: CreateMode) -> Result<String, ZkError> {
        let path = format!("{}/{name}", self.path);
        let acl = Acl::open_unsafe().clone();
        let made = self.zookeeper.create(&path, Vec::new(), acl, mode)?;
        Ok(made[self.path.len() + 1..].to_owned())
    }

    /// Returns the node before this one.
    fn ahead(&self, own: &str) -> Outcome<Option<String>> {
        let nodes = self.zookeeper.get_children(&self.path, false)?;
        let sequence = |name: &str| name[name.len().saturating_sub(SEQUENCE)..].to_owned();
        let earlier = nodes.into_iter().filter(|name| sequence(name) < sequence(own));
        Ok(earlier.max_by_key(|name| sequence(name)))
    }

    fn delete(&self, node: &str) -> Outcome<()> {
        Ok(self.zookeeper.delete(&format!("{}/{node}", self.path), None)?)
    }

    fn set_held(&self, node: Option<String>) -> Option<String> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, node)
    }
}

impl Exclusive for Queue {
    fn lock(&self) -> Outcome<()> {
        let own = self.enter()?;
        while let Some(ahead) = self.ahead(&own)? {
            let (sender, gone) = channel();
            let path = format!("{}/{ahead}", self.path);
            let watcher = move |_: WatchedEvent| sender.send(()).unwrap_or_default();
            if self.zookeeper.exists_w(&path, watcher)?.is_some() {
                gone.recv()?;
            }
        }
        self.set_held(Some(own));
        Ok(())
    }

    fn unlock(&self) -> Outcome<()> {
        self.delete(&self.set_held(None).ok_or("it is not held")?)
    }

    fn try_lock(&self) -> Outcome<bool> {
        let own = self.enter()?;
        if self.ahead(&own)?.is_none() {
            self.set_held(Some(own));
            return Ok(true);
        }
        self.delete(&own)?;
        Ok(false)
    }
}

struct Single {
    zookeeper: Arc<ZooKeeper>,
    path: String,
}

impl Single {
    fn create(&self) -> Result<String, ZkError> {
        let acl = Acl::open_unsafe().clone();
        self.zookeeper.create(&self.path, Vec::new(), acl, CreateMode::Ephemeral)
    }
}

impl Exclusive for Single {
    fn lock(&self) -> Outcome<()> {
        match self.create() {
            Err(ZkError::NoNode) => {
                let parent = self.path.rfind('/').map_or("", |slash| &self.path[..slash]);
                make_directories(&self.zookeeper, parent)?;
                self.create()?;
            }
            made => drop(made?),
        }
        Ok(())
    }

    fn unlock(&self) -> Outcome<()> {
        Ok(self.zookeeper.delete(&self.path, None)?)
    }

    fn try_lock(&self) -> Outcome<bool> {
        lacks("try_lock")
    }
}

fn make_directories(zookeeper: &ZooKeeper, path: &str) -> Outcome<()> {
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
    for end in ends.chain([path.len()]) {
        let acl = Acl::open_unsafe().clone();
        match zookeeper.create(&path[..end], Vec::new(), acl, CreateMode::Persistent) {
            Ok(_) | Err(ZkError::NodeExists) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
