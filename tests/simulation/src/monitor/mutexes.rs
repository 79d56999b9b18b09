//! The order of the mutexes: no thread waits with one held, and none is taken under a later one.

use kernel::Nesting;

/// Files whose mutexes may be taken under one of an earlier file.
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

/// Files that take one mutex of their own under another.
const NESTED: &[&str] = &["/src/session/nodes/grant.rs", "/zookeeper/src/shared.rs"];

/// Returns whether this may happen.
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

/// Returns what must not happen.
pub(crate) fn violations() -> impl Iterator<Item = String> {
    let wrong = kernel::nestings().into_iter().filter(|nesting| !is_allowed(nesting));
    wrong.map(|Nesting { outer, inner }| match inner {
        Ok(inner) => format!("{inner} takes a mutex under that of {outer}"),
        Err(what) => format!("a thread waits for {what} with the mutex of {outer}"),
    })
}
