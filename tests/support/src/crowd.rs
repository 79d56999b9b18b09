//! A crowd at one lock of any implementation: threads that take it again and again, and a witness
//! that does not trust the lock.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Takes the lock, calls [`Witness::visit`] with the lock held, and releases the lock. It may leave
/// out the visit if it did not get the lock.
pub type Taker = Box<dyn FnMut(&Witness) -> Result<(), Box<dyn Error + Send + Sync>> + Send>;

/// The kind of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// All other holders inside share the lock, too.
    Shared,
    /// No other holder is inside.
    Alone,
}

/// One visit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Visit {
    /// The kind of the visitor's hold.
    pub access: Access,
    /// The transaction that created the queue position. Earlier contenders have lower ones.
    pub token: u64,
    /// The name of the node.
    pub node: String,
    /// The times of entering and leaving, by a clock that counts both.
    pub inside: (u64, u64),
}

/// Sees which holders are inside, without the help of a lock service.
#[derive(Debug, Default)]
pub struct Witness {
    clock: AtomicU64,
    /// One for each sharing holder, and `ALONE` for an exclusive one.
    inside: AtomicI64,
    most: AtomicI64,
    visits: Mutex<Vec<Visit>>,
    offences: Mutex<Vec<String>>,
}

const ALONE: i64 = 1 << 32;

impl Witness {
    /// Does the work inside. Call it with the lock held.
    pub fn visit(&self, access: Access, token: u64, node: &str, work: impl FnOnce()) {
        let weight = match access {
            Access::Shared => 1,
            Access::Alone => ALONE,
        };
        let inside = self.inside.fetch_add(weight, Ordering::SeqCst) + weight;
        let came = self.clock.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(inside % ALONE, Ordering::SeqCst);
        if inside > ALONE {
            let (alone, shared) = (inside / ALONE, inside % ALONE);
            let offence = format!("{node} ({access:?}) made {alone} alone and {shared} shared");
            locked(&self.offences).push(offence);
        }
        work();
        let went = self.clock.fetch_add(1, Ordering::SeqCst);
        self.inside.fetch_sub(weight, Ordering::SeqCst);
        locked(&self.visits).push(Visit {
            access,
            token,
            node: node.to_owned(),
            inside: (came, went),
        });
    }
}

/// Runs the takers, each this many times on its own thread, and returns the visits that the witness
/// saw.
///
/// # Panics
///
/// When a taker fails, or is not finished after `within`. The text names it.
pub fn run(takers: Vec<Taker>, times: usize, within: Duration) -> Seen {
    let end = Instant::now() + within;
    let witness = Arc::new(Witness::default());
    let (sender, ends) = mpsc::channel();
    let mut missing: HashSet<usize> = (0..takers.len()).collect();
    for (number, mut taker) in takers.into_iter().enumerate() {
        let (witness, sender) = (Arc::clone(&witness), sender.clone());
        thread::spawn(move || {
            let outcome = (0..times).try_for_each(|_| taker(&witness));
            let _ = sender.send((number, outcome.map_err(|error| error.to_string())));
        });
    }
    // A taker that panics sends nothing. Without this drop, the channel would not end either.
    drop(sender);
    while !missing.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        match ends.recv_timeout(left) {
            Ok((number, Ok(()))) => missing.remove(&number),
            Ok((number, Err(error))) => panic!("taker {number}: {error}"),
            Err(why) => panic!(
                "takers {missing:?} are not through within {within:?}, {} visits so far: {why}",
                locked(&witness.visits).len()
            ),
        };
    }
    let mut visits = locked(&witness.visits).clone();
    visits.sort_by_key(|visit| visit.inside);
    Seen {
        visits,
        most: witness.most.load(Ordering::SeqCst),
        offences: locked(&witness.offences).clone(),
    }
}

/// The visits of a crowd.
pub struct Seen {
    /// Returns all visits, in order.
    pub visits: Vec<Visit>,
    most: i64,
    offences: Vec<String>,
}

impl Seen {
    /// Returns the largest number of holders that shared the lock at once.
    #[must_use]
    pub fn most_sharing(&self) -> usize {
        usize::try_from(self.most).unwrap_or_default()
    }

    /// Asserts that every exclusive holder was alone.
    ///
    /// # Panics
    ///
    /// When not.
    pub fn assert_apart(&self) {
        assert!(self.offences.is_empty(), "{:#?}", self.offences);
    }

    /// Asserts that no visitor overtook an older queue position, unless both share the lock, and
    /// that no two exclusive visitors have the same position.
    ///
    /// # Panics
    ///
    /// When not.
    pub fn assert_in_order(&self) {
        let alone = |visit: &Visit| visit.access == Access::Alone;
        for (at, later) in self.visits.iter().enumerate() {
            for earlier in &self.visits[..at] {
                let in_order = match (alone(earlier), alone(later)) {
                    (true, true) => earlier.token < later.token,
                    // A read under the thread's own write has the write's position.
                    (true, false) | (false, true) => earlier.token <= later.token,
                    (false, false) => true,
                };
                assert!(in_order, "{earlier:?}\nwas let in before\n{later:?}");
            }
        }
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let visits = self.visits.len();
        write!(f, "{visits} visits, {} sharing at most", self.most)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
