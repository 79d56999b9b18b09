//! Resolves paths to items of the crate.

use syn::{Ident, Item, UseTree};

use crate::source::{Modules, Place};

/// An item: its module, and its name in that module.
pub(crate) type Id = (Place, String);

/// Resolves `path` in a module, to a module or to an item in it; the item `*` means all items. For an item of another
/// crate, returns the path as an error, with imported names replaced by what they refer to.
pub(crate) fn find(
    modules: &Modules,
    at: &Place,
    path: &[String],
) -> Result<(Place, Option<String>), Vec<String>> {
    let Some((first, rest)) = path.split_first() else {
        return Ok((at.clone(), None));
    };
    let items = modules.get(at).ok_or(path)?;
    match first.as_str() {
        "crate" => return find(modules, &Place::new(), rest),
        "super" => return find(modules, &at[..at.len().saturating_sub(1)].to_vec(), rest),
        "self" => return find(modules, at, rest),
        "*" => return Ok((at.clone(), Some(first.clone()))),
        _ => {}
    }
    let below = [&at[..], std::slice::from_ref(first)].concat();
    if modules.contains_key(&below) {
        return find(modules, &below, rest);
    }
    if items.iter().any(|item| name(item).as_ref() == Some(first)) {
        return Ok((at.clone(), Some(first.clone())));
    }
    let imports = items.iter().filter_map(|item| match item {
        Item::Use(import) => Some(leaves(&import.tree)),
        _ => None,
    });
    let imports: Vec<_> = imports.flatten().collect();
    // Skips `use log::log`, which would otherwise be resolved to itself forever.
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
    let found = globs.find_map(|glob| find(modules, at, &[glob, path].concat()).ok());
    found.ok_or(path.to_vec())
}

/// Returns the item to which `path` resolves in a module, if it is an item of this crate.
pub(crate) fn resolve(modules: &Modules, at: &Place, path: &[String]) -> Option<Id> {
    let (place, name) = find(modules, at, path).ok()?;
    Some((place, name.filter(|name| name != "*")?))
}

/// Returns the names that a `use` imports, each with the path to which it refers. The name `*` means all items.
pub(crate) fn leaves(tree: &UseTree) -> Vec<(String, Vec<String>)> {
    let own = |ident: &Ident| if ident == "self" { vec![] } else { vec![ident.to_string()] };
    match tree {
        UseTree::Path(path) => {
            let below = leaves(&path.tree).into_iter().map(|(name, below)| {
                let name = if name == "self" { path.ident.to_string() } else { name };
                (name, [own(&path.ident), below].concat())
            });
            below.collect()
        }
        UseTree::Name(name) => vec![(name.ident.to_string(), own(&name.ident))],
        UseTree::Rename(name) => vec![(name.rename.to_string(), own(&name.ident))],
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
