//! The modules of the crate, as written in `src`, without modules for tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, ImplItem, Item, ItemMacro, Meta, Token, Type, Visibility};

/// The source folders of the packages whose layers are checked and that use a `sys`.
pub(crate) const FOLDERS: [&str; 3] = ["src", "zookeeper/src", "zookeeper-testing/src"];

/// The path of a module: `[]` is the crate's root, and `["session", "events"]` is a module below it.
pub(crate) type Place = Vec<String>;

/// Every module with its items, macros expanded.
pub(crate) type Modules = BTreeMap<Place, Vec<Item>>;

/// A module as written, without its submodules and without code for tests.
pub(crate) struct Source {
    pub(crate) place: Place,
    pub(crate) file: PathBuf,
    pub(crate) items: Vec<Item>,
}

pub(crate) fn modules(src: &Path) -> Modules {
    let expanded = |items: Vec<Item>| {
        let expand = |item| expand(&item, &items).unwrap_or_else(|| vec![item]);
        items.iter().cloned().flat_map(expand).collect()
    };
    let sources = sources(src).into_iter();
    sources.map(|source| (source.place, expanded(source.items))).collect()
}

/// Expands a call of a macro that is defined in the same module. The macro must have one rule, for any number of types.
fn expand(call: &Item, items: &[Item]) -> Option<Vec<Item>> {
    let Item::Macro(ItemMacro { ident: None, mac: call, .. }) = call else { return None };
    let text = items.iter().find_map(|item| match item {
        Item::Macro(item) if call.path.is_ident(item.ident.as_ref()?) => {
            Some(item.mac.tokens.to_string())
        }
        _ => None,
    })?;
    // The macro has the form `($($parameter: ty),*) => {$( body )*}`.
    let (head, rest) = text.split_once("=>")?;
    let parameter = head.split(':').next()?.rsplit('$').next()?.trim();
    let (body, _) = rest.split_once("$ (")?.1.rsplit_once(')')?;
    let types = call.parse_body_with(Punctuated::<Type, Token![,]>::parse_terminated);
    let types = types.expect("types").into_iter().map(|ty| ty.to_token_stream().to_string());
    let made = types.map(|ty| body.replace(&format!("$ {parameter}"), &ty)).collect::<String>();
    Some(syn::parse_str::<syn::File>(&made).expect("items").items)
}

/// Returns every module. Macros are not expanded.
pub(crate) fn sources(src: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    let file = src.join("lib.rs");
    let items = items_of(&file);
    enter(Source { place: Place::new(), file, items }, src, &mut sources);
    sources
}

fn items_of(file: &Path) -> Vec<Item> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    parsed.items
}

/// Adds a module, and all modules below it, whose files are in `folder`.
fn enter(mut source: Source, folder: &Path, sources: &mut Vec<Source>) {
    source.items.retain(|item| is_built(&begin(item).0));
    for item in &mut source.items {
        if let Item::Impl(block) = item {
            let is_in = |part: &_| !matches!(part, ImplItem::Fn(f) if !is_built(&f.attrs));
            block.items.retain(is_in);
        }
    }
    for item in &source.items {
        let Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        let (flat, below) = (folder.join(format!("{name}.rs")), folder.join(&name));
        let (file, items) = match &module.content {
            Some((_, items)) => (source.file.clone(), items.clone()),
            None => {
                let file = if flat.is_file() { flat } else { below.join("mod.rs") };
                let items = items_of(&file);
                (file, items)
            }
        };
        let place = source.place.iter().chain([&name]).cloned().collect();
        enter(Source { place, file, items }, &below, sources);
    }
    sources.push(source);
}

/// Returns all files with this extension below a folder. Hidden files, and files in folders with one of these names,
/// are left out.
pub(crate) fn files(folder: &Path, extension: &str, without: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match name.starts_with('.') || without.contains(&&*name) {
            true => {}
            false if path.is_dir() => found.extend(files(&path, extension, without)),
            false if path.extension().is_some_and(|it| it == extension) => found.push(path),
            false => {}
        }
    }
    found
}

/// Returns whether an item is compiled outside of tests as well.
fn is_built(attributes: &[Attribute]) -> bool {
    let for_tests = |attribute: &&Attribute| {
        let cfg = attribute.path().is_ident("cfg").then(|| attribute.meta.require_list().ok());
        let cfg = cfg.flatten().map(|list| list.tokens.to_string());
        cfg.is_some_and(|cfg| cfg == "test" || cfg == "doctest")
    };
    !attributes.iter().any(|attribute| for_tests(&attribute))
}

/// Returns whether an item is hidden from the documentation, so that users cannot rely on it.
pub(crate) fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).any(|attribute| {
        let all = Punctuated::<Meta, Token![,]>::parse_terminated;
        let says = attribute.parse_args_with(all).unwrap_or_default();
        says.iter().any(|meta| meta.path().is_ident("hidden"))
    })
}

/// Returns the attributes and the visibility with which an item begins.
pub(crate) fn begin(item: &Item) -> (Vec<Attribute>, Visibility) {
    let begin = |input: ParseStream<'_>| {
        let begin = (Attribute::parse_outer(input)?, input.parse()?);
        input.parse::<TokenStream>()?;
        Ok(begin)
    };
    begin.parse2(item.to_token_stream()).expect("an item")
}
