//! Checks that the locks, the client, and the servers for its tests obtain everything that their inputs do not
//! determine through `zookeeper/src/sys.rs`, the abstraction layer over the system. The simulation replaces that file;
//! its seed would not determine the results of any other calls to the system.
//!
//! The check reads names, not types. Therefore, it does not detect a loop over a channel, which waits as well.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::Item;

use crate::names::leaves;
use crate::source::{FOLDERS, sources};

/// A path with the first part may continue only with one of the second. The third is what to use instead.
const PATHS: [(&str, &[&str], &str); 14] = [
    ("Instant::now", &[], "sys::now"),
    ("SystemTime::now", &[], "sys::system_time"),
    ("std::thread", &[], "sys::thread"),
    ("thread_local", &[], "sys::thread, where it is told apart"),
    (
        "std::sync",
        &["Arc", "LazyLock", "OnceLock", "Weak", "atomic", "MutexGuard"],
        "sys::{Mutex, Condvar} or a channel",
    ),
    ("parking_lot", &[], "sys::{Mutex, Condvar}"),
    ("crossbeam_channel", &CHANNELS, "sys::{select, select_biased, at, never}"),
    ("std::net", &["SocketAddr", "IpAddr", "Ipv4Addr", "Ipv6Addr"], "sys::net"),
    ("std::os::unix::net", &[], "sys::net"),
    ("socket2", &[], "sys::net"),
    ("rustix", &[], "sys::net"),
    ("libc", &[], "sys::net"),
    ("RandomState", &[], "sys::random"),
    ("Uuid::new_v4", &[], "sys::new_uuid"),
];

/// Functions that create channels, and the types of channels. None of them waits.
const CHANNELS: [&str; 7] =
    ["bounded", "unbounded", "Sender", "Receiver", "RecvError", "RecvTimeoutError", "TryRecvError"];

/// Methods that are not allowed, and what to use instead.
const METHODS: [(&str, &str); 4] = [
    ("elapsed", "sys::now and a difference"),
    ("recv", "sys::recv"),
    ("recv_timeout", "sys::recv_timeout"),
    ("recv_deadline", "sys::recv_deadline"),
];

/// Files and folders that may call the operating system, and the reason.
const EXEMPT: [(&str, &str); 9] = [
    ("zookeeper/src/sys", "the abstraction of the client over the system"),
    ("src/base/sys.rs", "the abstraction of the locks over the system"),
    ("src/testing.rs", "threads of a program's tests; it is never simulated"),
    ("zookeeper-testing/src/lib.rs", "threads and sockets of the server for a program's tests"),
    ("zookeeper-testing/src/outgoing.rs", "the threads that write for that server"),
    (
        "src/reaper/line.rs",
        "a socket of this machine; the simulation ends sessions by a registration",
    ),
    ("src/reaper/clients.rs", "the processes of this machine; the same"),
    ("src/reaper/listener.rs", "the same"),
    ("src/settings.rs", "files of certificates; no simulation has any"),
];

#[test]
fn only_sys_calls_the_operating_system() {
    let root = &crate::root();
    let mut needless = BTreeMap::from(EXEMPT);
    let (mut modules, mut wrong) = (0, Vec::new());
    for source in FOLDERS.iter().flat_map(|src| sources(&root.join(src))) {
        let file = source.file.strip_prefix(root).expect("it is below the root");
        let found = asked(source.items);
        modules += 1;
        match EXEMPT.iter().find(|(exempt, _)| file.starts_with(exempt)) {
            Some((exempt, _)) if !found.is_empty() => drop(needless.remove(exempt)),
            Some(_) => {}
            None => {
                let place = |(line, what)| format!("{}:{line}: {what}", file.display());
                wrong.extend(found.into_iter().map(place));
            }
        }
    }
    println!("{modules} modules");
    assert!(wrong.is_empty(), "bypasses `sys`, see tests/api/system.rs:\n{}", wrong.join("\n"));
    assert!(needless.is_empty(), "exempt without need: {needless:?}");
}

/// Returns the calls in a module that bypass `sys`, each with its line number.
fn asked(items: Vec<Item>) -> Vec<(usize, String)> {
    let words = said(items);
    let imports = &words.imports;
    let found = words.said.iter().filter_map(|said| {
        let instead = if said.is_method { of_method(&said.path) } else { of_path(said, imports) };
        instead.map(|instead| (said.line, format!("{}: use {instead}", said.path.join("::"))))
    });
    found.collect()
}

/// Returns the paths and the called methods in a module.
pub(crate) fn said(items: Vec<Item>) -> Words {
    let mut words = Words::default();
    for item in items {
        // Submodules are checked separately.
        if !matches!(item, Item::Mod(_)) {
            words.read(item.to_token_stream());
        }
    }
    words
}

fn of_method(path: &[String]) -> Option<&'static str> {
    let name = path.last()?;
    METHODS.iter().find(|(method, _)| method == name).map(|(_, instead)| *instead)
}

fn of_path(said: &Said, imports: &BTreeMap<String, Vec<String>>) -> Option<&'static str> {
    let path = match imports.get(&said.path[0]) {
        Some(import) if said.path.len() > 1 => [import, &said.path[1..]].concat(),
        _ => said.path.clone(),
    };
    let by_path = PATHS.iter().find(|(asks, allowed, _)| {
        let asks: Vec<_> = asks.split("::").collect();
        let at = path.windows(asks.len()).position(|part| part == asks);
        at.is_some_and(|at| match path.get(at + asks.len()) {
            Some(next) => !allowed.contains(&next.as_str()),
            // An import of a module that also contains allowed items is checked where the module is used.
            None => allowed.is_empty(),
        })
    });
    if let Some((.., instead)) = by_path {
        return Some(instead);
    }
    // A method that is called by the name of its type.
    let owner = path.iter().nth_back(1)?;
    owner.starts_with(char::is_uppercase).then(|| of_method(&path)).flatten()
}

/// A path, or the name of a method that is called.
pub(crate) struct Said {
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
    is_method: bool,
}

/// The paths and methods in a token stream. Tokens are the same inside and outside of macros.
#[derive(Default)]
pub(crate) struct Words {
    pub(crate) said: Vec<Said>,
    /// The names that a `use` imports, each with the path to which the name refers.
    imports: BTreeMap<String, Vec<String>>,
}

impl Words {
    fn read(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut rest = &tokens[..];
        let mut after_dot = false;
        while let Some((first, behind)) = rest.split_first() {
            rest = behind;
            match first {
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Ident(word) => {
                    let line = word.span().start().line;
                    let end = rest.iter().position(|token| is_sign(token, ';'));
                    if word == "use"
                        && let tree = rest[..end.unwrap_or(0)].iter().cloned().collect()
                        && let Ok(tree) = syn::parse2(tree)
                    {
                        rest = &rest[end.unwrap_or(0)..];
                        for (name, path) in leaves(&tree) {
                            self.imports.insert(name, path.clone());
                            self.said.push(Said { path, line, is_method: false });
                        }
                        continue;
                    }
                    let mut path = vec![word.to_string()];
                    while let [one, two, TokenTree::Ident(next), behind @ ..] = rest
                        && is_sign(one, ':')
                        && is_sign(two, ':')
                    {
                        path.push(next.to_string());
                        rest = behind;
                    }
                    let is_method = after_dot && matches!(rest, [TokenTree::Group(_), ..]);
                    self.said.push(Said { path, line, is_method });
                }
                _ => {}
            }
            after_dot = is_sign(first, '.');
        }
    }
}

fn is_sign(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == sign)
}
