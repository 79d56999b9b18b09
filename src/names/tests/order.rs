//! The order of nodes: which node is behind which.

use super::*;

/// Returns every permutation of `items`.
fn permutations<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    let Some((first, rest)) = items.split_first() else {
        return vec![Vec::new()];
    };
    let insert = |shorter: Vec<T>| {
        (0..=shorter.len())
            .map(move |at| [&shorter[..at], std::slice::from_ref(first), &shorter[at..]].concat())
    };
    permutations(rest).into_iter().flat_map(insert).collect()
}

/// Follows the predecessors of a contender to a granted one, within as many steps as there are
/// contenders.
fn reaches_a_granted_one(nodes: &[Child<'_>], start: &str) -> bool {
    let mut at = start.to_owned();
    for _ in 0..nodes.len() {
        let mode = mode_of(&at).unwrap();
        match decide(mode, nodes, &at) {
            Standing::Granted => return true,
            Standing::Behind(next) => at = next.nearest,
            other => panic!("{at} is {other:?} in {nodes:?}"),
        }
    }
    false
}

#[test]
fn one_writer_or_only_readers_hold_and_every_waiter_finds_them() {
    let sequences =
        ["0000000000", "0000000009", "2147483646", "2147483647", "2147483647", "-2147483648"];
    let markers = ["lock-", "__READ__", "__WRIT__"];
    for (round, order) in permutations(&sequences).into_iter().enumerate() {
        // every mix of markers; czxids and letters run against the order of the list
        let mut given: Vec<(String, i64)> = Vec::new();
        for (position, digits) in order.iter().enumerate() {
            let marker = markers[(round / 3_usize.pow(position as u32 % 4) + position) % 3];
            let czxid = 100 - position as i64;
            let letter = char::from(b'f' - position as u8);
            given.push((format!("{letter}-{marker}{digits}"), czxid));
        }
        let names: Vec<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
        let mut nodes: Vec<_> =
            given.iter().map(|(name, czxid)| Child { name, czxid: Some(*czxid) }).collect();
        nodes.push(Child { name: "hello", czxid: None });
        let holders: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| decide(mode_of(name).unwrap(), &nodes, name) == Standing::Granted)
            .collect();
        let readers = holders.iter().filter(|name| mode_of(name) == Some(Mode::Read)).count();
        let exclusive = holders.len() - readers;
        assert!(
            (exclusive == 1 && readers == 0) || (exclusive == 0 && readers > 0),
            "{holders:?} hold in {nodes:?}"
        );
        for name in names {
            assert!(reaches_a_granted_one(&nodes, name), "{name} is led astray in {nodes:?}");
        }
    }
}
