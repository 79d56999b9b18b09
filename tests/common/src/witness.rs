//! Checks that two holders are never inside at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::Task;

/// Counts the holders inside, without the help of a lock. It also has a counter that is read and
/// written in two steps, so that the counter ends too small if two are inside.
#[derive(Debug, Default)]
pub struct Witness {
    inside: AtomicU32,
    most: AtomicU32,
    counter: AtomicU32,
}

impl Witness {
    /// Does the work inside.
    pub fn visit(&self, work: impl FnOnce()) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        let counter = self.counter.load(Ordering::SeqCst);
        work();
        self.counter.store(counter + 1, Ordering::SeqCst);
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// Asserts that two were never inside, and that there were this many visits.
    #[track_caller]
    pub fn saw(&self, visits: u32) {
        let most = self.most.load(Ordering::SeqCst);
        let counter = self.counter.load(Ordering::SeqCst);
        assert_eq!((most, counter), (1, visits), "most inside at once, visits");
    }
}

/// Runs a thread for each visitor, which goes inside `entries` times by `visit`. Asserts that two
/// are never inside at once.
#[track_caller]
pub fn never_two_inside<V: Send + 'static>(
    visitors: impl IntoIterator<Item = V>,
    entries: u32,
    visit: impl Fn(&V, &dyn Fn()) + Clone + Send + 'static,
) {
    let witness = Arc::new(Witness::default());
    let inside = |visitor| {
        let (witness, visit) = (Arc::clone(&witness), visit.clone());
        Task::spawn(move || {
            let work = || witness.visit(|| thread::sleep(Duration::from_millis(1)));
            (0..entries).for_each(|_| visit(&visitor, &work));
        })
    };
    let visitors: Vec<_> = visitors.into_iter().map(inside).collect();
    for visitor in &visitors {
        visitor.result("a visitor");
    }
    println!("{witness:?}");
    witness.saw(visitors.len() as u32 * entries);
}
