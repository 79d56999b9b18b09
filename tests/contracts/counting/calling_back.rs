//! What an observer may do in its callbacks, and how its failures are contained.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use zoolock::observer::{Acquired, Ended, NotAcquired, Observer};
use zoolock::{ClientState, DistributedLock, LockOptions, LossReason};
use zoolock_test_support::{fresh_path, shared_probe, wait_until};

use super::What::{Busy, Released};
use super::{Notes, Told, What, observed_by, times};
use common::{SOON, every_subject};

/// An observer that uses the lock on the thread that reports.
#[derive(Clone, Default)]
struct Meddler {
    #[allow(clippy::type_complexity)]
    with: Arc<OnceLock<Box<dyn Fn(bool) + Send + Sync>>>,
    notes: Notes,
}

thread_local! {
    /// Set while the observer acts, since its own calls are reported too.
    static MEDDLES: Cell<bool> = const { Cell::new(false) };
}

impl Meddler {
    fn meddle(&self, has_ended: bool) {
        if !MEDDLES.replace(true) {
            self.with.get().expect("what to do")(has_ended);
            MEDDLES.set(false);
        }
    }
}

impl Observer for Meddler {
    fn acquired(&self, call: &Acquired<'_>) {
        self.meddle(false);
        self.notes.acquired(call);
    }

    fn not_acquired(&self, call: &NotAcquired<'_>) {
        self.meddle(false);
        self.notes.not_acquired(call);
    }

    fn ended(&self, hold: &Ended<'_>) {
        self.meddle(true);
        self.notes.ended(hold);
    }
}

#[test]
fn observer_may_use_the_client_and_the_lock() {
    every_subject(|subject| {
        let (path, meddler) = (fresh_path("meddler"), Meddler::default());
        let client = observed_by(meddler.clone());
        let object = subject.at(&client, &path);
        let other = DistributedLock::new(&client, fresh_path("meddlers-own")).unwrap();
        let (used, its_client) = (object.clone(), client.clone());
        let with = move |has_ended| {
            let is_held = used.is_held();
            assert!(used.holds().iter().all(|hold| hold.is_held() || !is_held));
            assert_eq!(its_client.state(), ClientState::Connected);
            assert_eq!(its_client.stats().sessions, 1);
            assert!(other.try_lock().unwrap(), "it is nobody else's");
            other.unlock().unwrap();
            // A multi-lock reports one member while it holds another.
            if has_ended && subject.is_one_lock() && used.try_lock().unwrap() {
                used.unlock().unwrap();
            }
        };
        assert!(meddler.with.set(Box::new(with)).is_ok());
        object.lock().unwrap();
        object.unlock().unwrap();
        let rival_client = common::client();
        let rival = subject.rival(&rival_client, &path);
        rival.lock().unwrap();
        assert!(!object.try_lock().unwrap());
        rival.unlock().unwrap();
        // This report comes on another thread.
        object.lock().unwrap();
        let hold = object.hold();
        let _asked = hold.revocation().unwrap();
        meddler.notes.take();
        shared_probe().unwrap().delete(&subject.node_of(&hold)).unwrap();
        let is_lost = |told: &Told| told.what == What::Lost(LossReason::NodeDeleted);
        wait_until("the loss is told", SOON, || meddler.notes.count(is_lost) > 0);
        assert!(object.unlock().is_err());
    });
}

/// Counts each report and panics.
#[derive(Clone, Default)]
struct Panics(Notes);

impl Observer for Panics {
    fn acquired(&self, call: &Acquired<'_>) {
        self.0.acquired(call);
        panic!("on purpose, of {call:?}");
    }

    fn not_acquired(&self, call: &NotAcquired<'_>) {
        self.0.not_acquired(call);
        panic!("on purpose, of {call:?}");
    }

    fn ended(&self, hold: &Ended<'_>) {
        self.0.ended(hold);
        panic!("on purpose, of {hold:?}");
    }
}

#[test]
fn panicking_observer_does_no_harm() {
    every_subject(|subject| {
        let (path, panics) = (fresh_path("panics"), Panics::default());
        let client = observed_by(panics.clone());
        let object = subject.with(&client, &path, LockOptions::new().name(subject.name));
        let each = subject.nodes_of_one();
        let turn = [times(What::Acquired, each), times(Released, each)].concat();
        for _ in 0..2 {
            object.lock().unwrap();
            assert!(object.is_held());
            object.unlock().unwrap();
            panics.0.were(subject.name, &turn);
        }
        let others = common::client();
        let rival = subject.rival(&others, &path);
        rival.lock().unwrap();
        assert!(!object.try_lock().unwrap());
        panics.0.were(subject.name, &[Busy]);
        rival.unlock().unwrap();
        for _ in 0..2 {
            object.lock().unwrap();
            panics.0.take();
            let hold = object.hold();
            let _asked = hold.revocation().unwrap();
            shared_probe().unwrap().delete(&subject.node_of(&hold)).unwrap();
            panics.0.await_count(1);
            assert!(object.unlock().is_err());
            assert_eq!(panics.0.take()[0].what, What::Lost(LossReason::NodeDeleted));
        }
    });
}
