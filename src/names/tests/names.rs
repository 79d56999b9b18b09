//! Tables of names: which contend, and as what.

use super::*;

#[test]
fn names_of_all_clients_are_parsed() {
    use Mode::{Exclusive, Read, Write};
    for (name, expected) in [
        // Curator and ours; go-zookeeper; .NET; the recipe text; kazoo
        ("_c_00000000-0000-4000-8000-000000000000-lock-0000000007", Some((Exclusive, 7))),
        ("_c_00000000-0000-4000-8000-000000000000-__READ__0000000007", Some((Read, 7))),
        ("_c_00000000-0000-4000-8000-000000000000-__WRIT__0000000007", Some((Write, 7))),
        ("_c_d3b07384d113edec49eaa6238ad5ff00-lock-0000000008", Some((Exclusive, 8))),
        ("lock-0000000009", Some((Exclusive, 9))),
        ("x-72057594037927936-lock-0000000010", Some((Exclusive, 10))),
        ("d3b07384d113edec49eaa6238ad5ff00__lock__0000000011", Some((Exclusive, 11))),
        ("d3b07384d113edec49eaa6238ad5ff00__rlock__0000000012", Some((Read, 12))),
        ("__READ__0000000013", Some((Read, 13))),
        ("__WRIT__0000000014", Some((Write, 14))),
        ("\u{e9}\u{1f512}-lock-0000000015", Some((Exclusive, 15))),
        // the first dash belongs to the marker, a second one to the number
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
        // names that do not contend
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
        ("_c_00000000-0000-4000-8000-000000000000-lease-0000000001", None),
        ("n_0000000001", None),
        ("\u{e9}000000000", None),
        ("lock-\u{e9}00000000", None),
        ("lock-\u{661}\u{661}\u{661}\u{661}\u{661}", None),
        ("\u{1f512}\u{1f512}\u{1f512}\u{1f512}", None),
    ] {
        assert_eq!(contender(name), expected, "{name:?}");
        assert_eq!(mode_of(name).zip(sequence(name)), expected, "{name:?}");
    }
}

#[test]
fn every_printed_sequence_is_parsed() {
    let edges =
        [i32::MIN, i32::MIN + 1, -1_000_000_001, -1_000_000_000, -999_999_999, -1, 0, 1, i32::MAX];
    for sequence in edges.into_iter().chain((i32::MIN..=i32::MAX).step_by(9_999_991)) {
        for (marker, mode) in MARKERS {
            let name = format!("x-{marker}{sequence:010}");
            assert_eq!(contender(&name), Some((mode, sequence)), "{name}");
            assert_eq!(number(&name), Some(sequence), "{name}");
        }
        let permit = format!("x-{}{sequence:010}", Mode::Permit.marker());
        assert_eq!(number(&permit), Some(sequence), "{permit}");
        assert!(is_permit(&permit), "{permit}");
    }
}

#[test]
fn other_names_are_not_mistaken_for_permits() {
    for name in
        ["", "lease-", "lease-1", "lease-9999999999", "x-lock-0000000001", "release0000000001"]
    {
        assert!(!is_permit(name), "{name:?}");
    }
}

#[test]
fn names_carry_their_uuid_in_one_position() {
    let made = new_name_prefix(LOW, Mode::Read) + "0000000001";
    assert_eq!(made, "_c_00000000-0000-4000-8000-000000000000-__READ__0000000001");
    for (name, id, expected) in [
        (made.as_str(), LOW, true),
        (&made, HIGH, false),
        (&made, "", false),
        (&made, &LOW[..35], false),
        (&made[1..], LOW, false),
        ("_c_", LOW, false),
        ("x_c_00000000-0000-4000-8000-000000000000-lock-0000000001", LOW, false),
        ("_c_00000000-0000-4000-8000-000000000000", LOW, false),
        ("_c_FFFFFFFF-FFFF-4FFF-BFFF-FFFFFFFFFFFF-lock-0000000001", HIGH, false),
    ] {
        assert_eq!(carries(name, id), expected, "{id:?} in {name:?}");
    }
}
