//! Measures delays of threads that the machine causes, and not the code under test.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(10);

/// A thread that only sleeps, until this value is dropped, and adds up how late it wakes up. [`in_all`](Self::in_all)
/// returns this sum of delays, which the machine has caused and not the call under test.
///
/// It is a sum and not a maximum, because other threads may have been late by as much each time.
#[derive(Debug)]
pub struct Late {
    wanted: Arc<()>,
    sleeper: JoinHandle<Duration>,
}

impl Late {
    /// Starts the thread.
    #[must_use]
    pub fn start() -> Late {
        let wanted = Arc::new(());
        let is_wanted = Arc::downgrade(&wanted);
        let sleeper = thread::spawn(move || {
            let mut late = Duration::ZERO;
            while is_wanted.strong_count() > 0 {
                let begun = Instant::now();
                thread::sleep(NAP);
                late += begun.elapsed().saturating_sub(NAP);
            }
            late
        });
        Late { wanted, sleeper }
    }

    /// Ends the thread, and returns the sum of its delays. Blocks until the thread wakes up the next time.
    #[must_use]
    pub fn in_all(self) -> Duration {
        drop(self.wanted);
        self.sleeper.join().unwrap_or_default()
    }
}
