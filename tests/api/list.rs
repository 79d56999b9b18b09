//! Turns the modules of the crate into the lines of its API list.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::visit::{Visit, visit_path};
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, Token, TraitItem, Visibility, parse_quote};

use crate::names::{Id, find, leaves, name, resolve};
use crate::print::line;
use crate::source::{Modules, Place, begin, is_hidden, modules};

/// Returns every public item of the crate with this name, one per line, sorted.
pub(crate) fn public_api(name: &str, src: &Path) -> String {
    let modules = modules(src);
    let (public, lines) = (BTreeMap::new(), BTreeSet::new());
    let mut api = Api { name, modules: &modules, public, lines };
    api.enter(&Place::new());
    api.public.clone().into_keys().for_each(|id| api.show(&id));
    for (place, items) in &modules {
        for item in items {
            if let Item::Impl(block) = item {
                api.implementation(place, block);
            }
        }
    }
    api.lines.iter().map(|line| format!("{line}\n")).collect()
}

struct Api<'m> {
    name: &'m str,
    modules: &'m Modules,
    /// The public items, each with the first path found by which users reach it.
    public: BTreeMap<Id, String>,
    lines: BTreeSet<String>,
}

impl Api<'_> {
    /// Lists what a public module exports. Its `pub use` may export an item of a hidden module.
    fn enter(&mut self, place: &Place) {
        let path = |name: &str| [&[self.name.to_owned()], &place[..], &[name.to_owned()]].concat();
        let path = |name: &str| path(name).join("::");
        for item in self.modules[place].iter().filter(|item| !is_hidden(&begin(item).0)) {
            match item {
                Item::Use(import) if is_public(&import.vis) => {
                    for (name, named) in leaves(&import.tree) {
                        match find(self.modules, place, &named) {
                            Ok((module, Some(own))) => {
                                self.public.entry((module, own)).or_insert_with(|| path(&name));
                            }
                            Ok(_) => {}
                            Err(foreign) => {
                                let line =
                                    format!("pub use {} = {}", path(&name), foreign.join("::"));
                                self.lines.insert(line);
                            }
                        }
                    }
                }
                Item::Mod(module) if is_public(&module.vis) => {
                    let name = module.ident.to_string();
                    self.lines.insert(format!("pub mod {}", path(&name)));
                    self.enter(&[&place[..], &[name]].concat());
                }
                _ if is_public(&begin(item).1) => {
                    if let Some(name) = name(item) {
                        let path = path(&name);
                        self.public.entry((place.clone(), name)).or_insert(path);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the full path for a path written in this module: if possible, the one by which users reach the item.
    fn full(&self, place: &Place, path: &[String]) -> Vec<String> {
        let words = |path: &String| path.split("::").map(str::to_owned).collect();
        match find(self.modules, place, path) {
            Ok((module, Some(name))) => {
                let private =
                    || [&["crate".to_owned()], &module[..], std::slice::from_ref(&name)].concat();
                self.public.get(&(module.clone(), name.clone())).map_or_else(private, words)
            }
            Ok((module, None)) => [&["crate".to_owned()], &module[..]].concat(),
            Err(foreign) => foreign,
        }
    }

    fn line(&self, place: &Place, item: Item) -> String {
        line(item, |path| self.full(place, path))
    }

    fn show(&mut self, id: &Id) {
        let (place, own) = id;
        let found = self.modules[place].iter().find(|item| name(item).as_ref() == Some(own));
        let Some(mut item) = found.cloned() else { return };
        let path = self.public[id].clone();
        self.derived(&path, &begin(&item).0);
        match &mut item {
            Item::Struct(item) => {
                for field in item.fields.iter().filter(|field| is_public(&field.vis)) {
                    let (name, ty) = (field.ident.to_token_stream(), &field.ty);
                    let ty = self.line(place, parse_quote!(type T = #ty;));
                    self.say(&path, &format!("pub {name}: {}", ty.trim_start_matches("type T = ")));
                }
                item.fields = Fields::Unit;
                item.semi_token = Some(Default::default());
            }
            Item::Enum(item) => {
                for variant in std::mem::take(&mut item.variants) {
                    let alone = self.line(place, parse_quote!(enum E { #variant }));
                    let alone = alone.trim_start_matches("enum E { ").trim_end_matches(" }");
                    let open = alone.contains('{');
                    self.say(&path, &format!("{alone}{}", if open { " }" } else { "" }));
                }
            }
            Item::Trait(item) => {
                for part in std::mem::take(&mut item.items) {
                    self.of_trait(id, part);
                }
            }
            Item::Type(_) => {}
            Item::Const(item) => *item.expr = parse_quote!(_),
            Item::Fn(item) => *item.block = parse_quote!({}),
            other => panic!("not listed: {}", other.to_token_stream()),
        }
        let line = self.line(place, item);
        self.lines.insert(line.replacen(&format!(" {own}"), &format!(" {path}"), 1));
    }

    fn of_trait(&mut self, owner: &Id, part: TraitItem) {
        let TraitItem::Fn(mut function) = part else {
            panic!("not listed: {}", part.to_token_stream());
        };
        let provided = if function.default.take().is_some() { " { .. }" } else { "" };
        let signature = function.sig;
        let alone = self.line(&owner.0, parse_quote!(#signature {}));
        self.say(&self.public[owner].clone(), &format!("{alone}{provided}"));
    }

    fn derived(&mut self, owner: &str, attributes: &[Attribute]) {
        for attribute in attributes.iter().filter(|a| a.path().is_ident("derive")) {
            let all = Punctuated::<syn::Path, Token![,]>::parse_terminated;
            for derived in attribute.parse_args_with(all).expect("a list of traits") {
                let name = match derived.to_token_stream().to_string().as_str() {
                    "Debug" => "std::fmt::Debug".to_owned(),
                    "Hash" => "std::hash::Hash".to_owned(),
                    in_scope => in_scope.to_owned(),
                };
                self.say(owner, &format!("impl {name}"));
            }
        }
    }

    fn implementation(&mut self, place: &Place, block: &ItemImpl) {
        let mut mentioned = Mentioned::default();
        mentioned.visit_type(&block.self_ty);
        let id = |path: &Vec<String>| resolve(self.modules, place, path);
        let own = mentioned.0.first().and_then(id).and_then(|id| self.public.get(&id).cloned());
        let Some((_, of, _)) = &block.trait_ else {
            if let Some(owner) = own {
                self.methods(place, &owner, block);
            }
            return;
        };
        mentioned.visit_path(of);
        // The mentioned items of this crate. If one is hidden, users cannot name it, so the impl is not listed.
        let ours: Vec<_> = mentioned.0.iter().filter_map(id).collect();
        if ours.is_empty() || ours.iter().any(|id| !self.public.contains_key(id)) {
            return;
        }
        let mut bare = block.clone();
        bare.items.retain(|part| matches!(part, ImplItem::Type(_)));
        let alone = self.line(place, Item::Impl(bare));
        match (own, alone.split_once(" for ")) {
            (Some(own), Some((of, named))) if own == named => self.say(named, of),
            _ => drop(self.lines.insert(alone)),
        }
    }

    fn methods(&mut self, place: &Place, owner: &str, block: &ItemImpl) {
        for part in &block.items {
            match part.clone() {
                ImplItem::Fn(f) if is_public(&f.vis) && !is_hidden(&f.attrs) => {
                    let (attributes, sig) = (&f.attrs, &f.sig);
                    let alone = self.line(place, parse_quote!(#(#attributes)* pub #sig {}));
                    self.say(owner, &alone);
                }
                ImplItem::Const(constant) if is_public(&constant.vis) => {
                    let (name, ty) = (&constant.ident, &constant.ty);
                    let alone = self.line(place, parse_quote!(pub const #name: #ty = _;));
                    self.say(owner, &alone);
                }
                _ => {}
            }
        }
    }

    fn say(&mut self, owner: &str, what: &str) {
        self.lines.insert(format!("{owner}: {what}"));
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// The paths mentioned in a type or a trait, outer ones first.
#[derive(Default)]
struct Mentioned(Vec<Vec<String>>);

impl Visit<'_> for Mentioned {
    fn visit_path(&mut self, path: &syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit_path(self, path);
    }
}
