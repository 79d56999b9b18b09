//! Events of locks for the crate [`tracing`](https://docs.rs/tracing). Needs the feature `tracing`.
//!
//! Pass a [`TracingObserver`] to the client's builder. It writes each report of an
//! [`observer`](crate::observer) as one event with the target `zoolock::tracing`:
//!
//! | event | level | fields |
//! |---|---|---|
//! | `a lock was acquired` | debug | `kind`, `name`, `waited`, `queue`, `outcome` |
//! | `a lock was not acquired` | debug | the same |
//! | `a call for a lock failed` | warn | the same, and `error` |
//! | `a lock was released` | debug | `kind`, `name`, `held`, `outcome` |
//! | `a lock was lost` | warn | the same |
//!
//! `kind` is the [kind](crate::LockKind::as_str) of lock, `name` its
//! [`LockOptions::name`](crate::LockOptions::name), and `outcome` is the result of
//! [`CallOutcome::as_str`] or [`HoldOutcome::as_str`]. `waited` and `held` are seconds. The event
//! for a call belongs to the span in which the thread made the call.
//!
//! The observer cannot create spans: it is called when a wait is over, and a span of the crate
//! `tracing` cannot begin in the past. The example `opentelemetry_spans` exports OpenTelemetry
//! spans that begin with the call.

use std::error::Error as StdError;

use tracing::{debug, warn};

use crate::observer::{CallOutcome, Called, Ended, HoldOutcome, Observer};

/// An [`Observer`] that writes calls and holds as events of the crate `tracing`.
///
/// ```no_run
/// use zoolock::Client;
/// use zoolock::tracing::TracingObserver;
///
/// # fn main() -> zoolock::Result<()> {
/// let client = Client::builder("127.0.0.1:2181").observer(TracingObserver).connect()?;
/// # let _ = client;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct TracingObserver;

impl Observer for TracingObserver {
    fn called(&self, call: &Called<'_>) {
        let (kind, name, queue) = (call.lock.as_str(), call.name, call.queue);
        let (waited, outcome) = (call.waited.as_secs_f64(), call.outcome.as_str());
        match call.outcome {
            CallOutcome::Acquired => {
                debug!(kind, name, waited, queue, outcome, "a lock was acquired");
            }
            CallOutcome::Failed(error) => {
                let error: &(dyn StdError + 'static) = error;
                warn!(kind, name, waited, queue, outcome, error, "a call for a lock failed");
            }
            _ => debug!(kind, name, waited, queue, outcome, "a lock was not acquired"),
        }
    }

    fn ended(&self, hold: &Ended<'_>) {
        let (kind, name, held) = (hold.lock.as_str(), hold.name, hold.held.as_secs_f64());
        let outcome = hold.outcome.as_str();
        match hold.outcome {
            HoldOutcome::Released => debug!(kind, name, held, outcome, "a lock was released"),
            HoldOutcome::Lost(_) => warn!(kind, name, held, outcome, "a lock was lost"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::sync::Mutex;
    use std::time::Duration;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;
    use crate::{Error, LockKind, LossReason};

    /// A subscriber that records the text of each event.
    #[derive(Default)]
    struct Written(Mutex<Vec<String>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0 += &format!(" {field}={value:?}");
        }
    }

    impl Subscriber for Written {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let (level, target) = (event.metadata().level(), event.metadata().target());
            let mut line = Line(format!("{level} {target}"));
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn each_report_is_one_event_with_its_fields() {
        let written = std::sync::Arc::new(Written::default());
        let (lock, name, waited) = (LockKind::Exclusive, "invoices", Duration::from_millis(1500));
        let (held, error) = (waited, Error::Closed);
        tracing::subscriber::with_default(std::sync::Arc::clone(&written), || {
            let calls = [
                (Some(2), CallOutcome::Acquired),
                (None, CallOutcome::Busy),
                (None, CallOutcome::Failed(&error)),
            ];
            for (queue, outcome) in calls {
                TracingObserver.called(&Called { lock, name, waited, queue, outcome });
            }
            for outcome in [HoldOutcome::Released, HoldOutcome::Lost(LossReason::NodeDeleted)] {
                TracingObserver.ended(&Ended { lock, name, held, outcome });
            }
        });
        let its = r#"kind="exclusive" name="invoices""#;
        let expected = [
            format!(
                "DEBUG zoolock::tracing message=a lock was acquired {its} waited=1.5 queue=2 outcome=\"acquired\""
            ),
            format!(
                "DEBUG zoolock::tracing message=a lock was not acquired {its} waited=1.5 outcome=\"busy\""
            ),
            format!(
                "WARN zoolock::tracing message=a call for a lock failed {its} waited=1.5 outcome=\"failed\" error=the client is closed"
            ),
            format!(
                "DEBUG zoolock::tracing message=a lock was released {its} held=1.5 outcome=\"released\""
            ),
            format!(
                "WARN zoolock::tracing message=a lock was lost {its} held=1.5 outcome=\"node_deleted\""
            ),
        ];
        assert_eq!(*written.0.lock().unwrap(), expected);
    }
}
