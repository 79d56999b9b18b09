//! Prints signatures on one line, with full paths.

use quote::format_ident;
use syn::visit_mut::{VisitMut, visit_path_mut};
use syn::{Attribute, Item, Path, PathSegment, Receiver, parse_quote};

/// Returns an item on one line, without its documentation. `full` returns the full path for a path in the source.
pub(crate) fn line(mut item: Item, full: impl Fn(&[String]) -> Vec<String>) -> String {
    Full(full).visit_item_mut(&mut item);
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

struct Full<F>(F);

impl<F: Fn(&[String]) -> Vec<String>> VisitMut for Full<F> {
    fn visit_path_mut(&mut self, path: &mut Path) {
        visit_path_mut(self, path);
        let names: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        let full = (self.0)(&names);
        let arguments = path.segments.pop().map(|last| last.into_value().arguments);
        path.leading_colon = None;
        path.segments =
            full.iter().map(|name| PathSegment::from(format_ident!("{name}"))).collect();
        if let (Some(last), Some(arguments)) = (path.segments.last_mut(), arguments) {
            last.arguments = arguments;
        }
    }

    fn visit_receiver_mut(&mut self, receiver: &mut Receiver) {
        // For a `self` by value, whether the method changes it is not part of the API.
        if receiver.reference.is_none() {
            receiver.mutability = None;
        }
    }

    /// Keeps the attributes that matter to users. The text of a `must_use` is removed, because it is documentation.
    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        let says = |name: &str| attributes.iter().any(|attribute| attribute.path().is_ident(name));
        let kept =
            ["must_use", "non_exhaustive", "deprecated"].into_iter().filter(|name| says(name));
        let kept = kept.map(|name| format_ident!("{name}"));
        *attributes = kept.map(|name| parse_quote!(#[#name])).collect();
    }
}
