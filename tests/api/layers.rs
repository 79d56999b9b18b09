//! Checks the layers that `CONTRIBUTING.md` lists: files use files of their own row and of rows
//! further down, and no files use each other in a circle.
//!
//! It reads paths, not types: it does not see a call of a method of a value that was handed over.
//! That is how calls upwards are made.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

use syn::{Item, UseTree};

use crate::names;
use crate::seam::said;
use crate::source::{Place, Source, sources};

#[test]
fn client_files_use_no_higher_layer_and_no_cycle() {
    check("zookeeper/src");
}

#[test]
fn files_of_the_servers_for_tests_use_no_higher_layer_and_no_cycle() {
    check("zookeeper-testing/src");
}

#[test]
fn library_files_use_no_higher_layer_and_no_cycle() {
    check("src");
}

fn check(src: &str) {
    let root = &crate::root();
    let text = fs::read_to_string(root.join("CONTRIBUTING.md")).expect("read the layers");
    let layers = Layers::read(&text, src);
    let uses = uses(&root.join(src), sources(&root.join(src)));
    let problems = problems(&layers, &uses);
    let arrows: usize = uses.values().map(BTreeMap::len).sum();
    println!("{} rows, {} files, {arrows} arrows", layers.rows.len(), uses.len());
    assert!(
        problems.is_empty(),
        "{} problems with the layers of `{src}`, see the table in CONTRIBUTING.md:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

/// A table of layers, from the highest row to the lowest.
struct Layers {
    rows: Vec<Row>,
    /// The row of each file, or of the folder of files.
    of: BTreeMap<String, usize>,
    /// The files by name, without folders.
    files: Vec<String>,
    twice: Vec<String>,
}

struct Row {
    title: String,
    /// All files may use the files of this row.
    is_beside: bool,
}

impl Layers {
    /// Reads the table with the column "files in `src`". In a cell, a name that ends in a slash is
    /// the folder of the names behind it.
    fn read(text: &str, src: &str) -> Layers {
        let head = format!("| files in `{src}` |");
        let lines = text.lines().skip_while(|line| !line.contains(&head)).skip(2);
        let mut layers =
            Layers { rows: Vec::new(), of: BTreeMap::new(), files: Vec::new(), twice: Vec::new() };
        for line in lines.take_while(|line| line.starts_with('|')) {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let [_, title, files, ..] = cells[..] else { continue };
            let mut folder = "";
            for name in files.split('`').skip(1).step_by(2) {
                let file = match name.strip_suffix('/') {
                    Some(name) => name.to_owned(),
                    None => format!("{folder}{name}"),
                };
                match name.ends_with('/') {
                    true => folder = name,
                    false => layers.files.push(file.clone()),
                }
                let row = layers.rows.len();
                if layers.of.insert(file.clone(), row).is_some_and(|other| other != row) {
                    layers.twice.push(format!("`{file}` is in two rows"));
                }
            }
            let is_beside = title.starts_with("beside");
            layers.rows.push(Row { title: title.to_owned(), is_beside });
        }
        assert!(!layers.rows.is_empty(), "there is no table with {head:?}");
        layers
    }

    /// Returns the row of a file, or of the nearest folder or file above it.
    fn row(&self, file: &str) -> Option<usize> {
        let mut above = Some(file);
        while let Some(name) = above {
            if let Some(row) = self.of.get(name) {
                return Some(*row);
            }
            above = parent(name);
        }
        None
    }
}

/// Returns the file or folder above a file.
fn parent(file: &str) -> Option<&str> {
    file.rsplit_once('/').map(|(above, _)| above)
}

/// Which files a file uses, each with the first line that does. The name of a file is its path
/// below `src`, without `.rs` or `/mod.rs`.
type Uses = BTreeMap<String, BTreeMap<String, usize>>;

/// The root of a crate declares all files, so it is in no layer.
const ROOT: &str = "lib";

fn uses(src: &Path, sources: Vec<Source>) -> Uses {
    let name_of = |source: &Source| {
        let below = source.file.strip_prefix(src).expect("it is below `src`").with_extension("");
        let name = below.to_string_lossy().into_owned();
        name.strip_suffix("/mod").unwrap_or(&name).to_owned()
    };
    let modules: BTreeMap<_, _> = sources
        .into_iter()
        .map(|source| (source.place.clone(), (name_of(&source), source.items)))
        .collect();
    let modules = Modules(modules);
    let mut uses = Uses::new();
    for (place, (file, items)) in modules.0.iter().filter(|(_, (file, _))| file != ROOT) {
        let used = uses.entry(file.clone()).or_default();
        for said in said(items.clone()).said {
            let Some(target) = modules.target(place, &said.path) else { continue };
            if target != file {
                used.entry(target.to_owned()).or_insert(said.line);
            }
        }
    }
    uses
}

/// The modules of a crate, each with its file and its items.
struct Modules(BTreeMap<Place, (String, Vec<Item>)>);

/// What a path means.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Meaning {
    Module(Place),
    /// An item, or all items, of this module.
    ItemOf(Place),
}

impl Modules {
    /// Returns the file that `path` leads to from the module `at`. `None` for other crates.
    fn target(&self, at: &Place, path: &[String]) -> Option<&str> {
        // What a macro makes is not found: then the module that it would be in.
        let paths = (1..=path.len()).rev().map(|length| &path[..length]);
        let place =
            match paths.take_while(|_| path.len() > 1).find_map(|path| self.find(at, path))? {
                // `pub(in crate::a)` names a module above and uses nothing of it.
                Meaning::Module(place) if at.starts_with(&place) => return None,
                Meaning::Module(place) | Meaning::ItemOf(place) => place,
            };
        self.0.get(&place).map(|(file, _)| file.as_str())
    }

    fn find(&self, at: &Place, path: &[String]) -> Option<Meaning> {
        let Some((first, rest)) = path.split_first() else {
            return Some(Meaning::Module(at.clone()));
        };
        let (_, items) = self.0.get(at)?;
        match first.as_str() {
            "crate" => return self.find(&Place::new(), rest),
            "super" => return self.find(&at[..at.len().checked_sub(1)?].to_vec(), rest),
            "self" => return self.find(at, rest),
            "*" => return Some(Meaning::ItemOf(at.clone())),
            _ => {}
        }
        let below = [&at[..], std::slice::from_ref(first)].concat();
        if self.0.contains_key(&below) {
            return self.find(&below, rest);
        }
        if items.iter().any(|item| names::name(item).as_ref() == Some(first)) {
            return Some(Meaning::ItemOf(at.clone()));
        }
        let imports = items.iter().filter_map(|item| match item {
            Item::Use(import) => Some(&import.tree),
            _ => None,
        });
        let mut leaves = imports.clone().flat_map(names::leaves);
        // `use log::log` would mean itself for ever.
        let import = leaves.find(|(name, path)| name == first && path[0] != *first);
        if let Some((_, import)) = import {
            return self.find(at, &[&import[..], rest].concat());
        }
        let is_here = |glob: &Vec<String>| {
            let first = glob[0].as_str();
            let below = [&at[..], &[first.to_owned()]].concat();
            matches!(first, "crate" | "super" | "self") || self.0.contains_key(&below)
        };
        let mut globs = imports.flat_map(globs).filter(is_here);
        globs.find_map(|glob| self.find(at, &[&glob[..], path].concat()))
    }
}

/// Returns the modules of which a `use` brings in everything.
fn globs(tree: &UseTree) -> Vec<Vec<String>> {
    match tree {
        UseTree::Path(path) => {
            let prefix = [path.ident.to_string()];
            globs(&path.tree).iter().map(|glob| [&prefix[..], glob].concat()).collect()
        }
        UseTree::Group(group) => group.items.iter().flat_map(globs).collect(),
        UseTree::Glob(_) => vec![Vec::new()],
        UseTree::Name(_) | UseTree::Rename(_) => Vec::new(),
    }
}

/// Says what is wrong, one line a problem.
fn problems(layers: &Layers, uses: &Uses) -> Vec<String> {
    let mut problems = layers.twice.clone();
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
            let (higher, row) = (&layers.rows[higher], &layers.rows[row]);
            if !higher.is_beside {
                let (above, below) = (&higher.title, &row.title);
                problems.push(format!(
                    "{file}.rs:{line} (\u{ab}{below}\u{bb}) uses {target}.rs, which is higher (\u{ab}{above}\u{bb})"
                ));
            }
        }
    }
    let is_there = |named: &str| {
        uses.keys().any(|file| file == named || file.starts_with(&format!("{named}/")))
    };
    let missing = layers.files.iter().filter(|named| !is_there(named));
    problems.extend(missing.map(|named| format!("`{named}` is in the table and is no file")));
    problems.extend(circles(uses).iter().map(|circle| format!("a circle: {circle}")));
    problems
}

