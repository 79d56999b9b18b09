//! Tables of names and orders.

mod names;
mod order;
mod ours;

use super::*;

const LOW: &str = "00000000-0000-4000-8000-000000000000";

fn children<'a>(names: &[&'a str]) -> Vec<Child<'a>> {
    names.iter().map(|name| Child { name, czxid: None }).collect()
}

fn behind(name: &str) -> Standing {
    Standing::Behind(Ahead { nearest: name.into(), next: Next::List })
}

#[test]
fn latches_and_other_contenders_do_not_see_each_other() {
    let [latch, next] = ["latch-0000000001", "x-latch-0000000003"];
    assert_eq!(decide(LockKind::Latch, &children(&[next, latch, "notes"]), next), behind(latch));
    assert_eq!(decide(LockKind::Latch, &children(&[next, latch]), latch), Standing::Granted);
    for (mode, own, other) in [
        (LockKind::Latch, latch, "lock-0000000002"),
        (LockKind::Latch, latch, "__READ__0000000000"),
        (LockKind::Exclusive, "lock-0000000000", latch),
        (LockKind::Read, "__READ__0000000000", latch),
    ] {
        let standing = decide(mode, &children(&[own, other]), own);
        assert_eq!(standing, Standing::Apart(other.to_owned()));
    }
}

/// Returns only the predecessor, without the other facts about the nodes ahead.
fn decide(kind: LockKind, children: &[Child], own: &str) -> Standing {
    match super::decide(kind, children, own) {
        Standing::Behind(ahead) => behind(&ahead.nearest),
        other => other,
    }
}
