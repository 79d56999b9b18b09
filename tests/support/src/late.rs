//! Measures how late the machine lets threads run, which is no fault of the code under test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(10);

/// A thread that only sleeps, and adds up how late it wakes ([`in_all`](Self::in_all)), until this
/// is dropped. A call that takes longer by this time was delayed by the machine.
///
/// It adds up all delays, because another thread may have met all of them at once.
#[derive(Debug)]
pub struct Late {
    over: Arc<AtomicBool>,
    sleeper: Option<JoinHandle<Duration>>,
}

impl Late {
    /// Starts the thread.
    #[must_use]
    pub fn start() -> Late {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let sleeper = thread::spawn(move || {
            let mut late = Duration::ZERO;
            while !is_over.load(Ordering::SeqCst) {
                let begun = Instant::now();
                thread::sleep(NAP);
                late += begun.elapsed().saturating_sub(NAP);
            }
            late
        });
        Late { over, sleeper: Some(sleeper) }
    }

    /// Ends the thread, and returns the sum of its delays. Blocks until the thread wakes the next
    /// time.
    #[must_use]
    pub fn in_all(mut self) -> Duration {
        self.over.store(true, Ordering::SeqCst);
        let late = self.sleeper.take().and_then(|sleeper| sleeper.join().ok());
        late.unwrap_or_default()
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}
