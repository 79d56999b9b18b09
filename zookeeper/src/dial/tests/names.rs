//! A resolver that returns the answers that a test sets, or hangs.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::resolver::{Found, Lookup};

/// The result of resolving a name.
#[derive(Clone)]
pub(super) enum Fate {
    Is(Vec<Ipv4Addr>),
    Fails,
    /// Hangs until the test sets another result.
    Hangs,
}

/// Names and their results. Unknown names fail, and after this is dropped, all names fail.
pub(super) struct Names(Arc<Known>);

#[derive(Default)]
struct Known {
    names: Mutex<HashMap<String, (Fate, Asked)>>,
    changed: Condvar,
}

/// How many lookups of a name are running, and the highest number so far.
#[derive(Clone, Copy, Default)]
struct Asked {
    now: usize,
    most: usize,
}

impl Names {
    pub(super) fn new<const N: usize>(fates: [(&str, Fate); N]) -> Names {
        let names = Names(Arc::default());
        fates.into_iter().for_each(|(name, fate)| names.set(name, fate));
        names
    }

    pub(super) fn set(&self, name: &str, fate: Fate) {
        let mut names = self.0.names.lock();
        let asked = names.get(name).map(|(_, asked)| *asked).unwrap_or_default();
        names.insert(name.into(), (fate, asked));
        drop(names);
        self.0.changed.notify_all();
    }

    /// Returns the highest number of lookups of a name that ran at the same time.
    pub(super) fn most(&self, name: &str) -> usize {
        self.0.names.lock().get(name).map_or(0, |(_, asked)| asked.most)
    }

    pub(super) fn lookup(&self) -> Lookup {
        let known = Arc::clone(&self.0);
        Lookup::new(move |name| known.find(name))
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.0.names.lock().clear();
        self.0.changed.notify_all();
    }
}

impl Known {
    fn find(&self, name: &str) -> Found {
        let mut names = self.names.lock();
        if let Some((_, asked)) = names.get_mut(name) {
            asked.now += 1;
            asked.most = asked.most.max(asked.now);
        }
        while let Some((Fate::Hangs, _)) = names.get(name) {
            self.changed.wait(&mut names);
        }
        match names.get_mut(name) {
            Some((fate, asked)) => {
                asked.now -= 1;
                match fate {
                    Fate::Is(ips) => Ok(ips.iter().map(|ip| SocketAddr::from((*ip, 0))).collect()),
                    _ => Err(io::Error::other("nobody knows it")),
                }
            }
            None => Err(io::Error::other("the test is over")),
        }
    }
}
