//! Lock paths, checked once when a lock object is made, so that no later request can fail because
//! of its path. Knows neither sessions nor what a lock creates below its path.

use std::fmt;
use std::sync::Arc;

/// Longest part of a lock path, in bytes. ZooKeeper has no such limit; this is what file systems
/// allow, so that a path can be written into a backup or a shell. Children that a lock appends are
/// parts of their own and do not count.
const MAX_PART: usize = 255;

/// Longest lock path, in bytes. ZooKeeper limits the request only (`jute.maxbuffer`, 1 MB), and
/// enforces it by dropping the connection: the client would see connection losses without end
/// instead of an error.
const MAX_PATH: usize = 4096;

/// The absolute path of a lock: legal for ZooKeeper, not the root and not below `/zookeeper`.
///
/// Clones are cheap. The order is that of the bytes; locks that are taken together are sorted by
/// it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockPath(Arc<str>);

/// Why a path was refused. `reason` reads on after the path: "part 2 is empty".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathError {
    pub(crate) path: String,
    pub(crate) reason: String,
}

impl LockPath {
    /// Checks ZooKeeper's rules and ours. Under a chroot `/zookeeper` would be an ordinary node to
    /// the server; it is refused all the same, so that a path does not become illegal when the
    /// chroot goes away.
    pub(crate) fn parse(path: &str) -> Result<LockPath, PathError> {
        check_zookeeper_rules(path)
            .and_then(|()| check_lock_rules(path))
            .map(|()| LockPath(path.into()))
            .map_err(|reason| refused(path, reason))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The directory that this is in, and its name there.
    pub(crate) fn split(&self) -> (LockPath, &str) {
        // A checked path has a slash; the root is the empty string, as children need it.
        let (parent, name) = self.0.rsplit_once('/').unwrap_or_default();
        (LockPath(parent.into()), name)
    }

    /// A directory of the lock's own below its path; `name` is one legal part.
    pub(crate) fn below(&self, name: &str) -> LockPath {
        LockPath(self.child(name).into())
    }

    /// The path of a node in this directory. `name` is one part, or several that the caller knows
    /// to be legal.
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

/// Checks ZooKeeper's rules alone, the only ones that a chroot has to obey. The root passes, as it
/// does in ZooKeeper.
pub(crate) fn validate_chroot(path: &str) -> Result<(), PathError> {
    check_zookeeper_rules(path).map_err(|reason| refused(path, reason))
}

fn refused(path: &str, reason: String) -> PathError {
    PathError { path: path.to_owned(), reason }
}

/// The verdicts of `org.apache.zookeeper.common.PathUtils.validatePath`. Bytes are counted from 0,
/// parts from 1.
fn check_zookeeper_rules(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("it is empty".into());
    }
    let Some(below_root) = path.strip_prefix('/') else {
        return Err("it does not start with a slash".into());
    };
    if below_root.is_empty() {
        return Ok(());
    }
    if below_root.ends_with('/') {
        return Err("it ends in a slash".into());
    }
    if let Some((at, c)) = path.char_indices().find(|&(_, c)| !is_allowed(c)) {
        return Err(format!(
            "character U+{:04X} at byte {at} is not allowed in a ZooKeeper path",
            u32::from(c)
        ));
    }
    each_part(below_root, |part| match part {
        "" => Some("is empty".into()),
        "." | ".." => Some(format!("is `{part}`, and ZooKeeper has no relative paths")),
        _ => None,
    })
}

fn check_lock_rules(path: &str) -> Result<(), String> {
    let below_root = path.trim_start_matches('/');
    if below_root.is_empty() {
        return Err("the root cannot be a lock".into());
    }
    if below_root.split('/').next() == Some("zookeeper") {
        return Err("`/zookeeper` is reserved for ZooKeeper itself".into());
    }
    if path.len() > MAX_PATH {
        return Err(format!("it has {} bytes, {MAX_PATH} are allowed", path.len()));
    }
    each_part(below_root, |part| {
        (part.len() > MAX_PART).then(|| format!("has {} bytes, {MAX_PART} are allowed", part.len()))
    })
}

/// The first complaint about a part, with the number of the part.
fn each_part(below_root: &str, complaint: impl Fn(&str) -> Option<String>) -> Result<(), String> {
    let mut parts = below_root.split('/').enumerate();
    match parts.find_map(|(index, part)| Some((index + 1, complaint(part)?))) {
        Some((number, complaint)) => Err(format!("part {number} {complaint}")),
        None => Ok(()),
    }
}

/// ZooKeeper looks at UTF-16 units and refuses surrogates, hence every character above U+FFFF.
fn is_allowed(c: char) -> bool {
    !matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Verdicts of ZooKeeper 3.8.0's own `PathUtils.validatePath`; both sides of every boundary.
    const PATH_UTILS: &[(&str, bool)] = &[
        ("", false),
        ("a", false),
        (" /a", false),
        ("/", true),
        ("//", false),
        ("/a", true),
        ("/a/", false),
        ("/a//b", false),
        ("//a", false),
        ("/a/b/c", true),
        ("/.", false),
        ("/..", false),
        ("/...", true),
        ("/./a", false),
        ("/../a", false),
        ("/.../a", true),
        ("/a/.", false),
        ("/a/..", false),
        ("/a/./b", false),
        ("/a/../b", false),
        ("/a./b", true),
        ("/a../b", true),
        ("/.a", true),
        ("/..a", true),
        ("/.a./..b", true),
        ("/a. /b", true),
        ("/ ", true),
        ("/a b,c:d\\e*?", true),
        ("/zookeeper", true),
        ("/\0", false),
        ("/a\u{1}", false),
        ("/a\u{1f}", false),
        ("/a\u{20}", true),
        ("/a\u{7e}", true),
        ("/a\u{7f}", false),
        ("/a\u{9f}", false),
        ("/a\u{a0}", true),
        ("/\u{e9}\u{4e2d}", true),
        ("/a\u{d7ff}", true),
        ("/a\u{e000}", false),
        ("/a\u{f8ff}", false),
        ("/a\u{f900}", true),
        ("/a\u{feff}", true),
        ("/a\u{ffef}", true),
        ("/a\u{fff0}", false),
        ("/a\u{ffff}", false),
        ("/a\u{10000}", false),
        ("/\u{1f512}/a", false),
        ("/a\u{10ffff}", false),
    ];

    #[test]
    fn agrees_with_path_utils() {
        for &(path, legal) in PATH_UTILS {
            let seen = validate_chroot(path);
            assert_eq!(seen.is_ok(), legal, "{path:?}: {seen:?}");
        }
    }

    #[test]
    fn a_lock_path_obeys_path_utils_too() {
        let ours = ["/", "/zookeeper"];
        for &(path, legal) in PATH_UTILS.iter().filter(|(path, _)| !ours.contains(path)) {
            let seen = LockPath::parse(path);
            assert_eq!(seen.is_ok(), legal, "{path:?}: {seen:?}");
        }
    }

    #[test]
    fn accepts_what_is_merely_similar_to_a_refused_path() {
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
            let seen = LockPath::parse(path);
            assert!(seen.as_ref().is_ok_and(|seen| seen.as_str() == path), "{path:?}: {seen:?}");
        }
    }