/// Returns a circle of each set of files that all use each other. A module beneath a file may use
/// that file, with which it is one module.
fn circles(uses: &Uses) -> Vec<String> {
    let is_beneath = |file: &str, above: &str| {
        file.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
    };
    let next = |file: &str| {
        let used = uses.get(file).into_iter().flatten();
        let file = file.to_owned();
        used.filter(move |(used, _)| !is_beneath(&file, used))
            .map(|(used, line)| (used.clone(), *line))
    };
    // The shortest way from a file back to itself.
    let circle = |start: &String| {
        let mut ways = VecDeque::from([vec![(start.clone(), 0)]]);
        let mut seen = BTreeSet::new();
        while let Some(way) = ways.pop_front() {
            let last = &way.last().expect("a way has a beginning").0;
            for (used, line) in next(last) {
                let longer = [&way[..], &[(used.clone(), line)]].concat();
                if used == *start {
                    return Some(longer);
                }
                if seen.insert(used) {
                    ways.push_back(longer);
                }
            }
        }
        None
    };
    let reached = |start: &String| {
        let (mut seen, mut ahead) = (BTreeSet::new(), vec![start.clone()]);
        while let Some(file) = ahead.pop() {
            ahead
                .extend(next(&file).map(|(used, _)| used).filter(|used| seen.insert(used.clone())));
        }
        seen
    };
    let mut told = BTreeSet::new();
    let mut circles = Vec::new();
    for file in uses.keys() {
        let Some(circle) = circle(file).filter(|_| !told.contains(file)) else { continue };
        let steps = circle.windows(2).map(|pair| format!("{}.rs:{} uses", pair[0].0, pair[1].1));
        let mut text = steps.chain([format!("{file}.rs")]).collect::<Vec<_>>().join(" ");
        let mut group = reached(file);
        group.retain(|other| reached(other).contains(file));
        if group.len() >= circle.len() {
            let group: Vec<_> = group.iter().map(String::as_str).collect();
            text += &format!("; {} files all lead to each other: {}", group.len(), group.join(" "));
        }
        told.extend(group);
        circles.push(text);
    }
    circles
}

