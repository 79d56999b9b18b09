//! The lock of the crate `zookeeper-client`, which is asynchronous. Each thread blocks on its own
//! future.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix, OwnedLockClient};

use crate::session::{Exclusive, Outcome, Session, Side, lacks};

/// All sessions share a runtime, as they would in a program.
pub(crate) fn runtime() -> Outcome<Arc<Runtime>> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    Ok(Arc::new(runtime))
}

pub(crate) fn connect(
    runtime: &Arc<Runtime>,
    hosts: &str,
    timeout: Duration,
) -> Outcome<Box<dyn Session>> {
    let connecting = Client::connector().with_session_timeout(timeout).connect(hosts);
    Ok(Box::new(Connected { client: runtime.block_on(connecting)?, runtime: Arc::clone(runtime) }))
}

struct Connected {
    client: Client,
    runtime: Arc<Runtime>,
}

impl Session for Connected {
    fn lock(&self, path: &str, side: Side) -> Outcome<Box<dyn Exclusive>> {
        match side {
            Side::Mutex => Ok(Box::new(Curated {
                client: self.client.clone(),
                runtime: Arc::clone(&self.runtime),
                path: path.to_owned(),
                held: Mutex::default(),
            })),
            _ => lacks("read-write lock"),
        }
    }
}

struct Curated {
    client: Client,
    runtime: Arc<Runtime>,
    path: String,
    held: Mutex<Option<OwnedLockClient>>,
}

impl Curated {
    fn set_held(&self, lock: Option<OwnedLockClient>) -> Option<OwnedLockClient> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, lock)
    }
}

impl Exclusive for Curated {
    fn lock(&self) -> Outcome<()> {
        let all = Acls::anyone_all();
        let parents = CreateMode::Persistent.with_acls(all);
        let options = LockOptions::new(all).with_ancestor_options(parents)?;
        let prefix = LockPrefix::new_curator(&self.path, "lock-")?;
        let locked = self.runtime.block_on(self.client.lock(prefix, b"", options))?;
        self.set_held(Some(locked.into_owned()));
        Ok(())
    }

    /// The crate offers only this: a task deletes the node later, and reports no result.
    fn unlock(&self) -> Outcome<()> {
        let held = self.set_held(None).ok_or("it is not held")?;
        let _entered = self.runtime.enter();
        drop(held);
        Ok(())
    }

    fn try_lock(&self) -> Outcome<bool> {
        lacks("try_lock")
    }
}
