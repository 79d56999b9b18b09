//! Checks that every lock type's documentation has the required sections, in the required order.

use syn::{Attribute, Expr, ExprLit, Item, Lit, Meta, MetaNameValue};

use crate::names::name;
use crate::source::{begin, modules};

const LOCKS: [&str; 8] = [
    "DistributedLock",
    "DistributedReentrantLock",
    "DistributedRwLock",
    "ReadLock",
    "WriteLock",
    "DistributedSemaphore",
    "MultiLock",
    "EphemeralLock",
];

const SECTIONS: [&str; 5] =
    ["Guarantees", "Fairness", "When the session dies", "Errors", "Example"];

#[test]
fn docs_of_every_lock_type_have_the_same_sections() {
    let modules = modules(&crate::root().join("src"));
    for lock in LOCKS {
        let is_it = |item: &&Item| name(item).as_deref() == Some(lock);
        let found = modules.values().flatten().find(is_it);
        let item = found.unwrap_or_else(|| panic!("there is no {lock}"));
        let text: Vec<_> = begin(item).0.iter().filter_map(doc_line).collect();
        // In a code block, a line that begins with `#` is code and not a heading.
        let prose = text.split(|line| line.starts_with(" ```")).step_by(2);
        let headings = prose.flatten().filter_map(|line| line.strip_prefix(" # "));
        let headings: Vec<_> = headings.collect();
        println!("{lock}: {headings:?}");
        assert!(headings.ends_with(&SECTIONS), "{lock} has {headings:?}");
    }
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(MetaNameValue {
            path,
            value: Expr::Lit(ExprLit { lit: Lit::Str(line), .. }),
            ..
        }) if path.is_ident("doc") => Some(line.value()),
        _ => None,
    }
}
