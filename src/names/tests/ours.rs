//! Names of this library with more meaning: reads under a write, and permits that are requested in
//! a turn.

use super::*;

/// Returns the name of a write, or of another contender of ours.
fn ours(id: &str, mode: Mode, digits: &str) -> String {
    new_name_prefix(id, mode) + digits
}

// ---- reads under a write

#[test]
fn downgraded_read_has_the_writes_sequence_and_token() {
    let most = u64::MAX >> 2;
    for digits in ["0000000000", "0000000007", "2147483646"] {
        let write = ours(LOW, Mode::Write, digits);
        for token in [0, 1, (1 << 32) + 5, 1 << 61, most] {
            let (id, name) = read_under(&write, token);
            println!("{token}: {name}");
            assert_eq!(name, ours(&id, Mode::Read, digits));
            assert_eq!(mode_of(&name), Some(Mode::Read), "{name}");
            assert_eq!(sequence(&name), sequence(&write), "{name}");
            assert!(carries(&name, &id) && !carries(&name, LOW), "{id:?} in {name:?}");
            let uuid = Uuid::try_parse(&id).expect("a uuid");
            assert_eq!(uuid.hyphenated().to_string(), id, "as others print it");
            assert_eq!((uuid.get_version_num(), uuid.get_variant()), (8, uuid::Variant::RFC4122));
            assert_eq!(token_under(&name), Some(token), "{name}");
        }
    }
}

#[test]
fn downgraded_reads_have_unique_names() {
    let write = ours(LOW, Mode::Write, "0000000007");
    let (one, other) = (read_under(&write, 5), read_under(&write, 5));
    println!("{one:?}, {other:?}");
    assert!(one.0 != other.0 && one.1 != other.1);
}

#[test]
fn only_a_read_with_a_version_8_uuid_carries_a_token() {
    let (id, read) = read_under(&ours(LOW, Mode::Write, "0000000007"), 5);
    let with = |id: &str, marker: &str| format!("_c_{id}-{marker}0000000007");
    assert_eq!(token_under(&with(&id, "__READ__")), Some(5));
    for name in [
        // The id is the same, but it is no read.
        with(&id, "lock-"),
        with(&id, "__WRIT__"),
        with(&id, "__lock__"),
        with(&id, "lease-"),
        with(&id, "hello"),
        // Ids without a special meaning.
        with(LOW, "__READ__"),
        with(HIGH, "__READ__"),
        with(&new_id(), "__READ__"),
        with("00000000-0000-1000-8000-000000000005", "__READ__"),
        with("00000000-0000-7000-8000-000000000005", "__READ__"),
        // These are no ids.
        with(&"8".repeat(35), "__READ__"),
        with(&"8".repeat(36), "__READ__"),
        with(&"-".repeat(36), "__READ__"),
        with(&"\u{e9}".repeat(18), "__READ__"),
        with(&id.replace('-', ""), "__READ__"),
        with("", "__READ__"),
        // At another position than in our names, or without a sequence.
        read[1..].to_owned(),
        format!("x{read}"),
        format!("{read}x"),
        format!("{id}-__READ__0000000007"),
        format!("_c_{id}__rlock__0000000007"),
        format!("_c_{id}-__READ__"),
        format!("_c_{id}-"),
        format!("_c_{id}"),
        "__READ__0000000007".to_owned(),
        "_c_".to_owned(),
        String::new(),
    ] {
        assert_eq!(token_under(&name), None, "{name:?}");
    }
}

