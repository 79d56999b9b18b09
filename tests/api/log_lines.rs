//! Checks that the guide explains every log line of the library and its client.

use std::fs;

use crate::source::files;

/// The beginnings of calls that write a log line.
const CALLS: [&str; 5] = ["error!(", "warn!(", "info!(", "debug!(", ".note("];

#[test]
fn every_log_line_is_explained_in_the_guide() {
    let root = &crate::root();
    let page = fs::read_to_string(root.join("src/guide/operating.md")).expect("the page");
    let mut lines = Vec::new();
    for folder in ["src", "zookeeper/src"] {
        for file in files(&root.join(folder), "rs", &["simulation", "tests", "tests.rs"]) {
            lines.extend(log_lines(&fs::read_to_string(file).expect("a source")));
        }
    }
    println!("{lines:#?}");
    assert!(lines.len() >= 15, "the search no longer finds them");
    for line in lines {
        // The fixed parts of the line, which are between its placeholders.
        let parts = line.split('{').map(|part| part.rsplit('}').next().unwrap_or(part).trim());
        let missing: Vec<_> = parts.filter(|part| !page.contains(part)).collect();
        assert!(missing.is_empty(), "{line:?}: the page does not have {missing:?}");
    }
}

/// Returns the text of each call, which is its last string. A call that passes on a given text has none.
fn log_lines(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let begins = CALLS.iter().flat_map(|call| source.match_indices(call));
    // Excludes `compile_error!`, which also ends in `error!(`.
    let begins = begins.filter(|(at, _)| !source[..*at].ends_with('_'));
    let calls = begins.map(|(at, _)| source[at..].split(");\n").next().unwrap_or_default());
    let texts = calls.filter_map(|call| {
        let strings = call.split('"').skip(1).step_by(2);
        strings.filter(|text| text.contains(' ')).last()
    });
    texts.map(str::to_owned).collect()
}
