//! Signatures on one line, with the last parts of paths only.

use quote::format_ident;
use syn::visit_mut::{VisitMut, visit_path_mut};
use syn::{Attribute, Item, Path, Receiver, parse_quote};

/// An item as one line, without its documentation.
pub(crate) fn line(mut item: Item) -> String {
    Short.visit_item_mut(&mut item);
    let file: syn::File = parse_quote!(#item);
    let text = prettyplease::unparse(&file);
    let words: Vec<_> = text.split_whitespace().collect();
    let mut line = words.join(" ");
    for (long, short) in
        [("( ", "("), (", )", ")"), (", }", " }"), (", >", ">"), (" {}", ""), ("< ", "<")]
    {
        line = line.replace(long, short);
    }
    line.trim_end_matches([';', ',']).to_owned()
}

struct Short;

impl VisitMut for Short {
    fn visit_path_mut(&mut self, path: &mut Path) {
        if let Some(last) = path.segments.pop() {
            path.leading_colon = None;
            path.segments.clear();
            path.segments.push(last.into_value());
        }
        visit_path_mut(self, path);
    }

    fn visit_receiver_mut(&mut self, receiver: &mut Receiver) {
        // Of a `self` by value only: that it is changed inside is nobody's business.
        if receiver.reference.is_none() {
            receiver.mutability = None;
        }
    }

    /// What a user has to know: without the text of a `must_use`, which is documentation.
    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        let says = |name: &str| attributes.iter().any(|attribute| attribute.path().is_ident(name));
        let kept =
            ["must_use", "non_exhaustive", "deprecated"].into_iter().filter(|name| says(name));
        let kept = kept.map(|name| format_ident!("{name}"));
        *attributes = kept.map(|name| parse_quote!(#[#name])).collect();
    }
}
