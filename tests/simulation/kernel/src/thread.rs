//! Threads with the faces of `std::thread`'s.

use std::any::Any;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use crate::clock::{count, now};
use crate::scheduler::{block, give_way, has_ended, may_spawn, own_process, start, with};

/// As `std::thread::ThreadId`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadId(usize);

/// As `std::thread::Thread`.
#[derive(Debug, Clone)]
pub struct Thread {
    task: usize,
    name: std::sync::Arc<str>,
}

impl Thread {
    /// Its number.
    pub fn id(&self) -> ThreadId {
        ThreadId(self.task)
    }

    /// Its name: they all have one.
    pub fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    /// Ends its park, or the next one.
    pub fn unpark(&self) {
        with(|kernel| kernel.tasks[self.task].has_token = true);
    }
}

/// The running thread.
pub fn current() -> Thread {
    with(|kernel| {
        let task = kernel.current.expect("a thread of the simulation");
        Thread { task, name: kernel.tasks[task].name.clone() }
    })
}

/// The number of the running thread; 0 for whatever happens outside of threads.
pub fn number() -> usize {
    with(|kernel| kernel.current.map_or(0, |task| task + 1))
}

/// As `std::thread::park`.
pub fn park() {
    park_until(None);
}

/// As `std::thread::park_timeout`.
pub fn park_timeout(limit: Duration) {
    park_until(Some(count(now() + limit)));
}

fn park_until(end: Option<u64>) {
    let task = current().task;
    let has_token = || with(|kernel| kernel.tasks[task].has_token);
    if !has_token() {
        block("a park", end, Some(&has_token));
    }
    with(|kernel| kernel.tasks[task].has_token = false);
}

/// As `std::thread::sleep`.
pub fn sleep(time: Duration) {
    block("a sleep", Some(count(now() + time)), None);
}

/// As `std::thread::yield_now`.
pub fn yield_now() {
    give_way();
}

/// Marks the running thread as one that others' answers wait for.
pub fn never_wait_here() {
    with(|kernel| kernel.current.map(|task| kernel.tasks[task].never_waits = true));
}

/// Is the running thread one of those?
pub fn must_not_wait() -> bool {
    with(|kernel| kernel.current.is_some_and(|task| kernel.tasks[task].never_waits))
}

/// As `std::thread::JoinHandle`.
#[derive(Debug)]
pub struct JoinHandle<T> {
    thread: Thread,
    result: Rc<RefCell<Option<T>>>,
}

// SAFETY: all threads of a simulation are on one real thread.
unsafe impl<T> Send for JoinHandle<T> {}
// SAFETY: the same.
unsafe impl<T> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// Waits for its end.
    ///
    /// # Errors
    /// What it panicked with.
    pub fn join(self) -> Result<T, Box<dyn Any + Send>> {
        let task = self.thread.task;
        if !has_ended(task) {
            block("a join", None, Some(&|| has_ended(task)));
        }
        match with(|kernel| kernel.tasks[task].panic.take()) {
            Some(payload) => Err(payload),
            None => Ok(self.result.take().expect("whoever has not panicked has returned")),
        }
    }

    /// Has it ended?
    pub fn is_finished(&self) -> bool {
        has_ended(self.thread.task)
    }

    /// The thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

/// As `std::thread::Builder`.
#[derive(Debug, Default)]
pub struct Builder(String);

impl Builder {
    /// Without a name yet.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names it.
    pub fn name(self, name: String) -> Builder {
        Builder(name)
    }

    /// Begins it, in the process of the caller.
    ///
    /// # Errors
    /// When the world says so.
    pub fn spawn<T: 'static>(
        self,
        body: impl FnOnce() -> T + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let process = own_process();
        if !may_spawn(process) {
            return Err(io::Error::other("the system has no thread to give"));
        }
        Ok(spawn_in(process, &self.0, body))
    }
}

/// Begins a thread in another process.
pub fn spawn_in<T: 'static>(
    process: crate::Process,
    name: &str,
    body: impl FnOnce() -> T + 'static,
) -> JoinHandle<T> {
    let result = Rc::new(RefCell::new(None));
    let put = Rc::clone(&result);
    let task = start(process, name, move || {
        let returned = body();
        *put.borrow_mut() = Some(returned);
    });
    JoinHandle { thread: Thread { task, name: name.into() }, result }
}
