//! How late the machine lets threads run, which is nobody's fault who is tested.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(5);

/// A thread that only sleeps, and knows what it came too late in all: others may have been late all at once.
pub(crate) struct Late {
    over: Arc<AtomicBool>,
    sleeper: JoinHandle<Duration>,
}

impl Late {
    pub(crate) fn start() -> Late {
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
        Late { over, sleeper }
    }

    pub(crate) fn in_all(self) -> Duration {
        self.over.store(true, Ordering::SeqCst);
        self.sleeper.join().unwrap()
    }
}
