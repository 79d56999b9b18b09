//! The order of nodes: which node is behind which.

use super::*;

fn with_czxids<'a>(nodes: &[(&'a str, Option<i64>)]) -> Vec<Child<'a>> {
    nodes.iter().map(|&(name, czxid)| Child { name, czxid }).collect()
}

fn needs(names: &[&str]) -> Standing {
    Standing::NeedsCzxid(names.iter().map(|&name| name.into()).collect())
}

#[test]
fn exclusive_node_waits_for_the_nearest_lower_one() {
    let names =
        ["lock-0000000007", "lock-0000000003", "hello", "lock-0000000005", "lock-0000000001"];
    for (own, expected) in [
        ("lock-0000000001", Standing::Granted),
        ("lock-0000000003", behind("lock-0000000001")),
        ("lock-0000000005", behind("lock-0000000003")),
        ("lock-0000000007", behind("lock-0000000005")),
        ("lock-0000000006", Standing::Gone),
        ("hello", Standing::Gone),
    ] {
        assert_eq!(decide(Mode::Exclusive, &children(&names), own), expected, "{own}");
    }
    assert_eq!(decide(Mode::Exclusive, &[], "lock-0000000001"), Standing::Gone);
}

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
        // A writer may take a read at the same position, for which another read does not wait.
        (&[two, four], four, two, Next::List),
        (&[two, five], five, two, Next::Grant),
        (&[two, under, five], five, two, Next::Grant),
        (&[two, under, four], four, under, second(two)),
        (&[two, one, four], four, two, Next::List),
        // Nodes that do not count are not before it.
        (&[three, two, five, "hello"], five, two, Next::Grant),
        (&[one, two, three, four], two, one, Next::Grant),
        (&[four, one, three, two], four, three, second(two)),
        (&[five, four, three, two, one], four, three, second(two)),
        // Reads hold together, and wait together.
        (&[three, "__READ__0000000001", four], four, three, Next::List),
        (&[one, two, three, four], three, two, Next::List),
        // Numbers that do not tell the position.
        (&[one, last], last, one, Next::List),
        (&[two, one, last], last, two, Next::List),
    ] {
        let seen = super::super::decide(mode_of(own).unwrap(), &children(names), own);
        let nearest = nearest.to_owned();
        assert_eq!(seen, Standing::Behind(Ahead { nearest, next }), "{own} in {names:?}");
    }
}

#[test]
fn order_is_by_sequence_and_never_by_whole_name() {
    let names = [
        format!("_c_{HIGH}-lock-0000000001"),
        format!("_c_{LOW}-lock-0000000002"),
        "zzz-lock-0000000000".to_owned(),
        "00000000000000000000000000000000__lock__0000000003".to_owned(),
    ];
    let nodes = children(&names.each_ref().map(String::as_str));
    for (own, expected) in [
        (2, Standing::Granted),
        (0, behind(&names[2])),
        (1, behind(&names[0])),
        (3, behind(&names[1])),
    ] {
        assert_eq!(decide(Mode::Exclusive, &nodes, &names[own]), expected, "{}", names[own]);
    }
}

#[test]
fn readers_wait_for_the_nearest_lower_write_and_writers_for_all() {
    let nodes = children(&[
        "__WRIT__0000000001",
        "__READ__0000000002",
        "__WRIT__0000000003",
        "__READ__0000000004",
        "x__rlock__0000000005",
        "__READ__0000000006",
        "x__lock__0000000007",
        "__READ__0000000008",
        "lock-0000000009",
        "__READ__0000000010",
        "__WRIT__0000000011",
    ]);
    for (own, expected) in [
        ("__WRIT__0000000001", Standing::Granted),
        ("__READ__0000000002", behind("__WRIT__0000000001")),
        ("__WRIT__0000000003", behind("__READ__0000000002")),
        ("__READ__0000000004", behind("__WRIT__0000000003")),
        ("__READ__0000000006", behind("__WRIT__0000000003")),
        ("__READ__0000000008", behind("x__lock__0000000007")),
        ("lock-0000000009", behind("__READ__0000000008")),
        ("__READ__0000000010", behind("lock-0000000009")),
        ("__WRIT__0000000011", behind("__READ__0000000010")),
    ] {
        let mode = mode_of(own).unwrap();
        assert_eq!(decide(mode, &nodes, own), expected, "{own}");
    }
}

