//! Names of this library that contain more than an id: permits that a call requests while it is
//! first in the queue.

use super::*;

/// Returns the name of one of our contenders, for example a write.
fn ours(id: &str, kind: LockKind, digits: &str) -> String {
    new_name_prefix(id, kind) + digits
}

/// If later permits counted, two calls that try to take the last permit could both find it taken.
#[test]
fn permits_that_were_created_later_do_not_count() {
    let all = [1, 2, 3].map(|number| format!("x-{}{number:010}", LockKind::Semaphore.marker()));
    let [first, second, third] = all.each_ref().map(String::as_str);
    let fits = |own: &[&str]| fit(all.iter().map(String::as_str), own, 2);
    let seen = [&[first][..], &[second], &[third], &[first, second], &[first, third]].map(fits);
    assert_eq!(seen, [true, true, false, true, false]);
}

#[test]
fn foreign_names_carry_no_turn() {
    let turn = ours(LOW, LockKind::Exclusive, "0000000004");
    let permit = ours(&new_permit_id(Some(&turn), 1), LockKind::Semaphore, "0000000000");
    for foreign in [
        "",
        "_c_",
        // A name that Curator created.
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
