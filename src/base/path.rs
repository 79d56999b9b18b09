//! Lock paths. They are checked once, when a lock object is created. Therefore, later requests
//! cannot fail because of the path, and a node above a lock is not mistaken for a contender of
//! another lock. This module does not use sessions.

use std::fmt;
use std::sync::Arc;

use zookeeper::check_path;

use crate::base::error::{Error, Result};
use crate::base::names;

/// The maximum length of one part of a lock path, in bytes. ZooKeeper does not have such a limit.
/// This is the limit of file systems, so that backups and shells can use the path. The nodes that a
/// lock creates below its path are separate parts, and do not count.
const MAX_PART: usize = 255;

/// The maximum length of a lock path, in bytes. ZooKeeper limits only the size of requests.
const MAX_PATH: usize = 4096;

/// The absolute path of a lock: valid for ZooKeeper, not the root, and neither `/zookeeper` nor
/// below it.
///
/// Clones are cheap. If the root is used as a directory, its path is the empty string.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockPath(Arc<str>);

impl LockPath {
    /// Checks ZooKeeper's rules and those of this crate. If the client has a chroot, `/zookeeper`
    /// is an ordinary node to the server. It is refused anyway, so that a path stays valid if the
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

    /// Returns the path as it is written in requests and messages; `/` for the root.
    pub(crate) fn or_slash(&self) -> &str {
        if self.0.is_empty() { "/" } else { &self.0 }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the directory that contains this path, and the name there.
    pub(crate) fn split(&self) -> (LockPath, &str) {
        // A checked path contains a slash, unless it is the root. The root is stored as the empty
        // string, to which children can be appended.
        let (parent, name) = self.0.rsplit_once('/').unwrap_or_default();
        (LockPath(parent.into()), name)
    }

    /// Returns the directories from the top down to this one, without the root.
    pub(crate) fn levels(&self) -> Vec<LockPath> {
        levels(&self.0).map(|level| LockPath(level.into())).collect()
    }

    /// Returns the path of a directory that the lock has below its own path; `name` is one valid
    /// part.
    pub(crate) fn below(&self, name: &str) -> LockPath {
        LockPath(self.child(name).into())
    }

    /// Returns the path of a node in this directory. `name` is one part, or several parts that the
    /// caller has checked.
    pub(crate) fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.0)
    }
}

impl fmt::Display for LockPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

/// Returns the paths of the nodes from the top down to this one, without the root.
pub(crate) fn levels(path: &str) -> impl Iterator<Item = &str> {
    let above = path.match_indices('/').map(|(end, _)| end).skip(1);
    let whole = (!path.is_empty()).then_some(path.len());
    above.chain(whole).map(|end| &path[..end])
}

fn check_lock_rules(path: &str) -> Result<(), String> {
    let below_root = path.trim_start_matches('/');
    if below_root.is_empty() {
        return Err("the root cannot be a lock and cannot have data".into());
    }
    if below_root.split('/').next() == Some("zookeeper") {
        return Err("`/zookeeper` is reserved for ZooKeeper itself".into());
    }
    if path.len() > MAX_PATH {
        return Err(format!("it has {} bytes, but at most {MAX_PATH} are allowed", path.len()));
    }
    match below_root.split('/').map(str::len).max() {
        Some(bytes) if bytes > MAX_PART => {
            Err(format!("a part has {bytes} bytes, at most {MAX_PART} are allowed"))
        }
        _ => Ok(()),
    }
}

/// Refuses paths with a part that is the name of a contender. Each part of a lock's path, and of a
/// chroot, becomes a node when the first lock is acquired. A lock at the path above such a part
/// would wait for its node until the servers remove it.
pub(crate) fn check_parts(path: &str) -> Result<(), String> {
    match path.split('/').find(|part| names::kind_of(part).is_some()) {
        Some(part) => Err(format!(
            "`{part}` has the form of a contender's name, so a lock at the parent path would wait for it: choose another name"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the checked path, or why it is refused.
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
            ("/", "the root cannot be a lock and cannot have data"),
            ("/zookeeper", "`/zookeeper` is reserved for ZooKeeper itself"),
            ("/zookeeper/quota", "`/zookeeper` is reserved for ZooKeeper itself"),
            (&long_part, "a part has 256 bytes, at most 255 are allowed"),
            (&long_path, "it has 4100 bytes, but at most 4096 are allowed"),
        ] {
            assert_eq!(check_path(path), Ok(()), "{path:?}: not a rule of ours");
            assert_eq!(parsed(path), Err(reason.to_owned()), "{path:?}");
        }
    }
}
