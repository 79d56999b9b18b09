//! How a client process says things to the parent.

use std::os::unix::net::UnixStream;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use crate::message::{Said, send};

/// Of a worker and the guardians of its holds, or of a process. When the parent is gone, so is the
/// process.
#[derive(Debug, Clone)]
pub(crate) struct Mouth(Arc<Mutex<UnixStream>>);

impl Mouth {
    pub(crate) fn new(stream: UnixStream) -> Mouth {
        Mouth(Arc::new(Mutex::new(stream)))
    }

    pub(crate) fn say(&self, what: &Said) {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if send(&mut *stream, what).is_err() {
            process::exit(1);
        }
    }
}
