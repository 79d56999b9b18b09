//! Checks the links of all pages. Readers open every page as a file on a forge, and the guide's pages also in rustdoc;
//! their links must work in both.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{BrokenLink, Event, Options, Parser, Tag, TagEnd};

use crate::source::files;

/// `src/guide.rs` puts this before each page of the guide. If a link is defined twice, the first definition counts.
const FOR_RUSTDOC: &str = "src/guide/links.txt";

/// `src/guide.rs` puts this there as well, for the pictures.
const PICTURES_FOR_RUSTDOC: &str = "src/guide/pictures/pictures.txt";

/// The relevant parts of a page.
#[derive(Debug, Default)]
struct Page {
    /// The targets of links.
    targets: BTreeSet<String>,
    /// The anchors of headings.
    anchors: BTreeSet<String>,
    /// Labels in brackets for which there is no link.
    undefined: BTreeSet<String>,
}

fn read(text: &str) -> Page {
    let mut undefined = BTreeSet::new();
    let note = |link: BrokenLink<'_>| {
        undefined.insert(link.reference.into_string());
        None
    };
    let options = Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
    let (mut page, mut heading) = (Page::default(), None);
    for event in Parser::new_with_broken_link_callback(text, options, Some(note)) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.targets.insert(dest_url.into_string());
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => page.anchors.extend(heading.take()),
            Event::Text(text) | Event::Code(text) => {
                heading.iter_mut().for_each(|heading| *heading += &anchor(&text));
            }
            _ => {}
        }
    }
    page.undefined = undefined;
    page
}

/// Returns the anchor of a heading, as forges and rustdoc generate it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|&c| c.is_alphanumeric() || " -_".contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Returns all pages below a folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    files(folder, "md", &["target"])
}

fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn is_elsewhere(target: &str) -> bool {
    target.starts_with("https://") || target.starts_with("http://")
}

/// Describes what is wrong with a target, or returns `None` if its file and, if it names one, its heading exist.
fn problem(file: &Path, page: &Page, target: &str) -> Option<String> {
    let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
    let to = file.parent().expect("a folder").join(path);
    let anchors = match path {
        "" => page.anchors.clone(),
        _ if !to.exists() => return Some(format!("there is no file for {target}")),
        _ if fragment.is_empty() => return None,
        _ => read(&text(&to)).anchors,
    };
    (!anchors.contains(fragment)).then(|| format!("there is no heading for {target}"))
}

#[test]
fn links_between_files_resolve_and_render_on_a_forge() {
    let root = &crate::root();
    let mut problems = Vec::new();
    let (mut files, mut links) = (0, 0);
    for file in pages(root) {
        let page = read(&text(&file));
        (files, links) = (files + 1, links + page.targets.len());
        let brackets = page.undefined.iter().map(|label| format!("[{label}] is shown in brackets"));
        let own = page.targets.iter().filter(|target| !is_elsewhere(target));
        let lost = own.filter_map(|target| problem(&file, &page, target));
        problems
            .extend(brackets.chain(lost).map(|problem| format!("{}: {problem}", file.display())));
    }
    println!("{files} pages with {links} targets");
    assert!(files >= 12 && links >= 50, "the search no longer finds them");
    assert!(problems.is_empty(), "{problems:#?}");
}

/// rustdoc neither checks links that are paths of files nor warns about them.
#[test]
fn rustdoc_links_of_the_guide_lead_to_no_file() {
    let root = &crate::root();
    let definitions = [FOR_RUSTDOC, PICTURES_FOR_RUSTDOC].map(|file| text(&root.join(file)));
    let definitions = definitions.concat();
    let mut problems = Vec::new();
    for file in pages(&root.join("src/guide")) {
        let page = read(&format!("{definitions}\n{}", text(&file)));
        let is_good = |target: &&String| {
            let inside = ["crate", "#", "data:image/svg+xml;base64,"];
            is_elsewhere(target) || inside.iter().any(|begin| target.starts_with(begin))
        };
        let files = page.targets.iter().filter(|target| !is_good(target));
        problems.extend(files.map(|target| format!("{}: {target}", file.display())));
    }
    assert!(problems.is_empty(), "{problems:#?}");
}
