//! Checks the layers listed in `CONTRIBUTING.md`: a file may use files from its own row and from rows below it, and
//! files must not use each other in a cycle.
//!
//! The check reads paths, not types: it does not detect a method call on a value that was passed in. This is how calls
//! upwards are made.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter::successors;
use std::path::Path;

use syn::Item;

use crate::names::{find, name};
use crate::source::{FOLDERS, Modules, Place, Source, sources};
use crate::system::said;

#[test]
fn files_use_no_higher_layer_and_no_cycle() {
    let root = &crate::root();
    let text = fs::read_to_string(root.join("CONTRIBUTING.md")).expect("read the layers");
    for src in FOLDERS {
        let layers = Layers::read(&text, src);
        let uses = uses(&root.join(src), sources(&root.join(src)));
        let problems = problems(&layers, &uses);
        println!("{src}: {} rows, {} files", layers.titles.len(), uses.len());
        assert!(
            problems.is_empty(),
            "{} problems with the layers of `{src}`, see the table in CONTRIBUTING.md:\n{}",
            problems.len(),
            problems.join("\n")
        );
    }
}

/// A table of layers, from the highest row to the lowest.
struct Layers {
    titles: Vec<String>,
    /// The row of each file, and of each folder with a slash.
    rows: BTreeMap<String, usize>,
}

impl Layers {
    /// Reads the table with the column "files in `src`". In a cell, a name that ends in a slash is the folder of the
    /// names after it.
    fn read(text: &str, src: &str) -> Layers {
        let head = format!("| files in `{src}` |");
        let lines = text.lines().skip_while(|line| !line.contains(&head)).skip(2);
        let mut layers = Layers { titles: Vec::new(), rows: BTreeMap::new() };
        for line in lines.take_while(|line| line.starts_with('|')) {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let [_, title, files, ..] = cells[..] else { continue };
            let mut folder = "";
            for name in files.split('`').skip(1).step_by(2) {
                let is_folder = name.ends_with('/');
                let file = if is_folder { name.to_owned() } else { format!("{folder}{name}") };
                folder = if is_folder { name } else { folder };
                let row = layers.titles.len();
                let other = layers.rows.insert(file, row).filter(|other| *other != row);
                assert!(other.is_none(), "`{name}` is in two rows");
            }
            layers.titles.push(title.to_owned());
        }
        assert!(!layers.titles.is_empty(), "there is no table with {head:?}");
        layers
    }

    /// Returns the row of a file, or of the nearest folder or file above it.
    fn row<'f>(&self, file: &'f str) -> Option<usize> {
        let above = |file: &&'f str| file.rsplit_once('/').map(|(above, _)| above);
        successors(Some(file), above).find_map(|name| {
            let row = self.rows.get(name).or_else(|| self.rows.get(&format!("{name}/")));
            row.copied()
        })
    }
}

/// The files that a file uses, each with the first line that uses it. The name of a file is its path below `src`,
/// without `.rs` or `/mod.rs`.
type Uses = BTreeMap<String, BTreeMap<String, usize>>;

/// The root of a crate declares all files, so it does not belong to a layer.
const ROOT: &str = "lib";

fn uses(src: &Path, sources: Vec<Source>) -> Uses {
    let name_of = |source: &Source| {
        let below = source.file.strip_prefix(src).expect("it is below `src`").with_extension("");
        let name = below.to_string_lossy().into_owned();
        name.strip_suffix("/mod").unwrap_or(&name).to_owned()
    };
    let files: BTreeMap<_, _> =
        sources.iter().map(|source| (source.place.clone(), name_of(source))).collect();
    let modules: Modules = sources.into_iter().map(|source| (source.place, source.items)).collect();
    let mut uses = Uses::new();
    for (place, items) in &modules {
        let file = &files[place];
        if file == ROOT {
            continue;
        }
        let used = uses.entry(file.clone()).or_default();
        for said in said(items.clone()).said {
            let target = target(&modules, place, &said.path).and_then(|place| files.get(&place));
            if let Some(target) = target.filter(|target| *target != file) {
                used.entry(target.clone()).or_insert(said.line);
            }
        }
    }
    uses
}

/// Returns the module to which `path` leads from the module `at`, or `None` for other crates.
fn target(modules: &Modules, at: &Place, path: &[String]) -> Option<Place> {
    // Items that a macro generates are not found. In this case, the result is the module that would contain them.
    let paths = (1..=path.len()).rev().map(|length| &path[..length]);
    match paths.take_while(|_| path.len() > 1).find_map(|path| find(modules, at, path).ok())? {
        // `pub(in crate::a)` names a module above, but uses nothing from it.
        (place, None) if at.starts_with(&place) => None,
        (place, _) => Some(place),
    }
}

