//! Checks that fencing tokens rise.
//!
//! Each hold that excludes the one before has a higher token. Only a thread that hands its node to
//! another thread of its client hands over the token, too. A reader may have a lower token than
//! another reader, but not a lower one than a writer before it.

use super::timeline::Timeline;
use super::{Case, Findings};
use crate::event::HoldId;
use crate::lock::Mode;

pub(super) fn check(found: &mut Findings, case: Case<'_>, timeline: &Timeline<'_>) {
    let (mut writer, mut reader): (Option<(u64, HoldId)>, _) = (None, None);
    for entry in timeline.entries.iter().filter(|entry| entry.doubted.is_none()) {
        let grant = &entry.record.grant;
        let highest = match grant.mode {
            Mode::Exclusive => writer.max(reader),
            Mode::Shared => writer,
            Mode::Permits(_) => continue,
        };
        // A hold that was over when the call came back may have been followed before that.
        let Some(token) = grant.token.filter(|_| grant.still_held) else {
            continue;
        };
        let wrong = highest.filter(|&(highest, before)| {
            let inherited = token == highest && grant.hold.by.is_beside(before.by);
            token <= highest && !inherited
        });
        if let Some((highest, before)) = wrong {
            found.violations.push(format!(
                "tokens went down: {} was granted {} with token {token} after {before} with {highest}",
                grant.hold,
                case.name(grant.path),
            ));
        }
        let highest = if grant.mode == Mode::Exclusive { &mut writer } else { &mut reader };
        *highest = (*highest).max(Some((token, grant.hold)));
    }
}
