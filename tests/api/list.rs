//! Turns the modules of the crate into the lines of the list.

use std::collections::BTreeSet;
use std::path::Path;

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::visit::{Visit, visit_path};
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, Token, TraitItem, Visibility, parse_quote};

use crate::names::{Id, leaves, name, resolve};
use crate::print::line;
use crate::source::{Modules, Place, begin, is_hidden, modules};

/// Every public item on a line of its own, sorted.
pub(crate) fn public_api(src: &Path) -> String {
    let modules = modules(src);
    let mut api = Api { modules: &modules, public: BTreeSet::new(), lines: BTreeSet::new() };
    api.enter(&Place::new());
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
    modules: &'m Modules,
    public: BTreeSet<Id>,
    lines: BTreeSet<String>,
}

impl Api<'_> {
    /// What a public module shows. What is hidden may still be shown by a `pub use` of its own elsewhere.
    fn enter(&mut self, place: &Place) {
        for item in self.modules[place].iter().filter(|item| !is_hidden(&begin(item).0)) {
            match item {
                Item::Use(import) if is_public(&import.vis) => {
                    for (name, path) in leaves(&import.tree) {
                        if path.last() != Some(&name) {
                            let line = format!("pub use {} as {name}", path.join("::"));
                            self.lines.insert(line);
                        }
                        match resolve(self.modules, place, &path) {
                            Some(id) => self.show(id),
                            None => drop(self.lines.insert(format!("pub use {}", path.join("::")))),
                        }
                    }
                }
                Item::Mod(module) if is_public(&module.vis) => {
                    let below = place.iter().cloned().chain([module.ident.to_string()]);
                    let below: Place = below.collect();
                    self.lines.insert(format!("pub mod {}", below.join("::")));
                    self.enter(&below);
                }
                _ if is_public(&begin(item).1) => {
                    if let Some(name) = name(item) {
                        self.show((place.clone(), name));
                    }
                }
                _ => {}
            }
        }
    }

    fn show(&mut self, id: Id) {
        let items = &self.modules[&id.0];
        let found = items.iter().find(|item| name(item).as_deref() == Some(&id.1));
        let Some(mut item) = found.cloned() else { return };
        if !self.public.insert(id.clone()) {
            return;
        }
        self.derived(&id.1, &begin(&item).0);
        match &mut item {
            Item::Struct(item) => {
                for field in item.fields.iter().filter(|field| is_public(&field.vis)) {
                    let (name, ty) = (field.ident.to_token_stream(), &field.ty);
                    let ty = line(parse_quote!(type T = #ty;));
                    self.say(&id.1, &format!("pub {name}: {}", ty.trim_start_matches("type T = ")));
                }
                item.fields = Fields::Unit;
                item.semi_token = Some(Default::default());
            }
            Item::Enum(item) => {
                for variant in std::mem::take(&mut item.variants) {
                    let alone = line(parse_quote!(enum E { #variant }));
                    let alone = alone.trim_start_matches("enum E { ").trim_end_matches(" }");
                    let open = alone.contains('{');
                    self.say(&id.1, &format!("{alone}{}", if open { " }" } else { "" }));
                }
            }
            Item::Trait(item) => {
                for part in std::mem::take(&mut item.items) {
                    self.of_trait(&id.1, part);
                }
            }
            Item::Type(_) => {}
            Item::Const(item) => *item.expr = parse_quote!(_),
            Item::Fn(item) => *item.block = parse_quote!({}),
            other => panic!("not listed: {}", other.to_token_stream()),
        }
        self.lines.insert(line(item));
    }

    fn of_trait(&mut self, owner: &str, part: TraitItem) {
        let TraitItem::Fn(mut function) = part else {
            panic!("not listed: {}", part.to_token_stream());
        };
        let provided = if function.default.take().is_some() { " { .. }" } else { "" };
        let signature = function.sig;
        let alone = line(parse_quote!(#signature {}));
        self.say(owner, &format!("{alone}{provided}"));
    }

    fn derived(&mut self, owner: &str, attributes: &[Attribute]) {
        for attribute in attributes.iter().filter(|a| a.path().is_ident("derive")) {
            let all = Punctuated::<syn::Path, Token![,]>::parse_terminated;
            for derived in attribute.parse_args_with(all).expect("a list of traits") {
                let name = derived.to_token_stream().to_string();
                self.say(owner, &format!("impl {name}"));
            }
        }
    }

    fn implementation(&mut self, place: &Place, block: &ItemImpl) {
        let mut mentioned = Mentioned::default();
        mentioned.visit_type(&block.self_ty);
        let id = |path: &Vec<String>| resolve(self.modules, place, path);
        let own = mentioned.0.first().and_then(id).filter(|id| self.public.contains(id));
        let Some((_, of, _)) = &block.trait_ else {
            if let Some((_, name)) = own {
                self.methods(&name, block);
            }
            return;
        };
        mentioned.visit_path(of);
        // Of this crate; what is hidden cannot be named by a user.
        let ours: Vec<_> = mentioned.0.iter().filter_map(id).collect();
        if ours.is_empty() || ours.iter().any(|id| !self.public.contains(id)) {
            return;
        }
        let mut bare = block.clone();
        bare.items.retain(|part| matches!(part, ImplItem::Type(_)));
        let alone = line(Item::Impl(bare));
        match (own, alone.split_once(" for ")) {
            (Some(_), Some((of, named))) if named.chars().all(char::is_alphanumeric) => {
                self.say(named, of);
            }
            _ => drop(self.lines.insert(alone)),
        }
    }

    fn methods(&mut self, owner: &str, block: &ItemImpl) {
        for part in &block.items {
            match part.clone() {
                ImplItem::Fn(function) if is_public(&function.vis) => {
                    let (attributes, sig) = (&function.attrs, &function.sig);
                    let alone = line(parse_quote!(#(#attributes)* pub #sig {}));
                    self.say(owner, &alone);
                }
                ImplItem::Const(constant) if is_public(&constant.vis) => {
                    let (name, ty) = (&constant.ident, &constant.ty);
                    self.say(owner, &line(parse_quote!(pub const #name: #ty = _;)));
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

/// The paths in a type or a trait, the outer ones first.
#[derive(Default)]
struct Mentioned(Vec<Vec<String>>);

impl Visit<'_> for Mentioned {
    fn visit_path(&mut self, path: &syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit_path(self, path);
    }
}
