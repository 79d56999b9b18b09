//! The thread of a client that connects and reads. It delivers answers to waiting calls and events to
//! listeners, and never waits for them.

use std::collections::HashSet;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use log::Level;

use crate::core::addresses::Target;
use crate::core::frames::Frames;
use crate::dial::{Dialer, Round, rest};
use crate::error::ConnectFailure;
use crate::link::Link;
use crate::resolver::Lookup;
use crate::shared::Shared;
use crate::sys;
use crate::sys::net::Stream;
use crate::sys::thread::never_wait_here;
#[cfg(feature = "tls")]
use crate::tls::Tls;
use crate::types::State;

/// The reason to report when a server hangs up after the first request.
const SILENT_END: &str = "the server hung up without an answer: it may not be serving, may lag behind what \
    this client has seen, or may expect TLS at this port";

/// The maximum number of kinds of causes logged in one outage: servers may send anything.
const KINDS: usize = 100;

/// The settings of connections.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    pub(crate) lookup: Lookup,
    /// The length of the longest accepted answer, in bytes.
    pub(crate) max_answer: usize,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Tls>,
}

/// Why none of the servers of a round could be used.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) causes: String,
    /// A server did not answer, so another round may help.
    pub(crate) is_silent: bool,
    /// The failure of the server that got furthest in opening a session.
    pub(crate) failure: ConnectFailure,
}

/// How a connection ended.
struct Ended {
    /// Whether it carried the session.
    was_open: bool,
    /// Whether the server accepted a request on it.
    was_of_use: bool,
    reason: Arc<str>,
    /// The reason to report if no request was accepted on the connection.
    failure: ConnectFailure,
}

/// Ends the client when its reader ends, for whatever reason.
struct LastWord<'a>(&'a Shared);

impl Drop for LastWord<'_> {
    fn drop(&mut self) {
        self.0.change(|core, _| core.end());
    }
}

/// Runs the reader. `failures` receives the reasons why there is no session yet.
pub(crate) fn run(shared: &Shared, transport: &Transport, failures: &Sender<Failed>) {
    never_wait_here();
    let _last_word = LastWord(shared);
    let mut dialer = Dialer::new(shared, transport.lookup.clone());
    // During an outage, each kind of cause is logged only once.
    let mut said = HashSet::new();
    // The session timeout that was last reported.
    let mut known = shared.look(|core| core.asked_timeout());
    loop {
        let mut round = dialer.round(shared);
        let (mut lasted, mut was_open) = (None, false);
        while let Some((stream, target)) = dialer.next(&mut round, shared) {
            let begun = sys::now();
            if rest(shared).is_some() {
                // Connecting took so long that the client must pause before the next handshake.
                continue;
            }
            let ended = connection(shared, transport, stream, &target, &mut known);
            if ended.was_open {
                was_open = true;
                if !shared.look(|core| core.is_over()) {
                    shared.note(Level::Info, || {
                        format!("the connection to {target} was lost: {}", ended.reason)
                    });
                }
            }
            if ended.was_of_use {
                lasted = Some(sys::now() - begun);
                said.clear();
                break;
            }
            round.is_silent |= ended.failure == ConnectFailure::Silent;
            let failure = match shared.look(|core| core.is_refused()) {
                true => ConnectFailure::Credentials,
                false => ended.failure,
            };
            round.failure = round.failure.max(failure);
            round.causes.push(format!("{target}: {}", ended.reason));
        }
        if shared.look(|core| core.is_over()) {
            return;
        }
        match lasted {
            Some(lasted) => dialer.succeeded(lasted),
            // Nothing was tried, because the client pauses before the next handshake.
            None if round.causes.is_empty() => {}
            None => {
                let causes = round.causes.join("; ");
                shared.change(|core, now| core.broke(&causes, now));
                if is_news(&mut said, &round.causes) {
                    shared.note(Level::Warn, || format!("no session: {causes}"));
                }
                let Round { is_silent, failure, .. } = round;
                if !was_open {
                    // After the first session, the receiver has been dropped.
                    let _ = failures.send(Failed { causes, is_silent, failure });
                }
            }
        }
    }
}

/// Returns whether these causes include a kind that was not logged yet. The kind of a cause is its
/// text without the words that have digits: addresses, times and codes.
fn is_news(said: &mut HashSet<String>, causes: &[String]) -> bool {
    let has_digits = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
    let kind = |cause: &String| cause.split(' ').filter(|word| !has_digits(word)).collect();
    let before = said.len();
    if before < KINDS {
        said.extend(causes.iter().map(kind));
    }
    said.len() > before
}

/// Runs one connection until it ends. Warns if the session timeout is not the `known` one.
fn connection(
    shared: &Shared,
    transport: &Transport,
    stream: Stream,
    target: &Target,
    known: &mut Duration,
) -> Ended {
    let link = match open(transport, stream, target) {
        Ok(link) => Arc::new(link),
        Err(reason) => {
            let reason = reason.into();
            let failure = ConnectFailure::Tls;
            return Ended { was_open: false, was_of_use: false, reason, failure };
        }
    };
    shared.attach(&link, target.is_confirmed);
    let mut frames = Frames::new(transport.max_answer);
    let (mut was_open, mut came, mut is_tls) = (false, false, false);
    let problem = loop {
        match link.read(&mut frames) {
            Ok(Some(_)) => came = true,
            Ok(None) if came => break "the server hung up".to_owned(),
            Ok(None) => break SILENT_END.to_owned(),
            Err(broken) => {
                is_tls = broken.is_tls;
                break broken.reason;
            }
        }
        shared.send_rest(&link);
        if let Err(problem) = take_frames(shared, &mut frames) {
            break problem;
        }
        if !was_open && shared.look(|core| core.is_open()) {
            was_open = true;
            shared.note(Level::Info, || format!("connected to {target}"));
            let [asked, granted] = shared.look(|core| [core.asked_timeout(), core.timeout()]);
            let is_closing = shared.look(|core| core.state()) == State::Closed;
            if granted != mem::replace(known, granted) && !is_closing {
                let text = "the servers grant a session timeout of";
                shared.note(Level::Warn, || format!("{text} {granted:?} instead of {asked:?}"));
            }
        }
    };
    link.shut_down();
    was_open |= shared.look(|core| core.is_open());
    let was_of_use = shared.look(|core| core.is_of_use());
    let (reason, is_silent) = shared.detach(&problem);
    let failure = match is_tls {
        _ if is_silent => ConnectFailure::Silent,
        true => ConnectFailure::Tls,
        false => ConnectFailure::NoSession,
    };
    Ended { was_open, was_of_use, reason, failure }
}

#[cfg(feature = "tls")]
fn open(transport: &Transport, stream: Stream, target: &Target) -> Result<Link, String> {
    let link = Link::new(stream);
    match &transport.tls {
        Some(tls) => Ok(link.with_tls(tls.connect(&target.name)?)),
        None => Ok(link),
    }
}

#[cfg(not(feature = "tls"))]
fn open(_: &Transport, stream: Stream, _: &Target) -> Result<Link, String> {
    Ok(Link::new(stream))
}

/// Delivers the received frames. An error is the reason to end the connection.
fn take_frames(shared: &Shared, frames: &mut Frames) -> Result<(), String> {
    let malformed = |problem| format!("bad answer: {problem}");
    while let Some(frame) = frames.next().map_err(|problem| problem.to_string())? {
        if shared.receive(frame).map_err(malformed)? {
            return Err("the client ended the connection".into());
        }
    }
    Ok(())
}
