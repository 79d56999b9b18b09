//! What the locks protect: a value per path that refuses writes with a lower token than the
//! highest it has seen. It lives in the parent and knows nothing of zoolock.

use crate::places::PATHS;

#[derive(Debug)]
pub(crate) struct Register {
    highest: [u64; PATHS],
}

impl Register {
    pub(crate) fn new() -> Register {
        Register { highest: [0; PATHS] }
    }

    /// Whether the write was accepted.
    pub(crate) fn write(&mut self, path: usize, token: u64) -> bool {
        let fresh = token >= self.highest[path];
        if fresh {
            self.highest[path] = token;
        }
        fresh
    }

    pub(crate) fn highest(&self, path: usize) -> u64 {
        self.highest[path]
    }
}
