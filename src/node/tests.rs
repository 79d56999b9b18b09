//! Tables of names and orders.

use super::*;

const LOW: &str = "00000000-0000-4000-8000-000000000000";
const HIGH: &str = "ffffffff-ffff-4fff-bfff-ffffffffffff";

fn children(names: &[&str]) -> Vec<Child> {
    names
        .iter()
        .map(|name| Child {
            name: (*name).into(),
            czxid: None,
        })
        .collect()
}

fn with_czxids(nodes: &[(&str, Option<i64>)]) -> Vec<Child> {
    nodes
        .iter()
        .map(|&(name, czxid)| Child {
            name: name.into(),
            czxid,
        })
        .collect()
}

fn behind(name: &str) -> Standing {
    Standing::Behind(name.into())
}

fn needs(names: &[&str]) -> Standing {
    Standing::NeedsCzxid(names.iter().map(|&name| name.into()).collect())
}

#[test]
fn reads_the_names_of_all_clients() {
    use Kind::{Exclusive, Read, Write};
    for (name, expected) in [
        // Curator and ours; go-zookeeper; .NET; the recipe text; kazoo
        (
            "_c_00000000-0000-4000-8000-000000000000-lock-0000000007",
            Some((Exclusive, 7)),
        ),
        (
            "_c_00000000-0000-4000-8000-000000000000-__READ__0000000007",
            Some((Read, 7)),
        ),
        (
            "_c_00000000-0000-4000-8000-000000000000-__WRIT__0000000007",
            Some((Write, 7)),
        ),
        (
            "_c_d3b07384d113edec49eaa6238ad5ff00-lock-0000000008",
            Some((Exclusive, 8)),
        ),
        ("lock-0000000009", Some((Exclusive, 9))),
        ("x-72057594037927936-lock-0000000010", Some((Exclusive, 10))),
        (
            "d3b07384d113edec49eaa6238ad5ff00__lock__0000000011",
            Some((Exclusive, 11)),
        ),
        (
            "d3b07384d113edec49eaa6238ad5ff00__rlock__0000000012",
            Some((Read, 12)),
        ),
        ("__READ__0000000013", Some((Read, 13))),
        ("__WRIT__0000000014", Some((Write, 14))),
        ("\u{e9}\u{1f512}-lock-0000000015", Some((Exclusive, 15))),
        // the dash belongs to the marker, a second one to the number
        ("lock-0000000001", Some((Exclusive, 1))),
        ("lock--000000001", Some((Exclusive, -1))),
        ("lock--999999999", Some((Exclusive, -999_999_999))),
        ("lock--1000000000", Some((Exclusive, -1_000_000_000))),
        ("lock--2147483648", Some((Exclusive, i32::MIN))),
        ("__WRIT__-000000005", Some((Write, -5))),
        ("__rlock__-2147483647", Some((Read, -i32::MAX))),
        ("lock-2147483646", Some((Exclusive, i32::MAX - 1))),
        ("lock-2147483647", Some((Exclusive, i32::MAX))),
        // no server prints these
        ("lock-2147483648", None),
        ("lock-9999999999", None),
        ("lock--2147483649", None),
        ("lock--9999999999", None),
        ("lock--0000000001", None),
        ("lock--000000000", None),
        ("lock--0000000000", None),
        ("lock---000000001", None),
        ("lock-000000001", None),
        ("lock-00000000001", None),
        ("lock-+000000001", None),
        ("lock- 000000001", None),
        ("lock-00000-0001", None),
        ("__WRIT__000000001", None),
        ("__WRIT__00000000001", None),
        // no contenders
        ("", None),
        ("-", None),
        ("hello", None),
        ("lock-", None),
        ("0000000001", None),
        ("-000000001", None),
        ("-0000000001", None),
        ("lock0000000001", None),
        ("lock_0000000001", None),
        ("LOCK-0000000001", None),
        ("lock-0000000001-", None),
        ("lock-0000000001 ", None),
        ("lock-0000000001x", None),
        ("_lock__0000000001", None),
        ("__read__0000000001", None),
        (
            "_c_00000000-0000-4000-8000-000000000000-lease-0000000001",
            None,
        ),
        ("n_0000000001", None),
        ("\u{e9}000000000", None),
        ("lock-\u{e9}00000000", None),
        ("lock-\u{661}\u{661}\u{661}\u{661}\u{661}", None),
        ("\u{1f512}\u{1f512}\u{1f512}\u{1f512}", None),
    ] {
        assert_eq!(contender(name), expected, "{name:?}");
        assert_eq!(kind_of(name).zip(sequence(name)), expected, "{name:?}");
    }
}

