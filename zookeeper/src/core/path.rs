//! The rules for ZooKeeper's paths, so that the client can report what is wrong with a path. Pure.

/// Checks that ZooKeeper accepts this path, by the rules of its `PathUtils.validatePath`. The error
/// is a text that continues "the path is invalid:", and contains the rule and the position. Bytes are
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
            "." | ".." => format!("is `{part}`, but ZooKeeper does not support relative paths"),
            _ => continue,
        };
        return Err(format!("part {} {problem}", index + 1));
    }
    Ok(())
}

/// Returns a path as users of the client pass it: without the client's root, which has `root` bytes.
pub(crate) fn below(path: &str, root: usize) -> String {
    match path.get(root..) {
        Some("") => "/".to_owned(),
        below => below.unwrap_or(path).to_owned(),
    }
}

/// ZooKeeper checks UTF-16 units and refuses surrogates, and thereby every character above U+FFFF.
fn is_allowed(c: char) -> bool {
    !matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

#[cfg(test)]
mod tests {
    use std::iter::repeat;

    use super::*;

    /// Verdicts of ZooKeeper 3.8.0's own `PathUtils.validatePath`, here and below.
    const GOOD: &[&str] = &[
        "/", "/a", "/a/b/c", "/...", "/.../a", "/a./b", "/a../b", "/.a", "/..a", "/.a./..b",
        "/a. /b",
    ];
    const BAD: &[&str] = &[
        "", "a", " /a", "//", "/a/", "/a//b", "//a", "/.", "/..", "/./a", "/../a", "/a/.", "/a/..",
        "/a/./b", "/a/../b",
    ];
    /// Characters on both sides of every boundary, here and below.
    const GOOD_CHARS: &[char] = &[
        ' ', ',', ':', '*', '?', '\\', '~', '\u{a0}', '\u{e9}', '\u{d7ff}', '\u{f900}', '\u{feff}',
        '\u{ffef}',
    ];
    const BAD_CHARS: &[char] = &[
        '\0',
        '\u{1}',
        '\u{1f}',
        '\u{7f}',
        '\u{9f}',
        '\u{e000}',
        '\u{f8ff}',
        '\u{fff0}',
        '\u{ffff}',
        '\u{10000}',
        '\u{1f512}',
        char::MAX,
    ];

    #[test]
    fn path_check_agrees_with_path_utils() {
        let with = |c: &char| format!("/{c}a/b{c}");
        let good = GOOD.iter().map(ToString::to_string).chain(GOOD_CHARS.iter().map(with));
        let bad = BAD.iter().map(ToString::to_string).chain(BAD_CHARS.iter().map(with));
        for (path, legal) in good.zip(repeat(true)).chain(bad.zip(repeat(false))) {
            let seen = check(&path);
            assert_eq!(seen.is_ok(), legal, "{path:?}: {seen:?}");
        }
    }
}
