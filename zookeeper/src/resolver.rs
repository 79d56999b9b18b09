//! Resolves names, each on a separate thread: the system's resolver may block for long, and a name
//! that hangs must not delay the others.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::sys::net::{self, Bell};
use crate::sys::thread;

/// The addresses of a name, or why there are none. Their ports have no meaning.
pub(crate) type Found = io::Result<Vec<SocketAddr>>;

/// The function that finds the addresses of a name; by default, the system's resolver.
#[derive(Clone)]
pub(crate) struct Lookup(Arc<dyn Fn(&str) -> Found + Send + Sync>);

/// Starts lookups and collects their answers.
#[derive(Debug)]
pub(crate) struct Resolver {
    lookup: Lookup,
    /// Rings when an answer arrives.
    bell: Arc<Bell>,
    answer: Sender<(String, Found)>,
    answers: Receiver<(String, Found)>,
}

impl Resolver {
    pub(crate) fn new(lookup: Lookup, bell: Arc<Bell>) -> Resolver {
        let (answer, answers) = unbounded();
        Resolver { lookup, bell, answer, answers }
    }

    /// Starts to resolve a name. The thread ends with the answer, whether or not it is still wanted.
    pub(crate) fn ask(&self, name: &str) {
        let (lookup, bell, answer) =
            (self.lookup.clone(), Arc::clone(&self.bell), self.answer.clone());
        let asked = name.to_owned();
        let resolve = move || {
            let addresses = lookup.0(&asked);
            if answer.send((asked, addresses)).is_ok() {
                bell.ring();
            }
        };
        let thread = thread::Builder::new().name("zookeeper-names".into()).spawn(resolve);
        if let Err(error) = thread {
            let error =
                io::Error::other(format!("failed to start a thread to resolve it: {error}"));
            // This cannot fail: `self` has the receiver.
            let _ = self.answer.send((name.to_owned(), Err(error)));
        }
    }

    /// Returns an answer that has arrived, and the name that it is for.
    pub(crate) fn answer(&self) -> Option<(String, Found)> {
        self.answers.try_recv().ok()
    }
}

impl Lookup {
    /// Returns this function, with a value that is dropped when the last lookup has ended.
    pub(crate) fn keeping(self, kept: impl Send + Sync + 'static) -> Lookup {
        Lookup(Arc::new(move |name| {
            let _ = &kept;
            self.0(name)
        }))
    }
}

#[cfg(test)]
impl Lookup {
    pub(crate) fn new(find: impl Fn(&str) -> Found + Send + Sync + 'static) -> Lookup {
        Lookup(Arc::new(find))
    }

    /// Returns how many there are, including those of running threads.
    pub(crate) fn count(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl Default for Lookup {
    fn default() -> Lookup {
        Lookup(Arc::new(net::resolve))
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup(..)")
    }
}