    #[test]
    fn reasons_name_what_was_wrong_and_where() {
        let long_part = format!("/a/{}", "\u{e9}".repeat(128));
        let long_path = "/abc".repeat(1025);
        for (path, reason) in [
            ("", "it is empty"),
            ("a/b", "it does not start with a slash"),
            ("/", "the root cannot be a lock"),
            ("/a/", "it ends in a slash"),
            ("/a//b", "part 2 is empty"),
            ("/a/b/..", "part 3 is `..`, and ZooKeeper has no relative paths"),
            ("/./b", "part 1 is `.`, and ZooKeeper has no relative paths"),
            ("/ab\u{1}", "character U+0001 at byte 3 is not allowed in a ZooKeeper path"),
            ("/\u{e9}\u{1f512}", "character U+1F512 at byte 3 is not allowed in a ZooKeeper path"),
            ("/zookeeper", "`/zookeeper` is reserved for ZooKeeper itself"),
            ("/zookeeper/quota", "`/zookeeper` is reserved for ZooKeeper itself"),
            (&long_part, "part 2 has 256 bytes, 255 are allowed"),
            (&long_path, "it has 4100 bytes, 4096 are allowed"),
        ] {
            let expected = PathError { path: path.into(), reason: reason.into() };
            assert_eq!(LockPath::parse(path), Err(expected), "{path:?}");
        }
    }

    #[test]
    fn prints_as_the_path_and_appends_children() {
        let lock = LockPath::parse("/a/b").unwrap();
        assert_eq!(format!("{lock} {lock:?} {lock:>6}"), "/a/b \"/a/b\"   /a/b");
        assert_eq!(lock.child("x"), "/a/b/x");
    }
}
