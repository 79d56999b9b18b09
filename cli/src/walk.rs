//! The walk over all locks at and below a path. A free lock cannot be distinguished from any other
//! empty directory.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use zoolock::{Client, Contender, LockKind, Result};

/// How many paths are listed together. The results are kept until the caller requests them.
const AT_ONCE: usize = 100;

/// How many threads list paths. Each sends one request at a time.
const THREADS: usize = 32;

/// The locks at and below a path, each with its contenders, or an error for each path that cannot be
/// read. A path precedes the paths below it, and names are sorted by their bytes.
pub(crate) struct Locks<'c> {
    client: &'c Client,
    /// The remaining steps of the walk, the next one last.
    steps: Vec<Step>,
}

enum Step {
    List(String),
    Found(Result<Vec<Contender>>),
}

impl Locks<'_> {
    pub(crate) fn below<'c>(client: &'c Client, root: &str) -> Locks<'c> {
        Locks { client, steps: vec![Step::List(root.to_owned())] }
    }

    /// Replaces the next steps with what is at their paths, and with steps for the paths below.
    fn look(&mut self) {
        let (client, next) = (self.client, AtomicUsize::new(0));
        let steps = self.steps.split_off(self.steps.len().saturating_sub(AT_ONCE));
        let all: Vec<_> = steps.into_iter().map(|step| (step, OnceLock::new())).collect();
        let work = || {
            while let Some((step, seen)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Step::List(path) = step {
                    seen.get_or_init(|| look_at(client, path));
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..THREADS.min(all.len()) {
                // With fewer threads, the walk takes longer.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        for (step, seen) in all {
            self.steps.extend(seen.into_inner().unwrap_or_else(|| vec![step]));
        }
    }
}

impl Iterator for Locks<'_> {
    type Item = Result<Vec<Contender>>;

    fn next(&mut self) -> Option<Result<Vec<Contender>>> {
        loop {
            match self.steps.pop()? {
                Step::Found(found) => return Some(found),
                list => self.steps.push(list),
            }
            self.look();
        }
    }
}

/// Returns the steps for a path, the next one last.
fn look_at(client: &Client, path: &str) -> Vec<Step> {
    let mut below = match client.paths_below(path) {
        Ok(below) => below,
        failed => return vec![Step::Found(failed.map(|_| Vec::new()))],
    };
    let lock = match path {
        "/" => Ok(Vec::new()),
        path => lock_at(client, path, &mut below),
    };
    let is_free = lock.as_ref().is_ok_and(Vec::is_empty);
    let below = below.into_iter().rev().map(Step::List);
    below.chain((!is_free).then_some(Step::Found(lock))).collect()
}

/// Returns the contenders of the lock at a path, and removes the lock's own parts from the paths below.
fn lock_at(client: &Client, path: &str, below: &mut Vec<String>) -> Result<Vec<Contender>> {
    let contenders = client.contenders(path)?;
    let Some(first) = contenders.first() else { return Ok(contenders) };
    let parts = ["leases", "locks"].map(|part| format!("{path}/{part}"));
    let is_lock = match first.kind {
        // Without `leases`, this is a directory with a lock that is called `locks`.
        LockKind::Semaphore => below.contains(&parts[0]),
        kind if first.node.is_empty() => kind == LockKind::Ephemeral,
        _ => return Ok(contenders),
    };
    if is_lock {
        below.retain(|path| !parts.contains(path));
    }
    Ok(if is_lock { contenders } else { Vec::new() })
}