#[test]
fn every_sequence_that_a_server_prints_is_read_back() {
    let edges = [
        i32::MIN,
        i32::MIN + 1,
        -1_000_000_001,
        -1_000_000_000,
        -999_999_999,
        -1,
        0,
        1,
        i32::MAX,
    ];
    for sequence in edges
        .into_iter()
        .chain((i32::MIN..=i32::MAX).step_by(9_999_991))
    {
        for (marker, kind) in MARKERS {
            let name = format!("x-{marker}{sequence:010}");
            assert_eq!(contender(&name), Some((kind, sequence)), "{name}");
        }
    }
}

#[test]
fn an_exclusive_seat_waits_for_the_nearest_lower_one() {
    let names = [
        "lock-0000000007",
        "lock-0000000003",
        "hello",
        "lock-0000000005",
        "lock-0000000001",
    ];
    for (seat, expected) in [
        ("lock-0000000001", Standing::Granted),
        ("lock-0000000003", behind("lock-0000000001")),
        ("lock-0000000005", behind("lock-0000000003")),
        ("lock-0000000007", behind("lock-0000000005")),
        ("lock-0000000006", Standing::Gone),
        ("hello", Standing::Gone),
    ] {
        assert_eq!(
            decide(Kind::Exclusive, &children(&names), seat),
            expected,
            "{seat}"
        );
    }
    assert_eq!(
        decide(Kind::Exclusive, &[], "lock-0000000001"),
        Standing::Gone
    );
}

