//! A Rust file, its functions, and positions in its text.

use std::ops::Range;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A file of the library, the client or the command-line program.
pub(crate) struct Source {
    pub(crate) text: String,
    pub(crate) functions: Vec<Function>,
}

/// A function that is not nested in another function.
pub(crate) struct Function {
    /// The function's name, without the name of its type.
    pub(crate) name: String,
    /// The position of the function's body, including the braces.
    pub(crate) body: Range<usize>,
    /// If the function cannot contain a switch, the reason.
    pub(crate) unfit: Option<&'static str>,
}

impl Source {
    pub(crate) fn parse(text: String) -> Result<Source, String> {
        let file = syn::parse_file(&text).map_err(|error| error.to_string())?;
        let mut found = Found { text: &text, functions: Vec::new() };
        found.visit_file(&file);
        let functions = found.functions;
        Ok(Source { text, functions })
    }

    /// Returns the position in a function's body that has the same tokens as `from`, if there is exactly one.
    pub(crate) fn find(&self, function: &Function, from: &str) -> Option<Range<usize>> {
        let (begin, body) = (function.body.start, &self.text[function.body.clone()]);
        let (all, wanted) = (tokens(body)?, tokens(from)?);
        let is_it = |part: &&[Range<usize>]| {
            let texts = part.iter().map(|at| &body[at.clone()]);
            texts.eq(wanted.iter().map(|at| &from[at.clone()]))
        };
        let found: Vec<_> = all.windows(wanted.len().max(1)).filter(is_it).collect();
        let [only] = found[..] else { return None };
        Some(begin + only.first()?.start..begin + only.last()?.end)
    }

    /// Returns the offset of a line and column, which are counted from 1.
    pub(crate) fn offset(&self, line: usize, column: usize) -> usize {
        let lines: usize = self.text.split_inclusive('\n').take(line - 1).map(str::len).sum();
        let rest = &self.text[lines..];
        lines + rest.char_indices().nth(column - 1).map_or(rest.len(), |(at, _)| at)
    }
}

/// Returns a text in one line, without comments, or `None` if it is not valid Rust.
pub(crate) fn in_one_line(text: &str) -> Option<String> {
    Some(text.parse::<TokenStream>().ok()?.to_string().replace('\n', " "))
}

/// Returns the positions of all tokens, including tokens in groups, or `None` if the text is not valid Rust.
fn tokens(text: &str) -> Option<Vec<Range<usize>>> {
    let mut all = Vec::new();
    flatten(text.parse().ok()?, &mut all);
    Some(all)
}

fn flatten(stream: TokenStream, all: &mut Vec<Range<usize>>) {
    for tree in stream {
        if let TokenTree::Group(group) = tree {
            all.push(group.span_open().byte_range());
            flatten(group.stream(), all);
            all.push(group.span_close().byte_range());
        } else {
            all.push(tree.span().byte_range());
        }
    }
}

struct Found<'a> {
    text: &'a str,
    functions: Vec<Function>,
}

impl Found<'_> {
    fn add(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let returned = &self.text[signature.output.span().byte_range()];
        let unfit = match signature.constness {
            Some(_) => Some("is const"),
            None if returned.contains("impl ") => Some("returns `impl`, which two bodies cannot"),
            None => None,
        };
        let name = signature.ident.to_string();
        self.functions.push(Function { name, body: body.span().byte_range(), unfit });
    }
}

/// Bodies are not visited, because a nested function belongs to its outer function.
impl<'ast> Visit<'ast> for Found<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.sig, body);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let is_cfg = |attribute: &syn::Attribute| attribute.path().is_ident("cfg");
        if !item.attrs.iter().any(is_cfg) {
            visit::visit_item_mod(self, item);
        }
    }
}
