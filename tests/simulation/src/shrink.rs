//! Shrinks a failing plan by leaving out faults and steps that do not matter for the failure.

use crate::plan::Plan;
use crate::world::run;

/// Leaves out faults and steps while the run still has a violation, and returns the rest of the plan.
pub fn shrink(plan: &Plan, mut progress: impl FnMut(usize, usize)) -> Plan {
    let mut out = vec![false; plan.parts()];
    let mut best = plan.clone();
    let mut size = out.len().div_ceil(2).max(1);
    loop {
        let mut has_changed = false;
        let mut start = 0;
        while start < out.len() {
            let end = (start + size).min(out.len());
            if out[start..end].iter().any(|is_out| !is_out) {
                let mut fewer = out.clone();
                fewer[start..end].fill(true);
                let smaller = plan.without(|part| fewer[part]);
                if !run(&smaller, false).violations.is_empty() {
                    (out, best, has_changed) = (fewer, smaller, true);
                    progress(out.iter().filter(|is_out| !**is_out).count(), out.len());
                }
            }
            start = end;
        }
        match (size, has_changed) {
            (1, false) => return best,
            (1, true) => {}
            _ => size = size.div_ceil(2),
        }
    }
}
