//! The modules of the crate, as they are in `src`, without those for tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use syn::punctuated::Punctuated;
use syn::{Attribute, Item, Meta, Token};

use crate::expand::expand;

/// `[]` is the crate's root, `["session", "events"]` a module below it.
pub(crate) type Place = Vec<String>;

/// Every module with its items, macros expanded.
pub(crate) type Modules = BTreeMap<Place, Vec<Item>>;

pub(crate) fn modules(src: &Path) -> Modules {
    let mut modules = Modules::new();
    let items = items_of(&src.join("lib.rs"));
    enter(items, src, Vec::new(), &mut modules);
    let macros: Vec<_> = modules
        .values()
        .flatten()
        .filter_map(|item| match item {
            Item::Macro(found) => Some(found.clone()),
            _ => None,
        })
        .collect();
    for items in modules.values_mut() {
        *items = std::mem::take(items).into_iter().flat_map(|item| expand(item, &macros)).collect();
    }
    modules
}

fn items_of(file: &Path) -> Vec<Item> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    parsed.items
}

/// A module with these items, and all below it, whose files are in `folder`.
fn enter(mut items: Vec<Item>, folder: &Path, place: Place, modules: &mut Modules) {
    items.retain(|item| is_built(attributes(item)));
    for item in &items {
        let Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        let (flat, below) = (folder.join(format!("{name}.rs")), folder.join(&name));
        let inside = match &module.content {
            Some((_, items)) => items.clone(),
            None if flat.is_file() => items_of(&flat),
            None => items_of(&below.join("mod.rs")),
        };
        let place = place.iter().chain([&name]).cloned().collect();
        enter(inside, &below, place, modules);
    }
    modules.insert(place, items);
}

/// Not for tests only.
fn is_built(attributes: &[Attribute]) -> bool {
    let for_tests = |attribute: &&Attribute| {
        let cfg = attribute.path().is_ident("cfg").then(|| attribute.meta.require_list().ok());
        let cfg = cfg.flatten().map(|list| list.tokens.to_string());
        cfg.is_some_and(|cfg| cfg == "test" || cfg == "doctest")
    };
    !attributes.iter().any(|attribute| for_tests(&attribute))
}

/// Left out of the documentation, and so not part of what a user may rely on.
pub(crate) fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).any(|attribute| {
        let all = Punctuated::<Meta, Token![,]>::parse_terminated;
        let says = attribute.parse_args_with(all).unwrap_or_default();
        says.iter().any(|meta| meta.path().is_ident("hidden"))
    })
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
