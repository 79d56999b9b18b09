//! Finds the item of a path, if it is an item of the crate.

use syn::{Item, UseTree};

use crate::source::{Modules, Place};

/// An item: its module, and its name there.
pub(crate) type Id = (Place, String);

/// What `path` means in a module. None for what is not of this crate.
pub(crate) fn resolve(modules: &Modules, at: &Place, path: &[String]) -> Option<Id> {
    let (first, rest) = path.split_first()?;
    if rest.is_empty() {
        let items = modules.get(at)?;
        if items.iter().any(|item| name(item).as_deref() == Some(first)) {
            return Some((at.clone(), first.clone()));
        }
        let imports = items.iter().filter_map(|item| match item {
            Item::Use(import) => Some(leaves(&import.tree)),
            _ => None,
        });
        let (_, path) = imports.flatten().find(|(name, _)| name == first)?;
        // Without a prefix of its own it would mean itself for ever.
        return if path.len() > 1 { resolve(modules, at, &path) } else { None };
    }
    let mut module = at.clone();
    match first.as_str() {
        "crate" => module.clear(),
        "super" => drop(module.pop()),
        "self" => {}
        below => {
            module.push(below.to_owned());
            if !modules.contains_key(&module) {
                let found = resolve(modules, at, &path[..1])?;
                module = found.0.into_iter().chain([found.1]).collect();
            }
        }
    }
    resolve(modules, &module, rest)
}

/// The names that a `use` brings in, each with the path that it stands for.
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
        UseTree::Glob(_) => Vec::new(),
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
