//! Finds what a path means, if it is of the crate.

use syn::{Item, UseTree};

use crate::source::{Modules, Place};

/// An item: its module, and its name there.
pub(crate) type Id = (Place, String);

/// What a path means.
#[derive(Debug, Clone)]
pub(crate) enum Meaning {
    Module(Place),
    Item(Id),
    /// All items of this module.
    All(Place),
}

/// What `path` means in a module. None for what is not of this crate.
pub(crate) fn find(modules: &Modules, at: &Place, path: &[String]) -> Option<Meaning> {
    let Some((first, rest)) = path.split_first() else {
        return Some(Meaning::Module(at.clone()));
    };
    let items = modules.get(at)?;
    match first.as_str() {
        "crate" => return find(modules, &Place::new(), rest),
        "super" => return find(modules, &at[..at.len().checked_sub(1)?].to_vec(), rest),
        "self" => return find(modules, at, rest),
        "*" => return Some(Meaning::All(at.clone())),
        _ => {}
    }
    let below = [&at[..], std::slice::from_ref(first)].concat();
    if modules.contains_key(&below) {
        return find(modules, &below, rest);
    }
    if items.iter().any(|item| name(item).as_ref() == Some(first)) {
        return Some(Meaning::Item((at.clone(), first.clone())));
    }
    let imports = items.iter().filter_map(|item| match item {
        Item::Use(import) => Some(leaves(&import.tree)),
        _ => None,
    });
    let imports: Vec<_> = imports.flatten().collect();
    // `use log::log` would mean itself for ever.
    let import = imports.iter().find(|(name, path)| name == first && path[0] != *first);
    if let Some((_, import)) = import {
        return find(modules, at, &[&import[..], rest].concat());
    }
    let is_here = |glob: &&[String]| {
        let first = glob.first().map_or("", String::as_str);
        let below = [&at[..], &[first.to_owned()]].concat();
        matches!(first, "crate" | "super") || modules.contains_key(&below)
    };
    let globs = imports.iter().filter_map(|(_, path)| path.strip_suffix(&["*".to_owned()]));
    let mut globs = globs.filter(is_here);
    globs.find_map(|glob| find(modules, at, &[glob, path].concat()))
}

/// What `path` means in a module, if it is an item of this crate.
pub(crate) fn resolve(modules: &Modules, at: &Place, path: &[String]) -> Option<Id> {
    match find(modules, at, path)? {
        Meaning::Item(id) => Some(id),
        Meaning::Module(_) | Meaning::All(_) => None,
    }
}

/// The names that a `use` brings in, each with the path that it stands for: `*` for everything.
pub(crate) fn leaves(tree: &UseTree) -> Vec<(String, Vec<String>)> {
    let under = |prefix: String, tree: &UseTree| {
        let below = leaves(tree).into_iter();
        below
            .map(|(name, path)| {
                let path = [prefix.clone()].into_iter().chain(path);
                (name, path.filter(|part| part != "self").collect())
            })
            .collect()
    };
    match tree {
        UseTree::Path(path) if path.ident == "self" => leaves(&path.tree),
        UseTree::Path(path) => under(path.ident.to_string(), &path.tree),
        UseTree::Name(name) => vec![(name.ident.to_string(), vec![name.ident.to_string()])],
        UseTree::Rename(name) => vec![(name.rename.to_string(), vec![name.ident.to_string()])],
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
        UseTree::Glob(_) => vec![("*".to_owned(), vec!["*".to_owned()])],
    }
}

pub(crate) fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Mod(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
