//! Help texts, completions and man pages exist, and agree with each other.

use std::fs;

use crate::util::*;

const PARTS: [&str; 11] = [
    "run",
    "lead",
    "list",
    "watch",
    "verify",
    "reaper",
    "revoke",
    "break",
    "doctor",
    "completions",
    "man",
];

#[test]
fn completions_know_the_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = prints(&["completions", shell]);
        assert!(script.contains("semaphore") && !script.contains("exec-step"), "{shell}");
    }
}

/// All headings of a man page, in order.
const HEADINGS: &str = "NAME,SYNOPSIS,DESCRIPTION,OPTIONS,SUBCOMMANDS,EXAMPLES,ENVIRONMENT,\
     ENVIRONMENT OF THE PROGRAM,EXIT CODES,SEE ALSO";

#[test]
fn man_pages_contain_all_help_texts() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("share/man1");
    prints(&["man", folder.to_str().expect("a plain name")]);
    assert_eq!(fs::read_dir(&folder).expect("it was made").count(), PARTS.len() + 1);
    for part in [""].into_iter().chain(PARTS) {
        let name = if part.is_empty() { "zoolock".to_owned() } else { format!("zoolock-{part}") };
        let source = fs::read_to_string(folder.join(format!("{name}.1"))).expect("a page");
        assert!(!source.contains("\\fBnamely"), "the second line of an item is not an entry");
        // The text of the page as its readers see it.
        let signs = [("\\fB", ""), ("\\fI", ""), ("\\fR", ""), ("\\-", "-"), ("\\*(Aq", "'")];
        let page = source.split_whitespace().collect::<Vec<_>>().join(" ");
        let page = signs.iter().fold(page, |page, (sign, shown)| page.replace(sign, shown));
        assert!(page.contains(&format!("{name} - ")), "what it is for, as whatis(1) shows it");
        let help = prints(&[part, "--help"][usize::from(part.is_empty())..]);
        // The help of each subcommand is complete.
        let has_examples = help.contains("Examples") && !help.contains("the same, live");
        assert!(part.is_empty() || has_examples && help.contains(&format!("zoolock {part}")));
        let (options, below) = help.split_once("Print help\n").expect("the last option, or nearly");
        let options = options.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        for option in options.filter(|word| word.starts_with('-') && word.len() > 1) {
            assert!(page.contains(option), "{name} does not have {option}");
        }
        let is_heading = |text: &str| HEADINGS.split(',').any(|heading| heading == text);
        for heading in source.lines().filter_map(|line| line.strip_prefix(".SH ")) {
            assert!(is_heading(heading.trim_matches('"')), "{name}: {heading:?}");
        }
        for line in below.lines().filter(|line| !line.contains("Print version")) {
            if line.strip_suffix(':').is_some_and(|line| is_heading(&line.to_uppercase())) {
                continue;
            }
            // In the page, columns are on separate lines.
            for piece in line.split("  ").map(str::trim) {
                assert!(page.contains(piece), "{name}: {piece:?} of {line:?}");
            }
        }
    }
    let file = folder.join("zoolock.1/under-a-file");
    assert_eq!(output(&["man", file.to_str().expect("a plain name")]).0, Some(71));
}
