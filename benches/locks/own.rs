//! This library. Another variant of the options needs one more line.

use std::time::Duration;

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, EphemeralLock, Lock,
    LockOptions,
};

use crate::session::{Exclusive, Outcome, Session, Side};

type Make = fn(&Client, &str, LockOptions) -> zoolock::Result<Box<dyn Lock>>;

/// The name of a contestant, its lock, and its options.
pub(crate) struct Variant(pub(crate) &'static str, Make, fn(LockOptions) -> LockOptions);

pub(crate) const VARIANTS: &[Variant] = &[
    Variant("zoolock", plain, |defaults| defaults),
    Variant("zoolock-reentrant", reentrant, |defaults| defaults),
    Variant("zoolock-ephemeral", ephemeral, |defaults| defaults),
    Variant("zoolock-handoffs", plain, |it| it.local_handoffs(32)),
    Variant("zoolock-background", plain, |it| it.background_release(true)),
];

fn plain(client: &Client, path: &str, options: LockOptions) -> zoolock::Result<Box<dyn Lock>> {
    DistributedLock::with_options(client, path, options).map(Into::into)
}

fn reentrant(client: &Client, path: &str, options: LockOptions) -> zoolock::Result<Box<dyn Lock>> {
    DistributedReentrantLock::with_options(client, path, options).map(Into::into)
}

fn ephemeral(client: &Client, path: &str, options: LockOptions) -> zoolock::Result<Box<dyn Lock>> {
    EphemeralLock::with_options(client, path, options).map(Into::into)
}

pub(crate) fn connect(
    hosts: &str,
    timeout: Duration,
    variant: &'static Variant,
) -> Outcome<Box<dyn Session>> {
    let client = Client::connect(hosts, timeout)?;
    Ok(Box::new(Own { client, variant }))
}

struct Own {
    client: Client,
    variant: &'static Variant,
}

impl Session for Own {
    fn lock(&self, path: &str, side: Side) -> Outcome<Box<dyn Exclusive>> {
        let Variant(_, make, set) = self.variant;
        let lock = match side {
            Side::Mutex => make(&self.client, path, set(LockOptions::new()))?,
            Side::Read => DistributedRwLock::new(&self.client, path)?.reader().into(),
            Side::Write => DistributedRwLock::new(&self.client, path)?.writer().into(),
        };
        Ok(Box::new(Of(lock)))
    }

    fn requests(&self) -> Option<u64> {
        Some(self.client.stats().requests)
    }
}

struct Of(Box<dyn Lock>);

impl Exclusive for Of {
    fn lock(&self) -> Outcome<()> {
        Ok(self.0.lock()?)
    }

    fn unlock(&self) -> Outcome<()> {
        Ok(self.0.unlock()?)
    }

    fn try_lock(&self) -> Outcome<bool> {
        Ok(self.0.try_lock()?)
    }
}
