//! Help, completions and man pages exist, and agree.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::util::*;

const PARTS: [&str; 10] =
    ["run", "lead", "list", "watch", "verify", "revoke", "break", "doctor", "completions", "man"];

#[test]
fn completions_know_the_options() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, script) = output(&["completions", shell]);
        assert_eq!(code, Some(0));
        assert!(script.contains("semaphore") && !script.contains("exec-step"), "{shell}");
    }
}

/// All headings.
const HEADINGS: [&str; 10] = [
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "OPTIONS",
    "SUBCOMMANDS",
    "EXAMPLES",
    "ENVIRONMENT",
    "ENVIRONMENT OF THE PROGRAM",
    "EXIT CODES",
    "SEE ALSO",
];

/// A page as a reader sees it, without hyphenation.
fn rendered(page: &Path) -> String {
    let mut man = Command::new("man");
    man.args(["--warnings", "--no-hyphenation", "--no-justification", "--local-file"]).arg(page);
    match man.env("MANWIDTH", "100").env("LC_ALL", "C.UTF-8").output() {
        Ok(read) => {
            let complaints = String::from_utf8_lossy(&read.stderr);
            assert!(read.status.success() && complaints.is_empty(), "{page:?}: {complaints}");
            String::from_utf8(read.stdout).expect("text")
        }
        Err(error) => {
            println!("man: {error}; looked at as it was written");
            let source = fs::read_to_string(page).expect("a page");
            let tags = ["\\fB", "\\fI", "\\fR"].iter();
            tags.fold(source.replace("\\-", "-"), |text, tag| text.replace(tag, ""))
        }
    }
}

#[test]
fn man_pages_contain_all_help_texts() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("share/man1");
    assert_eq!(output(&["man", folder.to_str().expect("a plain name")]).0, Some(0));
    assert_eq!(fs::read_dir(&folder).expect("it was made").count(), PARTS.len() + 1);
    for part in [""].into_iter().chain(PARTS) {
        let name = if part.is_empty() { "zoolock".to_owned() } else { format!("zoolock-{part}") };
        let page = rendered(&folder.join(format!("{name}.1")));
        assert!(page.contains(&format!("{name} - ")), "what it is for, as whatis(1) shows it");
        let read: Vec<_> = page.split_whitespace().collect();
        let page = read.join(" ");
        let (code, help) = output(&[part, "--help"][usize::from(part.is_empty())..]);
        assert_eq!(code, Some(0));
        // Each help page of a subcommand stands alone.
        let has_examples = help.contains("Examples") && !help.contains("the same, live");
        assert!(part.is_empty() || has_examples && help.contains(&format!("zoolock {part}")));
        let (options, below) = help.split_once("Print help\n").expect("the last option, or nearly");
        let options = options.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        for option in options.filter(|word| word.starts_with('-') && word.len() > 1) {
            assert!(page.contains(option), "{name} does not have {option}");
        }
        let source = fs::read_to_string(folder.join(format!("{name}.1"))).expect("a page");
        for heading in source.lines().filter_map(|line| line.strip_prefix(".SH ")) {
            assert!(HEADINGS.contains(&heading.trim_matches('"')), "{name}: {heading:?}");
        }
        for line in below.lines().filter(|line| !line.contains("Print version")) {
            let is_heading = line.strip_suffix(':').map(str::to_uppercase);
            if is_heading.is_some_and(|heading| HEADINGS.contains(&heading.as_str())) {
                continue;
            }
            // Columns are on separate lines there.
            for piece in line.split("  ").map(str::trim) {
                assert!(page.contains(piece), "{name}: {piece:?} of {line:?}");
            }
        }
    }
    let file = folder.join("zoolock.1/under-a-file");
    assert_eq!(output(&["man", file.to_str().expect("a plain name")]).0, Some(71));
}
