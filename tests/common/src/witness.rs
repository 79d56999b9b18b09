//! Proof that holders exclude each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::Task;

/// Counts simultaneous visitors without the help of a lock. Its counter is read and written in two steps, so
/// that overlapping visitors lose a count.
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

    /// Expects this many visits, and no two at once.
    #[track_caller]
    pub fn saw(&self, visits: u32) {
        let most = self.most.load(Ordering::SeqCst);
        let counter = self.counter.load(Ordering::SeqCst);
        assert_eq!((most, counter), (1, visits), "most inside at once, visits");
    }
}

/// Starts a thread for each visitor, which enters `entries` times through `visit`. Expects no two inside at
/// once.
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
