//! The order of the mutexes: no thread waits while it holds one, and mutexes are locked in one order.

use kernel::Nesting;

/// Files in the order of their mutexes: a mutex may be locked while one of an earlier file is held.
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

/// Files that lock one of their own mutexes under another.
const NESTED: &[&str] = &["/src/session/nodes/grant.rs", "/zookeeper/src/shared.rs"];

/// Returns whether a thread may nest these.
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

/// Describes the nestings that are not allowed.
pub(crate) fn violations() -> impl Iterator<Item = String> {
    let wrong = kernel::nestings().into_iter().filter(|nesting| !is_allowed(nesting));
    wrong.map(|Nesting { outer, inner }| match inner {
        Ok(inner) => format!("{inner} takes a mutex under that of {outer}"),
        Err(what) => format!("a thread waits for {what} with the mutex of {outer}"),
    })
}
