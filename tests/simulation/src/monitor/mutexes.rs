//! Checks the use of mutexes: no thread waits while it holds one, and all threads lock them in the same order.

use kernel::Nesting;

/// The files of mutexes, in order: a mutex may be locked while a mutex of an earlier file is held.
const ORDER: &[&str] = &[
    "/src/locks/leadership.rs",
    "/src/session/local.rs",
    "/src/session/registry.rs",
    "/src/session/nodes.rs",
    "/src/session/nodes/grant.rs",
    "/src/session/events.rs",
    "/zookeeper/src/link.rs",
    "/zookeeper/src/shared.rs",
    "/zookeeper/src/alarm.rs",
];

/// Files in which one mutex of the file is locked while another mutex of the file is held.
const NESTED: &[&str] = &["/src/session/nodes/grant.rs", "/zookeeper/src/shared.rs"];

/// Returns whether a thread may do this while it holds the outer mutex.
fn is_allowed(Nesting { outer, inner }: &Nesting) -> bool {
    let Ok(inner) = inner else { return false };
    let place = |file: &str| ORDER.iter().position(|one| file.ends_with(one));
    match outer.file() == inner.file() {
        true => NESTED.iter().any(|file| outer.file().ends_with(file)),
        false => {
            place(outer.file()).zip(place(inner.file())).is_some_and(|(outer, inner)| outer < inner)
        }
    }
}

/// Describes what threads did while they held a mutex, but are not allowed to do.
pub(crate) fn violations() -> impl Iterator<Item = String> {
    let wrong = kernel::nestings().into_iter().filter(|nesting| !is_allowed(nesting));
    wrong.map(|Nesting { outer, inner }| match inner {
        Ok(inner) => format!("{inner} takes a mutex under that of {outer}"),
        Err(what) => format!("a thread waits for {what} with the mutex of {outer}"),
    })
}
