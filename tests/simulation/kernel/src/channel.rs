//! Waits for channels. The channels are crossbeam's, because operations that do not block need not be simulated.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvError, RecvTimeoutError, TryRecvError, bounded};

use crate::clock::{count, now};
use crate::scheduler::{after, block, may_give_way, own_process, with};

pub use crossbeam_channel::never;

/// Returns a channel that receives `when` at that instant.
pub fn at(when: Instant) -> Receiver<Instant> {
    let (sender, receiver) = bounded(1);
    ring(own_process(), when, sender);
    receiver
}

fn ring(process: crate::Process, when: Instant, sender: crossbeam_channel::Sender<Instant>) {
    let due = count(when);
    let left = with(|kernel| {
        let asleep = kernel.machines[process.0].asleep;
        due.saturating_add(asleep).saturating_sub(kernel.now)
    });
    if left > u64::MAX / 4 {
        // The instant is never reached, because it is after the end of any run.
        return std::mem::forget(sender);
    }
    after(Duration::from_nanos(left), move || {
        let has_slept =
            with(|kernel| due.saturating_add(kernel.machines[process.0].asleep) > kernel.now);
        match has_slept {
            true => ring(process, when, sender),
            false => drop(sender.send(when)),
        }
    });
}

/// Returns whether receiving would not block.
#[doc(hidden)]
pub fn is_ready<T>(receiver: &Receiver<T>) -> bool {
    // No other thread runs between these calls, so `try_recv` finds the channel empty and does not take a message.
    !receiver.is_empty() || matches!(receiver.try_recv(), Err(TryRecvError::Disconnected))
}

/// Returns the message in the channel, or an error if there is none.
#[doc(hidden)]
pub fn now_or_never<T>(receiver: &Receiver<T>) -> Result<T, RecvError> {
    receiver.try_recv().map_err(|_| RecvError)
}

fn await_message<T>(receiver: &Receiver<T>, end: Option<u64>) {
    may_give_way();
    if !is_ready(receiver) {
        block("a receive", end, Some(&|| is_ready(receiver)));
    }
}

pub fn recv<T>(receiver: &Receiver<T>) -> Result<T, RecvError> {
    await_message(receiver, None);
    now_or_never(receiver)
}

pub fn recv_deadline<T>(receiver: &Receiver<T>, end: Instant) -> Result<T, RecvTimeoutError> {
    await_message(receiver, Some(count(end)));
    receiver.try_recv().map_err(|error| match error {
        TryRecvError::Empty => RecvTimeoutError::Timeout,
        TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
    })
}

pub fn recv_timeout<T>(receiver: &Receiver<T>, limit: Duration) -> Result<T, RecvTimeoutError> {
    recv_deadline(receiver, now() + limit)
}

/// Waits until `ready` returns true, but at most for `limit`.
#[doc(hidden)]
pub fn wait(limit: Option<Duration>, ready: &dyn Fn() -> bool) {
    may_give_way();
    if !ready() {
        block("a select", limit.map(|limit| count(now() + limit)), Some(ready));
    }
}

/// Corresponds to `crossbeam_channel::select_biased` with receive arms and one `default`: the first arm that is ready
/// is taken. Parses the arms, binds each receiver once, waits, and tries the receivers in order.
#[macro_export]
macro_rules! select_biased {
    (@arms [$($done:tt)*] recv($from:expr) -> $got:pat => $body:block, $($rest:tt)*) => {
        $crate::select_biased!(@arms [$($done)* ($from, $got, $body)] $($rest)*)
    };
    (@arms [$($done:tt)*] recv($from:expr) -> $got:pat => $body:block $($rest:tt)*) => {
        $crate::select_biased!(@arms [$($done)* ($from, $got, $body)] $($rest)*)
    };
    (@arms [$($done:tt)*] recv($from:expr) -> $got:pat => $body:expr, $($rest:tt)*) => {
        $crate::select_biased!(@arms [$($done)* ($from, $got, $body)] $($rest)*)
    };
    (@arms [$($done:tt)*] default($limit:expr) => $body:expr $(,)?) => {
        $crate::select_biased!(@bind (Some($limit), $body) [$($done)*] [])
    };
    (@arms [$($done:tt)*]) => {
        $crate::select_biased!(@bind (None, unreachable!("one is ready")) [$($done)*] [])
    };
    (@bind $default:tt [($from:expr, $got:pat, $body:expr) $($rest:tt)*] [$($bound:tt)*]) => {
        match &$from {
            receiver => $crate::select_biased!(
                @bind $default [$($rest)*] [$($bound)* (receiver, $got, $body)]
            ),
        }
    };
    (@bind ($limit:expr, $none:expr) [] [$(($from:ident, $got:pat, $body:expr))+]) => {{
        $crate::wait($limit, &|| $($crate::is_ready($from))||+);
        $(if $crate::is_ready($from) {
            let $got = $crate::now_or_never($from);
            $body
        } else)+ { $none }
    }};
    ($($arms:tt)+) => { $crate::select_biased!(@arms [] $($arms)+) };
}
