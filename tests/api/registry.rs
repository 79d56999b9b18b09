//! Checks what a registry shows on the page of a published package: its metadata, its licenses, and its README. The
//! commands in a README must work without a checkout, or be marked as requiring one. `tests/api/links.rs` checks links,
//! which a registry resolves as a forge does.

use std::fs;
use std::path::PathBuf;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::source::files;

/// Parts of commands that work only in a checkout of the project.
const OF_A_CHECKOUT: [&str; 8] = [
    "--path",
    "cargo run -p",
    "cargo doc",
    "cargo test -p",
    "cargo bench -p",
    "tests/run",
    "tests/setup.sh",
    ".ci/",
];

/// Returns the folders of the packages that are published.
fn published() -> Vec<PathBuf> {
    let manifests = files(&crate::root(), "toml", &["target"]).into_iter();
    let manifests = manifests.filter(|file| file.ends_with("Cargo.toml"));
    let published = manifests.filter(|file| !read(file).contains("\npublish = false\n"));
    published.map(|file| file.parent().expect("a folder").to_owned()).collect()
}

fn read(file: &PathBuf) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn published_packages_have_their_metadata_and_both_licenses() {
    let root = crate::root();
    let published = published();
    assert_eq!(published.len(), 5, "{published:#?}");
    for folder in published {
        let manifest = read(&folder.join("Cargo.toml"));
        for field in [
            "version.workspace = true",
            "rust-version.workspace = true",
            "license.workspace = true",
            "repository.workspace = true",
            "description = \"",
            "readme = \"README.md\"",
            "documentation = \"https://",
            "keywords = [",
            "categories = [",
        ] {
            let there = manifest.lines().any(|line| line.starts_with(field));
            assert!(there, "{} has no `{field}`", folder.display());
        }
        for license in ["LICENSE", "LICENSE-APACHE"] {
            let own = read(&folder.join(license));
            assert_eq!(own, read(&root.join(license)), "{}", folder.display());
        }
    }
}

#[test]
fn commands_in_published_readmes_that_need_a_checkout_say_so() {
    let mut problems = Vec::new();
    for folder in published() {
        let file = folder.join("README.md");
        problems.extend(
            unsaid(&read(&file)).into_iter().map(|code| format!("{}: {code}", file.display())),
        );
    }
    let advice = "write `checkout` before the command, in the same section";
    assert!(problems.is_empty(), "{advice}: {problems:#?}");
    assert_eq!(unsaid("# A\n\nIn a checkout.\n\n# B\n\n```sh\ntests/run\n```\n"), ["tests/run\n"]);
}

/// Returns the commands that need a checkout although their section has not mentioned one before them.
fn unsaid(text: &str) -> Vec<String> {
    let (mut said, mut in_code, mut unsaid) = (false, false, Vec::new());
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => said = false,
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Text(text) if !in_code => said |= text.contains("checkout"),
            Event::Text(code) | Event::Code(code)
                if !said && OF_A_CHECKOUT.iter().any(|part| code.contains(part)) =>
            {
                unsaid.push(code.into_string());
            }
            _ => {}
        }
    }
    unsaid
}