#[test]
fn order_is_by_sequence_never_by_whole_name() {
    let names = [
        format!("_c_{HIGH}-lock-0000000001"),
        format!("_c_{LOW}-lock-0000000002"),
        "zzz-lock-0000000000".to_owned(),
        "00000000000000000000000000000000__lock__0000000003".to_owned(),
    ];
    let nodes = children(&names.each_ref().map(String::as_str));
    for (seat, expected) in [
        (2, Standing::Granted),
        (0, behind(&names[2])),
        (1, behind(&names[0])),
        (3, behind(&names[1])),
    ] {
        assert_eq!(
            decide(Kind::Exclusive, &nodes, &names[seat]),
            expected,
            "{}",
            names[seat]
        );
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
    for (seat, expected) in [
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
        let kind = kind_of(seat).unwrap();
        assert_eq!(decide(kind, &nodes, seat), expected, "{seat}");
    }
}

#[test]
fn readers_ignore_readers_and_higher_writers() {
    let nodes = children(&[
        "__READ__0000000001",
        "x__rlock__0000000002",
        "__READ__0000000003",
        "__WRIT__0000000004",
    ]);
    for seat in ["__READ__0000000001", "__READ__0000000003"] {
        assert_eq!(
            decide(Kind::Read, &nodes, seat),
            Standing::Granted,
            "{seat}"
        );
    }
}

#[test]
fn equal_sequences_do_not_block_each_other_and_are_watched_in_a_fixed_order() {
    let names = [
        "b-lock-0000000005",
        "a-lock-0000000005",
        "c-lock-0000000005",
        "lock-0000000006",
        "__READ__0000000005",
    ];
    let mut reversed = names;
    reversed.reverse();
    for names in [names, reversed] {
        let nodes = children(&names);
        for seat in ["a-lock-0000000005", "b-lock-0000000005"] {
            assert_eq!(
                decide(Kind::Exclusive, &nodes, seat),
                Standing::Granted,
                "{seat}"
            );
        }
        assert_eq!(
            decide(Kind::Exclusive, &nodes, "lock-0000000006"),
            behind("__READ__0000000005"),
            "{names:?}"
        );
        assert_eq!(
            decide(Kind::Read, &nodes, "__READ__0000000005"),
            Standing::Granted,
            "{names:?}"
        );
    }
}

#[test]
fn abnormal_sequences_come_last_and_in_the_order_of_their_czxids() {
    let (stuck, other, wrapped) = ("a-lock-2147483647", "b-lock-2147483647", "lock--2147483648");
    let nodes = with_czxids(&[
        (wrapped, Some(30)),
        (stuck, Some(20)),
        (other, Some(10)),
        ("lock-2147483646", None),
    ]);
    for (seat, expected) in [
        ("lock-2147483646", Standing::Granted),
        (other, behind("lock-2147483646")),
        (stuck, behind(other)),
        (wrapped, behind(stuck)),
    ] {
        assert_eq!(decide(Kind::Exclusive, &nodes, seat), expected, "{seat}");
    }
    assert_eq!(
        decide(Kind::Exclusive, &nodes[..3], other),
        Standing::Granted
    );
}

#[test]
fn negative_sequences_are_not_ordered_by_number() {
    let nodes = with_czxids(&[
        ("lock--000000001", Some(2)),
        ("lock--2147483648", Some(1)),
        ("lock--000000002", Some(3)),
    ]);
    for (seat, expected) in [
        ("lock--2147483648", Standing::Granted),
        ("lock--000000001", behind("lock--2147483648")),
        ("lock--000000002", behind("lock--000000001")),
    ] {
        assert_eq!(decide(Kind::Exclusive, &nodes, seat), expected, "{seat}");
    }
}

#[test]
fn asks_for_exactly_the_czxids_that_the_order_hangs_on() {
    let (a, b, read, normal) = (
        "a-lock-2147483647",
        "b-lock--000000001",
        "__READ__2147483647",
        "lock-0000000001",
    );
    for (kind, nodes, seat, expected) in [
        (
            Kind::Exclusive,
            &[(a, None), (b, None), (normal, None)][..],
            a,
            needs(&[a, b]),
        ),
        (Kind::Exclusive, &[(a, Some(1)), (b, None)], a, needs(&[b])),
        (Kind::Exclusive, &[(a, None), (b, Some(1))], a, needs(&[a])),
        (Kind::Exclusive, &[(a, None)], a, Standing::Granted),
        (
            Kind::Exclusive,
            &[(a, None), (normal, None)],
            a,
            behind(normal),
        ),
        (
            Kind::Exclusive,
            &[(a, None), (b, None), (normal, None)],
            normal,
            Standing::Granted,
        ),
        (
            Kind::Read,
            &[(read, None), ("x__rlock__-000000001", None)],
            read,
            Standing::Granted,
        ),
        (
            Kind::Read,
            &[(read, None), (a, Some(1))],
            read,
            needs(&[read]),
        ),
        (Kind::Exclusive, &[(b, None)], a, Standing::Gone),
    ] {
        assert_eq!(
            decide(kind, &with_czxids(nodes), seat),
            expected,
            "{kind:?} {seat} in {nodes:?}"
        );
    }
}

#[test]
fn a_newcomer_is_granted_at_once_where_nothing_counts_against_it() {
    for (names, exclusive, read) in [
        (&[][..], true, true),
        (
            &[
                "hello",
                "lock-9999999999",
                "0000000001",
                "x-lease-0000000001",
            ],
            true,
            true,
        ),
        (&["__READ__0000000001", "x__rlock__-000000001"], false, true),
        (&["lock-0000000001"], false, false),
        (&["x__lock__2147483647"], false, false),
        (&["__READ__0000000001", "__WRIT__0000000002"], false, false),
    ] {
        let nodes = children(names);
        let seen = [Kind::Exclusive, Kind::Write, Kind::Read].map(|kind| vacant(kind, &nodes));
        assert_eq!(seen, [exclusive, exclusive, read], "{names:?}");
    }
}

#[test]
fn ten_thousand_children_take_one_pass() {
    let names: Vec<String> = (0..10_000)
        .rev()
        .map(|n| format!("_c_{HIGH}-lock-{n:010}"))
        .collect();
    let nodes = children(&names.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        decide(Kind::Exclusive, &nodes, &names[0]),
        behind(&names[1])
    );
    assert_eq!(
        decide(Kind::Exclusive, &nodes, &names[9_999]),
        Standing::Granted
    );
}

#[test]
fn names_carry_their_uuid_in_one_place() {
    let made = new_name_prefix(LOW, Kind::Read) + "0000000001";
    assert_eq!(
        made,
        "_c_00000000-0000-4000-8000-000000000000-__READ__0000000001"
    );
    for (name, id, expected) in [
        (made.as_str(), LOW, true),
        (&made, HIGH, false),
        (&made, "", false),
        (&made, &LOW[..35], false),
        (&made[1..], LOW, false),
        ("_c_", LOW, false),
        (
            "x_c_00000000-0000-4000-8000-000000000000-lock-0000000001",
            LOW,
            false,
        ),
        ("_c_00000000-0000-4000-8000-000000000000", LOW, false),
        (
            "_c_FFFFFFFF-FFFF-4FFF-BFFF-FFFFFFFFFFFF-lock-0000000001",
            HIGH,
            false,
        ),
    ] {
        assert_eq!(carries(name, id), expected, "{id:?} in {name:?}");
    }
}

/// Every arrangement of `items`.
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

/// Follows the links of one contender to somebody who is granted, within as many steps as there
/// are contenders.
fn reaches_a_granted_one(nodes: &[Child], start: &str) -> bool {
    let mut at = start.to_owned();
    for _ in 0..nodes.len() {
        let kind = kind_of(&at).unwrap();
        match decide(kind, nodes, &at) {
            Standing::Granted => return true,
            Standing::Behind(next) => at = next,
            other => panic!("{at} is {other:?} in {nodes:?}"),
        }
    }
    false
}

#[test]
fn one_writer_or_readers_alone_hold_and_every_waiter_is_led_to_them() {
    let sequences = [
        "0000000000",
        "0000000009",
        "2147483646",
        "2147483647",
        "2147483647",
        "-2147483648",
    ];
    let kinds = ["lock-", "__READ__", "__WRIT__"];
    for (round, order) in permutations(&sequences).into_iter().enumerate() {
        // every mix of markers; czxids and letters run against the order of the list
        let mut nodes: Vec<Child> = Vec::new();
        for (position, digits) in order.iter().enumerate() {
            let marker = kinds[(round / 3_usize.pow(position as u32 % 4) + position) % 3];
            let czxid = 100 - position as i64;
            let letter = char::from(b'f' - position as u8);
            nodes.push(Child {
                name: format!("{letter}-{marker}{digits}"),
                czxid: Some(czxid),
            });
        }
        nodes.push(Child {
            name: "hello".into(),
            czxid: None,
        });
        let names: Vec<&str> = nodes
            .iter()
            .map(|node| node.name.as_str())
            .filter(|name| kind_of(name).is_some())
            .collect();
        let holders: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| decide(kind_of(name).unwrap(), &nodes, name) == Standing::Granted)
            .collect();
        let readers = holders
            .iter()
            .filter(|name| kind_of(name) == Some(Kind::Read))
            .count();
        let exclusive = holders.len() - readers;
        assert!(
            (exclusive == 1 && readers == 0) || (exclusive == 0 && readers > 0),
            "{holders:?} hold in {nodes:?}"
        );
        for name in names {
            assert!(
                reaches_a_granted_one(&nodes, name),
                "{name} is led astray in {nodes:?}"
            );
        }
    }
}

