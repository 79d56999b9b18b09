//! Lock paths. They are checked once, when a lock object is created. So no later request can fail
//! because of its path, and no node above a lock is taken for a contender of another lock. This
//! module does not know sessions.

use std::fmt;
use std::sync::Arc;

use zookeeper::check_path;

use crate::base::error::{Error, Result};
use crate::base::names;

/// The longest part of a lock path, in bytes. ZooKeeper has no such limit. It is that of file
/// systems, so that backups and shells can use the path. Children that a lock appends are separate
/// parts, and do not count.
const MAX_PART: usize = 255;

/// The longest lock path, in bytes. ZooKeeper limits only requests.
const MAX_PATH: usize = 4096;

/// The absolute path of a lock: legal for ZooKeeper, not the root and not below `/zookeeper`.
///
/// Clones are cheap. The path of the root, as a directory, is the empty string.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockPath(Arc<str>);

impl LockPath {
    /// Checks ZooKeeper's rules and those of this crate. Under a chroot `/zookeeper` would be an
    /// ordinary node to the server. It is refused anyway, so that a path stays legal when the
    /// chroot is removed.
    pub(crate) fn parse(path: &str) -> Result<LockPath> {
        LockPath::checked(path, |path| check_lock_rules(path).and_then(|()| check_parts(path)))
    }

    /// Checks the path of any existing node, including a contender's.
    pub(crate) fn parse_node(path: &str) -> Result<LockPath> {
        LockPath::checked(path, check_lock_rules)
    }

    /// Checks the path of a directory to search for locks: the root, or any node below it.
    pub(crate) fn parse_directory(path: &str) -> Result<LockPath> {
        match path {
            "/" => Ok(LockPath("".into())),
            path => LockPath::parse_node(path),
        }
    }

    fn checked(path: &str, rules: impl Fn(&str) -> Result<(), String>) -> Result<LockPath> {
        match check_path(path).and_then(|()| rules(path)) {
            Ok(()) => Ok(LockPath(path.into())),
            Err(reason) => Err(Error::InvalidPath { path: path.to_owned(), reason }),
        }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the path as requests and people write it; `/` for the root.
    pub(crate) fn or_slash(&self) -> &str {
        if self.is_root() { "/" } else { self.as_str() }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the directory that contains this path, and the name there.
    pub(crate) fn split(&self) -> (LockPath, &str) {
        // A checked path has a slash. The root is the empty string, so that children can be
        // appended.
        let (parent, name) = self.0.rsplit_once('/').unwrap_or_default();
        (LockPath(parent.into()), name)
    }

    /// Returns the directories from the top down to this one, without the root.
    pub(crate) fn levels(&self) -> Vec<LockPath> {
        levels(&self.0).map(|level| LockPath(level.into())).collect()
    }

    /// Returns a directory of the lock below its path; `name` is one legal part.
    pub(crate) fn below(&self, name: &str) -> LockPath {
        LockPath(self.child(name).into())
    }

    /// Returns the path of a node in this directory. `name` is one part, or several that the caller
    /// knows to be legal.
    pub(crate) fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.0)
    }
}

impl fmt::Display for LockPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl fmt::Debug for LockPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Returns the paths of the nodes from the top down to this one. The root is none of them.
pub(crate) fn levels(path: &str) -> impl Iterator<Item = &str> {
    let above = path.match_indices('/').map(|(end, _)| end).skip(1);
    let whole = (!path.is_empty()).then_some(path.len());
    above.chain(whole).map(|end| &path[..end])
}

fn check_lock_rules(path: &str) -> Result<(), String> {
    let below_root = path.trim_start_matches('/');
    if below_root.is_empty() {
        return Err("the root can be no lock, nor hold data".into());
    }
    if below_root.split('/').next() == Some("zookeeper") {
        return Err("`/zookeeper` is reserved for ZooKeeper itself".into());
    }
    if path.len() > MAX_PATH {
        return Err(format!("it has {} bytes, {MAX_PATH} are allowed", path.len()));
    }
    let mut parts = below_root.split('/').enumerate();
    match parts.find(|(_, part)| part.len() > MAX_PART) {
        Some((index, part)) => {
            let (number, bytes) = (index + 1, part.len());
            Err(format!("part {number} has {bytes} bytes, {MAX_PART} are allowed"))
        }
        None => Ok(()),
    }
}

/// Refuses parts with the names of contenders. Each part of a lock's path, and of a chroot, becomes
/// a node when the first lock is taken. A lock at the path above such a node would wait for it
/// until the servers remove it.
pub(crate) fn check_parts(path: &str) -> Result<(), String> {
    let mut parts = path.split('/').enumerate();
    match parts.find(|(_, part)| names::mode_of(part).is_some()) {
        Some((number, part)) => Err(format!(
            "part {number}, `{part}`, is the name of a contender, for which a lock at the path above it would wait"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns why a path is refused, or the checked path.
    fn parsed(path: &str) -> std::result::Result<String, String> {
        match LockPath::parse(path) {
            Ok(lock) => Ok(lock.as_str().to_owned()),
            Err(Error::InvalidPath { path: named, reason }) => {
                assert_eq!(named, path, "the error names another path");
                Err(reason)
            }
            Err(other) => panic!("{path:?}: {other:?}"),
        }
    }

    #[test]
    fn path_that_resembles_a_refused_one_is_accepted() {
        let longest_part = format!("/{}", "a".repeat(MAX_PART));
        let longest_path = longest_part.repeat(MAX_PATH / (MAX_PART + 1));
        assert_eq!(longest_path.len(), MAX_PATH);
        for path in [
            "/zookeeper2",
            "/zookeepe",
            "/a/zookeeper",
            "/Zookeeper/a",
            &longest_part,
            &longest_path,
        ] {
            assert_eq!(parsed(path).as_deref(), Ok(path));
        }
    }

    #[test]
    fn reasons_of_our_rules_name_the_problem_and_its_position() {
        let long_part = format!("/a/{}", "\u{e9}".repeat(128));
        let long_path = "/abc".repeat(1025);
        for (path, reason) in [
            ("/", "the root can be no lock, nor hold data"),
            ("/zookeeper", "`/zookeeper` is reserved for ZooKeeper itself"),
            ("/zookeeper/quota", "`/zookeeper` is reserved for ZooKeeper itself"),
            (&long_part, "part 2 has 256 bytes, 255 are allowed"),
            (&long_path, "it has 4100 bytes, 4096 are allowed"),
        ] {
            assert_eq!(check_path(path), Ok(()), "{path:?}: not a rule of ours");
            assert_eq!(parsed(path), Err(reason.to_owned()), "{path:?}");
        }
    }
}
