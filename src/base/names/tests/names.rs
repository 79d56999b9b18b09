//! Tables of names: which ones contend, and as what.

use super::*;

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
        let permit = format!("x-{}{sequence:010}", LockKind::Semaphore.marker());
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