#[test]
fn a_place_moves_under_a_new_id_with_the_same_sequence() {
    for (name, moved) in [
        (
            format!("_c_{LOW}-lock-0000000007"),
            Some(format!("_c_{HIGH}-lock-0000000007")),
        ),
        (
            format!("_c_{LOW}-__READ__2147483646"),
            Some(format!("_c_{HIGH}-__READ__2147483646")),
        ),
        // The sequence alone does not tell these places.
        (format!("_c_{LOW}-lock-2147483647"), None),
        (format!("_c_{LOW}-lock--2147483648"), None),
        (format!("_c_{LOW}-lock--000000001"), None),
        // Not ours.
        ("lock-0000000007".to_owned(), None),
        (format!("{LOW}-lock-0000000007"), None),
        (String::new(), None),
    ] {
        assert_eq!(moved_name(Kind::Exclusive, &name, HIGH), moved, "{name}");
    }
}

#[test]
fn every_kind_but_a_single_node_moves_and_a_permit_wherever_it_is() {
    use Kind::{Exclusive, Permit, Read, Single, Write};
    for (kind, normal, abnormal) in [
        (Exclusive, true, false),
        (Read, true, false),
        (Write, true, false),
        // They are counted, and have no order.
        (Permit, true, true),
        (Single, false, false),
    ] {
        let moved = |digits: &str| {
            let name = |id| new_name_prefix(id, kind) + digits;
            let moved = moved_name(kind, &name(LOW), HIGH);
            assert!(
                moved.is_none() || moved == Some(name(HIGH)),
                "{kind:?} {digits}: {moved:?}"
            );
            moved.is_some()
        };
        for digits in ["0000000000", "0000000007", "2147483646"] {
            assert_eq!(moved(digits), normal, "{kind:?} {digits}");
        }
        for digits in ["2147483647", "-2147483648", "-000000001"] {
            assert_eq!(moved(digits), abnormal, "{kind:?} {digits}");
        }
    }
    // Not ours, or without an id to change.
    for name in ["", "lock", "lease-0000000001", "_c_", &LOW[..36]] {
        assert_eq!(moved_name(Permit, name, HIGH), None, "{name:?}");
        assert_eq!(moved_name(Single, name, HIGH), None, "{name:?}");
    }
}

