//! The order of nodes: which node waits for which.

use super::*;

#[test]
fn end_of_the_only_predecessor_grants_unless_it_may_downgrade() {
    let [one, two, three] = ["lock-0000000001", "__WRIT__0000000002", "__READ__0000000003"];
    let [four, five] = ["x__lock__0000000004", "__READ__0000000005"];
    let (under, last) = ("__READ__0000000002", "lock-2147483647");
    let second = |name: &str| Next::Second(name.to_owned());
    for (names, own, nearest, next) in [
        (&[one, four][..], four, one, Next::Grant),
        (&[one, five], five, one, Next::Grant),
        (&[three, four], four, three, Next::Grant),
        // A writer may acquire a read at the same position. Another read does not wait for that
        // read.
        (&[two, four], four, two, Next::List),
        (&[two, five], five, two, Next::Grant),
        (&[two, under, five], five, two, Next::Grant),
        (&[two, under, four], four, under, second(two)),
        (&[two, one, four], four, two, Next::List),
        // Nodes that do not contend are not ahead.
        (&[three, two, five, "hello"], five, two, Next::Grant),
        (&[one, two, three, four], two, one, Next::Grant),
        (&[four, one, three, two], four, three, second(two)),
        (&[five, four, three, two, one], four, three, second(two)),
        // Several reads can hold the lock together, and wait together.
        (&[three, "__READ__0000000001", four], four, three, Next::List),
        (&[one, two, three, four], three, two, Next::List),
        // Sequence numbers that do not determine the position.
        (&[one, last], last, one, Next::List),
        (&[two, one, last], last, two, Next::List),
    ] {
        let seen = super::super::decide(kind_of(own).unwrap(), &children(names), own);
        let nearest = nearest.to_owned();
        assert_eq!(seen, Standing::Behind(Ahead { nearest, next }), "{own} in {names:?}");
    }
}

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

/// Follows the predecessors of a contender until it reaches a granted one, in at most as many steps
/// as there are contenders.
fn reaches_a_granted_one(nodes: &[Child<'_>], start: &str) -> bool {
    let mut at = start.to_owned();
    for _ in 0..nodes.len() {
        let mode = kind_of(&at).unwrap();
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
        // Every mix of markers. Czxids and letters are in the opposite order to the list.
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
            .filter(|name| decide(kind_of(name).unwrap(), &nodes, name) == Standing::Granted)
            .collect();
        let readers = holders.iter().filter(|name| kind_of(name) == Some(LockKind::Read)).count();
        let exclusive = holders.len() - readers;
        assert!(
            (exclusive == 1 && readers == 0) || (exclusive == 0 && readers > 0),
            "{holders:?} hold in {nodes:?}"
        );
        // Numbers that a server assigns once come before the others.
        let is_first = |name: &&str| name.ends_with("0000000000");
        assert!(holders.iter().any(is_first), "{holders:?} hold in {nodes:?}");
        for name in names {
            assert!(reaches_a_granted_one(&nodes, name), "{name} is led astray in {nodes:?}");
        }
    }
}