/// The problems of invented files, each with the files that it uses.
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
    assert_eq!(with("c/e", &["c/d"]), ["a circle: c/d.rs:7 uses c/e.rs:7 uses c/d.rs"]);
    assert_eq!(with("g", &[]), ["g.rs is in no row"]);
    assert_eq!(with("b", &["lib"]), ["b.rs:7 uses lib.rs, which uses every file"]);
    assert_eq!(
        problems_of("| top | `a` | |\n| low | `a` `b` | |\n", &[("a", &[])]),
        ["`a` is in two rows", "`b` is in the table and is no file"]
    );
}

/// Methods in a higher file would be calls upwards that the imports do not show. Only methods for users may
/// stand apart from their type, where a higher layer adds them.
#[test]
fn types_have_their_methods_in_one_file() {
    // Its file would be too long.
    let large = ["Core", "Ensemble"];
    let mut apart = Vec::new();
    for src in ["src", "zookeeper/src", "zookeeper-testing/src"] {
        let sources = sources(&crate::root().join(src));
        let is_own =
            |item: &&Item| matches!(item, Item::Struct(_) | Item::Enum(_) | Item::Union(_));
        for source in &sources {
            let here: BTreeSet<_> =
                source.items.iter().filter(is_own).filter_map(names::name).collect();
            for item in &source.items {
                let Item::Impl(one) = item else { continue };
                let syn::Type::Path(path) = &*one.self_ty else { continue };
                let Some(name) = path.path.segments.last().map(|last| last.ident.to_string())
                else {
                    continue;
                };
                let is_for_users = one.items.iter().all(|item| match item {
                    syn::ImplItem::Fn(method) => matches!(method.vis, syn::Visibility::Public(_)),
                    _ => false,
                });
                if one.trait_.is_none()
                    && !is_for_users
                    && !here.contains(&name)
                    && !large.contains(&&*name)
                {
                    apart.push(format!("{}: methods of `{name}`", source.file.display()));
                }
            }
        }
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}
