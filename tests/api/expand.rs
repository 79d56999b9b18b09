//! Expands macros of the crate that define items. They have one rule, with arguments between
//! commas: either named ones, or any number of one kind.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
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
    let [TokenTree::Group(pattern), _, _, TokenTree::Group(body), ..] = &rule[..] else {
        panic!("macro {name} does not begin with a rule");
    };
    let repeats = repeated(pattern.stream());
    let parameters = names(repeats.clone().unwrap_or_else(|| pattern.stream()));
    let arguments = divided(call.mac.tokens.clone());
    let rounds: Vec<_> = match repeats {
        Some(_) => arguments.iter().map(std::slice::from_ref).collect(),
        None => vec![&arguments[..]],
    };
    let body = repeated(body.stream()).unwrap_or_else(|| body.stream());
    let made = rounds.iter().flat_map(|round| fill(body.clone(), &parameters, round));
    let made: TokenStream = made.collect();
    let made: syn::File = syn::parse2(made).unwrap_or_else(|error| panic!("{name}: {error}"));
    made.items
}

/// What is inside of `$( .. )`, if that is what it begins with.
fn repeated(tokens: TokenStream) -> Option<TokenStream> {
    let mut tokens = tokens.into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Punct(dollar)), Some(TokenTree::Group(inner))) => {
            let repeats = dollar.as_char() == '$' && inner.delimiter() == Delimiter::Parenthesis;
            repeats.then(|| inner.stream())
        }
        _ => None,
    }
}

/// The parameters: `$name:kind`, with commas between.
fn names(pattern: TokenStream) -> Vec<String> {
    let parameters = divided(pattern).into_iter();
    let name = |tokens: TokenStream| tokens.into_iter().nth(1).map(|name| name.to_string());
    parameters.filter_map(name).collect()
}

fn divided(tokens: TokenStream) -> Vec<TokenStream> {
    let mut parts = vec![TokenStream::new()];
    for token in tokens {
        match (&token, parts.last_mut()) {
            (TokenTree::Punct(comma), _) if comma.as_char() == ',' => {
                parts.push(TokenStream::new())
            }
            (_, Some(last)) => last.extend([token]),
            _ => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The body with the arguments in the places of the parameters, and `crate` in that of `$crate`.
fn fill(body: TokenStream, parameters: &[String], arguments: &[TokenStream]) -> TokenStream {
    let mut filled = TokenStream::new();
    let mut tokens = body.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(dollar) if dollar.as_char() == '$' => {
                let Some(name) = tokens.next() else { break };
                let at = parameters.iter().position(|parameter| *parameter == name.to_string());
                match at.and_then(|at| arguments.get(at)) {
                    Some(argument) => filled.extend(argument.clone()),
                    None => filled.extend([name]),
                }
            }
            TokenTree::Group(group) => {
                let inner = fill(group.stream(), parameters, arguments);
                let group = proc_macro2::Group::new(group.delimiter(), inner);
                filled.extend([TokenTree::Group(group)]);
            }
            token => filled.extend([token]),
        }
    }
    filled
}