/// Describes the problems, one per line.
fn problems(layers: &Layers, uses: &Uses) -> Vec<String> {
    let mut problems = Vec::new();
    for (file, used) in uses {
        let Some(row) = layers.row(file) else {
            problems.push(format!("{file}.rs is in no row"));
            continue;
        };
        for (target, line) in used {
            if target == ROOT {
                problems.push(format!("{file}.rs:{line} uses {ROOT}.rs, which uses every file"));
            }
            let Some(higher) = layers.row(target).filter(|higher| *higher < row) else { continue };
            let (above, below) = (&layers.titles[higher], &layers.titles[row]);
            // All files may use the files in that row.
            if !above.starts_with("beside") {
                problems.push(format!(
                    "{file}.rs:{line} (\u{ab}{below}\u{bb}) uses {target}.rs, which is higher (\u{ab}{above}\u{bb})"
                ));
            }
        }
    }
    let is_there = |named: &str| {
        uses.keys().any(|file| file == named || file.starts_with(&format!("{named}/")))
    };
    let missing = layers.rows.keys().filter(|named| !named.ends_with('/') && !is_there(named));
    problems.extend(missing.map(|named| format!("`{named}` is in the table and is no file")));
    problems.extend(circles(uses));
    problems
}

/// Returns the uses among files that form a cycle. A module below a file may use that file, because the two count as
/// one module.
fn circles(uses: &Uses) -> Option<String> {
    let is_beneath = |file: &str, above: &str| {
        file.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
    };
    let all =
        uses.iter().flat_map(|(file, used)| used.iter().map(move |(to, line)| (file, line, to)));
    let mut arrows: Vec<_> = all.filter(|(file, _, used)| !is_beneath(file, used)).collect();
    loop {
        let before = arrows.clone();
        // Nothing leads out of the second file, or into the first one, so this use is not part of a cycle.
        arrows.retain(|(from, _, to)| {
            before.iter().any(|(file, ..)| file == to)
                && before.iter().any(|(.., file)| file == from)
        });
        if arrows.len() == before.len() {
            break;
        }
    }
    let arrows = arrows.iter().map(|(from, line, to)| format!("{from}.rs:{line} uses {to}.rs"));
    let arrows: Vec<_> = arrows.collect();
    (!arrows.is_empty()).then(|| format!("a circle: {}", arrows.join(", ")))
}

/// Returns the problems of invented files, each with the files that it uses.
fn problems_of(table: &str, files: &[(&str, &[&str])]) -> Vec<String> {
    let head = "| layer | files in `src` | what it knows |\n|---|---|---|\n";
    let uses = files.iter().map(|(file, used)| {
        let used = used.iter().map(|used| ((*used).to_owned(), 7)).collect();
        ((*file).to_owned(), used)
    });
    problems(&Layers::read(&format!("{head}{table}"), "src"), &uses.collect())
}

#[test]
fn checker_finds_upward_imports_cycles_and_missing_files() {
    let table =
        "| top | `a` `b` | |\n| low | `c/`: `d`, `e` | |\n| beside all of these | `f` | |\n";
    let files: &[(&str, &[&str])] = &[
        ("a", &["b", "c/d", "f"]),
        ("b", &["f"]),
        ("c/d", &["c/e"]),
        ("c/d/child", &["c/d"]),
        ("c/e", &["f"]),
        ("f", &[]),
    ];
    assert_eq!(problems_of(table, files), [""; 0]);
    let with = |file: &'static str, used: &'static [&'static str]| {
        let mut files = files.to_vec();
        files.retain(|(known, _)| *known != file);
        files.push((file, used));
        problems_of(table, &files)
    };
    let upwards = "c/e.rs:7 (\u{ab}low\u{bb}) uses b.rs, which is higher (\u{ab}top\u{bb})";
    assert_eq!(with("c/e", &["b"]), [upwards]);
    assert_eq!(with("c/e", &["c/d"]), ["a circle: c/d.rs:7 uses c/e.rs, c/e.rs:7 uses c/d.rs"]);
    assert_eq!(with("g", &[]), ["g.rs is in no row"]);
    assert_eq!(with("b", &["lib"]), ["b.rs:7 uses lib.rs, which uses every file"]);
    assert_eq!(
        problems_of("| top | `a` `b` | |\n", &[("a", &[])]),
        ["`b` is in the table and is no file"]
    );
}

/// Methods in a higher file would be calls upwards that the imports do not show. Only methods for users may be apart
/// from their type, if a higher layer adds them.
#[test]
fn types_have_their_methods_in_one_file() {
    // If their methods were in one file, it would be too long.
    let large = ["Core", "Ensemble"];
    for source in FOLDERS.iter().flat_map(|src| sources(&crate::root().join(src))) {
        let is_type = |item: &&Item| matches!(item, Item::Struct(_) | Item::Enum(_));
        let here: BTreeSet<_> = source.items.iter().filter(is_type).filter_map(name).collect();
        for item in &source.items {
            let Item::Impl(block) = item else { continue };
            let syn::Type::Path(path) = &*block.self_ty else { continue };
            let name = path.path.segments.last().expect("a name").ident.to_string();
            let is_for_users = |item: &syn::ImplItem| matches!(item, syn::ImplItem::Fn(method) if matches!(method.vis, syn::Visibility::Public(_)));
            let may_be_apart = block.trait_.is_some() || block.items.iter().all(is_for_users);
            let is_right = may_be_apart || here.contains(&name) || large.contains(&&*name);
            assert!(is_right, "{}: methods of `{name}`", source.file.display());
        }
    }
}
