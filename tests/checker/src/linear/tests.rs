//! Generated histories, correct, wrong and random ones, checked in pieces and as a whole.

use fastrand::Rng;

use super::made_up::history;
use super::*;
use crate::lock::Use;

const USES: [Use; 4] = [Use::Exclusive, Use::ReadWrite, Use::Semaphore(3), Use::Ephemeral];
const UNCUT: Sizes = Sizes { most: usize::MAX, steps: u32::MAX };

fn check(what: Use, sizes: Sizes, history: &History) -> Vec<String> {
    let found = Linear::with(&[Lock::new("/lock", what)], sizes).check(history);
    assert_eq!(found.undecided, 0);
    found.violations
}

#[test]
fn correct_histories_pass_with_any_cuts() {
    let mut rng = Rng::with_seed(1);
    for what in USES {
        for threads in [2, 6, 15] {
            let history = history(what, &mut rng, threads, 300);
            for most in [1, 2, 5, 12] {
                let violations = check(what, Sizes { most, ..SIZES }, &history);
                assert_eq!(violations, Vec::<String>::new(), "{what:?} {most}");
            }
        }
    }
}

/// Changes the times, tokens or ends of some holds. The resulting history may be correct or wrong.
fn spoil(history: &mut History, rng: &mut Rng) {
    for _ in 0..rng.u8(1..=2) {
        let index = rng.usize(0..history.holds.len());
        let other = history.holds[rng.usize(0..history.holds.len())].grant.token;
        let record = &mut history.holds[index];
        let grant = &mut record.grant;
        match rng.u8(0..6) {
            0 => grant.token = other,
            1 => grant.at = rng.u64(grant.started..=grant.at),
            2 => record.left = record.left.map(|left| rng.u64(left..=left + 60)),
            3 => {
                record.left = record.left.map(|left| left + 100);
                record.returned = record.returned.map(|returned| returned + 100);
            }
            4 => (record.left, record.returned, record.unlocked) = (None, None, None),
            _ => grant.started = grant.started.saturating_sub(rng.u64(0..60)),
        }
        if let (Some(left), Some(returned)) = (record.left, record.returned) {
            record.returned = Some(returned.max(left));
        }
    }
}

#[test]
fn cuts_change_no_verdict() {
    let mut rng = Rng::with_seed(2);
    let (mut right, mut wrong) = (0, 0);
    for round in 0..2000 {
        let what = USES[round % USES.len()];
        let (threads, holds) = (rng.u64(2..=4), rng.u32(3..=6));
        let mut history = history(what, &mut rng, threads, holds);
        if history.holds.is_empty() {
            continue;
        }
        spoil(&mut history, &mut rng);
        let uncut = check(what, UNCUT, &history);
        for most in [1, 2, 3, 5] {
            let cut = check(what, Sizes { most, ..SIZES }, &history);
            let same = uncut.is_empty() == cut.is_empty();
            assert!(same, "{what:?} {round} {most}: {uncut:?} but {cut:?}: {:#?}", history.holds);
        }
        *(if uncut.is_empty() { &mut right } else { &mut wrong }) += 1;
    }
    println!("{right} histories were right, {wrong} were wrong");
    assert!(right > 300 && wrong > 300);
}

#[test]
fn endless_hold_is_found_in_a_long_history() {
    let mut rng = Rng::with_seed(3);
    for what in [Use::Exclusive, Use::ReadWrite, Use::Ephemeral] {
        for threads in [4, 15] {
            let mut history = history(what, &mut rng, threads, 300);
            let alone = |record: &&mut Record| {
                let is_released = record.returned.is_some() && record.loss.is_none();
                is_released && record.grant.mode == crate::Mode::Exclusive
            };
            let record = history.holds.iter_mut().skip(150).find(alone).expect("there is one");
            (record.left, record.returned, record.unlocked) = (None, None, None);
            let hold = record.grant.hold;
            let violations = check(what, SIZES, &history);
            println!("{}", violations[0]);
            let (_, holders) = violations[0].split_once("held by [").expect("the holders");
            assert!(holders.starts_with(&format!("{hold} (")), "{hold}");
            assert_eq!(holders.matches("token").count(), 1, "{holders}");
        }
    }
}
