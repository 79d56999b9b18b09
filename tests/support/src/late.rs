//! How late the machine lets threads run, which is nobody's fault who is tested.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(10);

/// A thread that only sleeps, and knows what it came too late [in all](Self::in_all), until this is dropped:
/// what a call takes longer by that is the machine's fault.
///
/// In all, and not at the most, since others may have been late all at once.
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

    /// Ends the thread, and returns what it came too late since its start. Blocks until it wakes the next time.
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