#[test]
fn negative_sequences_are_not_ordered_by_number() {
    let nodes = with_czxids(&[
        ("lock--000000001", Some(2)),
        ("lock--2147483648", Some(1)),
        ("lock--000000002", Some(3)),
    ]);
    for (own, expected) in [
        ("lock--2147483648", Standing::Granted),
        ("lock--000000001", behind("lock--2147483648")),
        ("lock--000000002", behind("lock--000000001")),
    ] {
        assert_eq!(decide(Mode::Exclusive, &nodes, own), expected, "{own}");
    }
}

#[test]
fn order_asks_only_for_the_czxids_it_needs() {
    let (a, b, read, normal) =
        ("a-lock-2147483647", "b-lock--2147483648", "__READ__2147483647", "lock-0000000001");
    for (mode, nodes, own, expected) in [
        (Mode::Exclusive, &[(a, None), (b, None), (normal, None)][..], a, needs(&[a, b])),
        (Mode::Exclusive, &[(a, Some(1)), (b, None)], a, needs(&[b])),
        (Mode::Exclusive, &[(a, None), (b, Some(1))], a, needs(&[a])),
        (Mode::Exclusive, &[(a, None)], a, Standing::Granted),
        (Mode::Exclusive, &[(a, None), (normal, None)], a, behind(normal)),
        (Mode::Exclusive, &[(a, None), (b, None), (normal, None)], normal, Standing::Granted),
        (Mode::Read, &[(read, None), ("x__rlock__-2147483648", None)], read, Standing::Granted),
        (Mode::Read, &[(read, None), (a, Some(1))], read, needs(&[read])),
        (Mode::Exclusive, &[(b, None)], a, Standing::Gone),
    ] {
        assert_eq!(decide(mode, &with_czxids(nodes), own), expected, "{mode:?} {own} in {nodes:?}");
    }
}

#[test]
fn newcomer_without_rivals_is_granted_at_once() {
    for (names, exclusive, read) in [
        (&[][..], true, true),
        (&["hello", "lock-9999999999", "0000000001", "x-lease-0000000001"], true, true),
        (&["__READ__0000000001", "x__rlock__-000000001"], false, true),
        (&["lock-0000000001"], false, false),
        (&["x__lock__2147483647"], false, false),
        (&["__READ__0000000001", "__WRIT__0000000002"], false, false),
    ] {
        let nodes = names.iter().collect();
        let seen = [Mode::Exclusive, Mode::Write, Mode::Read].map(|mode| vacant(mode, &nodes));
        assert_eq!(seen, [exclusive, exclusive, read], "{names:?}");
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

#[test]
fn predecessors_of_all_modes_are_listed_in_sequence_order() {
    let names = [
        "lock-0000000007",
        "a-__READ__0000000003",
        "hello",
        "b-__WRIT__0000000005",
        "lock-0000000009",
        "c-lock-2147483647",
        "d-lock--000000005",
    ];
    let all =
        ["a-__READ__0000000003", "b-__WRIT__0000000005", "lock-0000000007", "lock-0000000009"];
    for (own, expected) in [
        ("a-__READ__0000000003", &all[..0]),
        ("lock-0000000009", &all[..3]),
        // The numbers do not tell the order of these two.
        ("c-lock-2147483647", &all),
        ("d-lock--000000005", &all),
        ("hello", &[]),
    ] {
        assert_eq!(ahead(&names.iter().collect(), own), expected, "{own}");
    }
}
