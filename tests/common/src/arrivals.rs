//! The order in which waiting threads enter.

use zoolock::crossbeam_channel::{Receiver, Sender, unbounded};

use super::Task;

/// Threads that wait one after another, numbered from 0.
pub struct Arrivals {
    waiters: Vec<Task<()>>,
    arrived: (Sender<usize>, Receiver<usize>),
}

impl Default for Arrivals {
    fn default() -> Self {
        Self::new()
    }
}

impl Arrivals {
    pub fn new() -> Arrivals {
        Arrivals { waiters: Vec::new(), arrived: unbounded() }
    }

    /// Starts the next thread, which calls `visit` with what it does inside.
    pub fn join(&mut self, visit: impl FnOnce(&dyn Fn()) + Send + 'static) {
        let call = self.next(visit);
        self.waiters.push(Task::spawn(call));
    }

    /// Like [`join`](Self::join), but returns when the thread is asleep.
    pub fn join_asleep(&mut self, visit: impl FnOnce(&dyn Fn()) + Send + 'static) {
        let call = self.next(visit);
        self.waiters.push(Task::spawn_blocked(call));
    }

    fn next(
        &self,
        visit: impl FnOnce(&dyn Fn()) + Send + 'static,
    ) -> impl FnOnce() + Send + 'static {
        let (number, arrived) = (self.waiters.len(), self.arrived.0.clone());
        move || visit(&|| arrived.send(number).unwrap())
    }

    pub fn is_empty(&self) -> bool {
        self.arrived.1.is_empty()
    }

    /// Waits for all threads, and returns the order in which they entered.
    #[track_caller]
    pub fn order(self) -> Vec<usize> {
        for waiter in &self.waiters {
            waiter.result("a waiter");
        }
        let order = self.arrived.1.try_iter().collect();
        println!("they came in in the order {order:?}");
        order
    }
}
