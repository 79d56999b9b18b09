//! Threads with the interface of `std::thread`.

use std::any::Any;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use crate::clock::{count, now};
use crate::machine::may_spawn;
use crate::scheduler::{block, give_way, has_ended, own_process, start, with};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadId(usize);

#[derive(Debug, Clone)]
pub struct Thread {
    task: usize,
    name: std::sync::Arc<str>,
}

impl Thread {
    pub fn id(&self) -> ThreadId {
        ThreadId(self.task)
    }

    /// Returns the thread's name. Every thread has one.
    pub fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    /// Ends the park of the thread, or its next one if it is not parked.
    pub fn unpark(&self) {
        with(|kernel| kernel.tasks[self.task].has_token = true);
    }
}

pub fn current() -> Thread {
    with(|kernel| {
        let task = kernel.current.expect("a thread of the simulation");
        Thread { task, name: kernel.tasks[task].name.clone() }
    })
}

/// Returns the number of the running thread, or 0 if no thread runs.
pub fn number() -> usize {
    with(|kernel| kernel.current.map_or(0, |task| task + 1))
}

pub fn park() {
    park_until(None);
}

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

pub fn sleep(time: Duration) {
    block("a sleep", Some(count(now() + time)), None);
}

pub fn yield_now() {
    give_way();
}

/// Marks the running thread as one that delivers answers to other threads. It must not wait for them.
pub fn never_wait_here() {
    with(|kernel| kernel.current.map(|task| kernel.tasks[task].never_waits = true));
}

/// Returns whether [`never_wait_here`] has marked the running thread.
pub fn must_not_wait() -> bool {
    with(|kernel| kernel.current.is_some_and(|task| kernel.tasks[task].never_waits))
}

#[derive(Debug)]
pub struct JoinHandle<T> {
    thread: Thread,
    result: Rc<RefCell<Option<T>>>,
}

// SAFETY: all threads of a simulation run on one real thread.
unsafe impl<T> Send for JoinHandle<T> {}
// SAFETY: as for `Send`.
unsafe impl<T> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    pub fn join(self) -> Result<T, Box<dyn Any + Send>> {
        let task = self.thread.task;
        if !has_ended(task) {
            block("a join", None, Some(&|| has_ended(task)));
        }
        match with(|kernel| kernel.tasks[task].panic.take()) {
            Some(payload) => Err(payload),
            None => Ok(self.result.take().expect("a thread that has not panicked has returned")),
        }
    }

    pub fn is_finished(&self) -> bool {
        has_ended(self.thread.task)
    }

    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

#[derive(Debug, Default)]
pub struct Builder(String);

impl Builder {
    pub fn new() -> Builder {
        Builder::default()
    }

    pub fn name(self, name: String) -> Builder {
        Builder(name)
    }

    /// Starts the thread in the caller's process. Fails with the probability `fails_spawns` of the process's machine.
    pub fn spawn<T, F>(self, body: F) -> io::Result<JoinHandle<T>>
    where
        T: 'static,
        F: FnOnce() -> T + 'static,
    {
        let process = own_process();
        match may_spawn(process) {
            true => Ok(spawn_in(process, &self.0, body)),
            false => Err(io::Error::other("the system has no thread to give")),
        }
    }
}

/// Starts a thread in another process.
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
