//! Delays of threads that are caused by the machine, not by the tested code.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(10);

/// A thread that only sleeps until this value is dropped, and adds up how late it wakes. [`in_all`](Self::in_all)
/// returns the sum, which was caused by the machine and not by the tested call.
///
/// It is a sum rather than a maximum, because other threads may have been late each time.
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

    /// Ends the thread, and returns the sum of its delays. Blocks until the thread wakes up next.
    #[must_use]
    pub fn in_all(self) -> Duration {
        drop(self.wanted);
        self.sleeper.join().unwrap_or_default()
    }
}
