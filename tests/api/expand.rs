//! Expands macros of the crate that define items: they have one rule, for any number of types between commas.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Item, ItemMacro};

/// The items that `item` stands for: itself, unless it calls one of `macros`.
pub(crate) fn expand(item: Item, macros: &[ItemMacro]) -> Vec<Item> {
    let Item::Macro(call) = &item else {
        return vec![item];
    };
    let name = call.mac.path.to_token_stream().to_string();
    let named = |found: &&ItemMacro| found.ident.as_ref().is_some_and(|ident| *ident == name);
    let Some(found) = macros.iter().find(named) else {
        return vec![item];
    };
    let rule: Vec<_> = found.mac.tokens.clone().into_iter().collect();
    let [TokenTree::Group(_), _, _, TokenTree::Group(body), ..] = &rule[..] else {
        panic!("macro {name} does not begin with a rule");
    };
    // The body is `$( .. )` with a sign behind it.
    let Some(TokenTree::Group(body)) = body.stream().into_iter().nth(1) else {
        panic!("macro {name} repeats nothing");
    };
    let mut arguments = vec![TokenStream::new()];
    for token in call.mac.tokens.clone() {
        match (&token, arguments.last_mut()) {
            (TokenTree::Punct(comma), _) if comma.as_char() == ',' => {
                arguments.push(TokenStream::new());
            }
            (_, Some(last)) => last.extend([token]),
            _ => {}
        }
    }
    arguments.retain(|argument| !argument.is_empty());
    let made = arguments.iter().flat_map(|argument| fill(body.stream(), argument));
    let made: TokenStream = made.collect();
    let made: syn::File = syn::parse2(made).unwrap_or_else(|error| panic!("{name}: {error}"));
    made.items
}

/// The body with the argument in the places of the parameter.
fn fill(body: TokenStream, argument: &TokenStream) -> TokenStream {
    let mut filled = TokenStream::new();
    let mut tokens = body.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(dollar) if dollar.as_char() == '$' => {
                tokens.next();
                filled.extend(argument.clone());
            }
            TokenTree::Group(group) => {
                let inner = fill(group.stream(), argument);
                filled.extend([TokenTree::Group(Group::new(group.delimiter(), inner))]);
            }
            token => filled.extend([token]),
        }
    }
    filled
}