#[test]
fn downgraded_read_is_granted_and_outlives_its_write() {
    let write = ours(LOW, Mode::Write, "0000000003");
    let (_, read) = read_under(&write, 5);
    let (before, reader, writer) =
        ("x-__READ__0000000002", "x-__READ__0000000004", "x-__WRIT__0000000005");
    let at = |nodes: &[&str], own: &str| {
        let nodes = children(nodes);
        decide(mode_of(own).unwrap(), &nodes, own)
    };
    let both = [reader, writer, &read, &write];
    assert_eq!(at(&both, &write), Standing::Granted);
    assert_eq!(at(&both, &read), Standing::Granted);
    assert_eq!(at(&both, reader), behind(&write));
    assert_eq!(at(&both, writer), behind(reader));
    // The order among equals does not matter, but it is always the same.
    let first = write.as_str().min(&read);
    assert_eq!(at(&[writer, &read, &write], writer), behind(first));
    assert_eq!(at(&[writer, &write, &read], writer), behind(first));
    let after = [reader, writer, &read];
    assert_eq!(at(&after, &read), Standing::Granted);
    assert_eq!(at(&after, reader), Standing::Granted);
    assert_eq!(at(&after, writer), behind(reader));
    assert_eq!(at(&[writer, &read], writer), behind(&read));
    // An older reader is no rival of the read, only of the write, which was never granted in that
    // case.
    assert_eq!(at(&[before, &read], &read), Standing::Granted);
    assert_eq!(at(&[before, &write], &write), behind(before));
}

// ---- permits of a turn

#[test]
fn permit_name_carries_its_turn() {
    let turns = [new_id(), new_id()].map(|id| ours(&id, Mode::Exclusive, "0000000004"));
    let mut ids = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        for _ in 0..3 {
            let id = new_permit_id(Some(turn), index as u32 + 2);
            let permit = ours(&id, Mode::Permit, "0000000000");
            println!("{permit} in the turn of {turn}");
            let uuid = Uuid::try_parse(&id).expect("a uuid");
            assert_eq!(uuid.hyphenated().to_string(), id, "as others print it");
            assert!(carries(&permit, &id) && !carries(turn, &id), "{id}");
            assert_eq!(is_of_turn(&permit, turn), Some(true));
            assert_eq!(limit_of(&permit), Some(index as u32 + 2));
            assert_eq!(limit_of(&ours(&id, Mode::Exclusive, "0000000000")), None, "no permit");
            assert_eq!(is_of_turn(&permit, &turns[1 - index]), Some(false), "another turn's");
            ids.push(id);
        }
    }
    let asked = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), asked, "an id is new for every create: {ids:?}");
}

#[test]
fn permit_created_without_a_turn_belongs_to_none() {
    let turn = ours(&new_id(), Mode::Exclusive, "0000000004");
    let permit = ours(&new_permit_id(None, u32::MAX), Mode::Permit, "0000000000");
    assert_eq!(is_of_turn(&permit, &turn), Some(false), "{permit} and {turn}");
    assert_eq!(limit_of(&permit), Some(u32::MAX));
}

#[test]
fn foreign_names_carry_no_turn() {
    let turn = ours(LOW, Mode::Exclusive, "0000000004");
    let permit = ours(&new_permit_id(Some(&turn), 1), Mode::Permit, "0000000000");
    for foreign in [
        "",
        "_c_",
        // Curator's.
        "_c_11111111-1111-4111-8111-111111111111-lease-0000000000",
        "notes",
        "lock-0000000004",
        "lease-0000000000",
        "0-lease-0000000000",
        "00000000-0000-4000-8000-000000000000-lease-0000000000",
        "x_c_00000000-0000-4000-8000-000000000000-lease-0000000000",
        "_c_00000000000040008000000000000000-lease-0000000000",
        "_c_00000000-0000-4000-8000-000000000000",
        "_c_00000000-0000-4000-8000-0000000000000lease-0000000000",
        "_c_00000000-0000-4000-8000\u{e9}00000000000-lease-0000000000",
        "_c_\u{1f512}\u{1f512}\u{1f512}-lease-0000000000",
    ] {
        assert_eq!(is_of_turn(foreign, &turn), None, "{foreign:?}");
        assert_eq!(limit_of(foreign), None, "{foreign:?}");
        assert_eq!(is_of_turn(&permit, foreign), Some(false), "{foreign:?}");
        let id = new_permit_id(Some(foreign), 1);
        assert!(Uuid::try_parse(&id).is_ok(), "{id:?} in the turn of {foreign:?}");
    }
}
