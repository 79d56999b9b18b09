//! Names of this library with more meaning: reads under a write, and permits that are requested in
//! a turn.

use super::*;

/// Returns the name of a write, or of another contender of ours.
fn ours(id: &str, mode: Mode, digits: &str) -> String {
    new_name_prefix(id, mode) + digits
}

// ---- reads under a write

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

// ---- permits of a turn

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
