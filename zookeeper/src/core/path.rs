//! The rules for ZooKeeper's paths, so that the client refuses a bad path with a reason. Pure.

/// Checks that ZooKeeper accepts this path, by the rules of its `PathUtils.validatePath`. The error
/// says which rule is broken and where, as a text that continues "the path is invalid". Bytes are
/// counted from 0, parts from 1.
pub fn check(path: &str) -> Result<(), String> {
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
    let is_plain = path.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !is_plain && let Some((at, c)) = path.char_indices().find(|&(_, c)| !is_allowed(c)) {
        return Err(format!(
            "character U+{:04X} at byte {at} is not allowed in a ZooKeeper path",
            u32::from(c)
        ));
    }
    for (index, part) in below_root.split('/').enumerate() {
        let problem = match part {
            "" => "is empty".into(),
            "." | ".." => format!("is `{part}`, and ZooKeeper has no relative paths"),
            _ => continue,
        };
        return Err(format!("part {} {problem}", index + 1));
    }
    Ok(())
}

/// Returns a path as the client's user knows it: without the client's root, which has `root` bytes.
pub(crate) fn below(path: &str, root: usize) -> String {
    match path.get(root..) {
        Some("") => "/".to_owned(),
        below => below.unwrap_or(path).to_owned(),
    }
}

/// ZooKeeper checks UTF-16 units and refuses surrogates, and so every character above U+FFFF.
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
    fn path_check_agrees_with_path_utils() {
        for &(path, legal) in PATH_UTILS {
            let seen = check(path);
            assert_eq!(seen.is_ok(), legal, "{path:?}: {seen:?}");
        }
    }
}
