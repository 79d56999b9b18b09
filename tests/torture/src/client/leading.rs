//! A worker in the phase of leaders. It stands for some time as one of several candidates of its process, and
//! reports when it leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use zoolock::crossbeam_channel::RecvTimeoutError;
use zoolock::{Leadership, LockOptions, Term};

use crate::Outcome;
use crate::client::worker::Worker;
use crate::clock::{after, now};
use crate::kinds::Kind;
use crate::paths::{LED, Mode, lock_path};
use crate::protocol::{Act, Event, Grant, HoldId, Reporter, WorkerId};
use crate::settings::ANSWER_WITHIN;

/// The pause between a leader's acts, and between a candidate's health checks.
const PAUSE: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(100);
/// In milliseconds.
const LONGEST_STAND: u64 = 10_000;
const LONGEST_TERM: u64 = 500;

impl Worker<'_> {
    /// Each worker of a process stands at another path while there are enough.
    pub(super) fn stand(&mut self, phase: u32) -> Outcome<()> {
        let mut rng = self.rng(phase);
        let path = self.me.thread % LED;
        while let Some(drained) = self.shared.gate.enter(phase) {
            let terms = Arc::new(AtomicU32::new(self.holds));
            let mut leader = Leader {
                me: self.me,
                path,
                terms: Arc::clone(&terms),
                rng: rng.fork(),
                reporter: self.reporter.clone(),
            };
            let lead = move |term: &Term| leader.lead(term);
            let options = LockOptions::new();
            let leadership = Leadership::new(&self.shared.client, lock_path(path), options, lead)?;
            let enough = after(now(), Duration::from_millis(rng.u64(0..=LONGEST_STAND)));
            loop {
                let is_drained = drained.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout);
                let (at, is_well) = (now(), leadership.is_healthy());
                if !is_well {
                    self.reporter.report(&Event::Unwell { at });
                }
                if is_drained || at > enough {
                    break;
                }
            }
            let within = Some(PAUSE + ANSWER_WITHIN);
            self.timed("shutdown", path, within, || leadership.shutdown());
            self.holds = terms.load(Ordering::SeqCst);
        }
        Ok(())
    }
}

struct Leader {
    me: WorkerId,
    path: usize,
    terms: Arc<AtomicU32>,
    rng: Rng,
    reporter: Reporter,
}

impl Leader {
    /// Some terms end at once, most in less than a second, and some only when they must.
    fn lead(&mut self, led: &Term) {
        let term = HoldId { by: self.me, number: self.terms.fetch_add(1, Ordering::SeqCst) + 1 };
        let begun = now();
        self.reporter.report(&Event::Granted(self.grant(term, led, begun)));
        let enough = match self.rng.u8(0..20) {
            0 => begun,
            1 => u64::MAX,
            _ => after(begun, Duration::from_millis(self.rng.u64(0..=LONGEST_TERM))),
        };
        loop {
            // In this order, neither a stop of the process nor a slow call can postpone the deadline.
            let (at, instant) = (now(), Instant::now());
            let until = after(at, led.deadline().saturating_duration_since(instant));
            if !led.is_over() {
                self.reporter.report(&Event::Acted(Act { term, at, until }));
            }
            if at > enough || led.wait(PAUSE) {
                break;
            }
        }
        self.reporter.report(&Event::Leaving { hold: term, at: now() });
    }

    fn grant(&self, term: HoldId, led: &Term, at: u64) -> Grant {
        Grant {
            hold: term,
            under: None,
            kind: Kind::Exclusive,
            path: self.path,
            mode: Mode::Exclusive,
            member: 0,
            op: "leadership".into(),
            waited: true,
            nodes: vec![led.node()],
            token: Some(led.fencing_token()),
            started: at,
            at,
            still_held: led.is_held(),
            // Overlapping leaders are found by their deadlines.
            witness_free: true,
        }
    }
}
