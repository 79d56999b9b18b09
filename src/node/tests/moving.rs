//! Names that take a place over, or come under another.

use super::*;

#[test]
fn a_place_moves_under_a_new_id_with_the_same_sequence() {
    for (name, moved) in [
        (format!("_c_{LOW}-lock-0000000007"), Some(format!("_c_{HIGH}-lock-0000000007"))),
        (format!("_c_{LOW}-__READ__2147483646"), Some(format!("_c_{HIGH}-__READ__2147483646"))),
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
            assert!(moved.is_none() || moved == Some(name(HIGH)), "{kind:?} {digits}: {moved:?}");
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
    let (before, reader, writer) =
        ("x-__READ__0000000002", "x-__READ__0000000004", "x-__WRIT__0000000005");
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
