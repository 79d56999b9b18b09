//! Tables of names and orders.

mod names;
mod order;
mod ours;

use super::*;

const LOW: &str = "00000000-0000-4000-8000-000000000000";
const HIGH: &str = "ffffffff-ffff-4fff-bfff-ffffffffffff";

fn children<'a>(names: &[&'a str]) -> Vec<Child<'a>> {
    names.iter().map(|name| Child { name, czxid: None }).collect()
}

fn behind(name: &str) -> Standing {
    Standing::Behind(Ahead { nearest: name.into(), next: Next::List })
}

/// Returns the predecessor alone, without the other facts about the nodes ahead.
fn decide(mode: Mode, children: &[Child], own: &str) -> Standing {
    match super::decide(mode, children, own) {
        Standing::Behind(ahead) => behind(&ahead.nearest),
        other => other,
    }
}