#[test]
fn a_read_under_a_write_has_its_sequence_or_none() {
    for (digits, has_one) in [
        ("0000000000", true),
        ("0000000007", true),
        ("2147483646", true),
        // The sequence alone does not tell the place.
        ("2147483647", false),
        ("-2147483648", false),
        ("-000000001", false),
        // No server's.
        ("", false),
        ("9999999999", false),
        ("000000007", false),
    ] {
        let write = new_name_prefix(LOW, Kind::Write) + digits;
        let read = new_name_prefix(HIGH, Kind::Read) + digits;
        assert_eq!(read_under(&write, HIGH), has_one.then_some(read), "{write}");
    }
    assert_eq!(read_under("hello", HIGH), None);
}

#[test]
fn a_read_under_a_write_is_granted_beside_it_and_keeps_its_place_after_it() {
    let write = new_name_prefix(LOW, Kind::Write) + "0000000003";
    let read = read_under(&write, HIGH).unwrap();
    let (before, reader, writer) = (
        "x-__READ__0000000002",
        "x-__READ__0000000004",
        "x-__WRIT__0000000005",
    );
    let at = |nodes: &[&str], seat: &str| {
        let nodes = children(nodes);
        decide(kind_of(seat).unwrap(), &nodes, seat)
    };
    let both = [reader, writer, &read, &write];
    assert_eq!(at(&both, &write), Standing::Granted);
    assert_eq!(at(&both, &read), Standing::Granted);
    assert_eq!(at(&both, reader), behind(&write));
    assert_eq!(at(&both, writer), behind(reader));
    // The order among equals does not matter, but it is always the same.
    assert_eq!(at(&[writer, &read, &write], writer), behind(&write));
    assert_eq!(at(&[writer, &write, &read], writer), behind(&write));
    let after = [reader, writer, &read];
    assert_eq!(at(&after, &read), Standing::Granted);
    assert_eq!(at(&after, reader), Standing::Granted);
    assert_eq!(at(&after, writer), behind(reader));
    assert_eq!(at(&[writer, &read], writer), behind(&read));
    // While it moves there are two in its place.
    let moved = moved_name(Kind::Read, &read, LOW).unwrap();
    assert_eq!(at(&[writer, &read, &moved], &read), Standing::Granted);
    assert_eq!(at(&[writer, &read, &moved], &moved), Standing::Granted);
    assert_eq!(at(&[writer, &moved], writer), behind(&moved));
    // An older reader is no rival of it, only of the write that was never granted then.
    assert_eq!(at(&[before, &read], &read), Standing::Granted);
    assert_eq!(at(&[before, &write], &write), behind(before));
}
