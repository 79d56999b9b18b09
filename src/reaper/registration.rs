//! What a program needs to end a session of another process: the session's key, and how to reach
//! the servers.

use std::any::Any;
use std::ffi::OsString;
use std::fmt::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use log::{info, warn};
use zookeeper::{ErrorKind, SessionKey};

use crate::base::error::{Error, Result};
use crate::base::panics::caught;
use crate::base::sys;
use crate::client::{Client, ClientBuilder};
use crate::settings::{AUTH, CACERT, CERT, CONNECT, KEY, TLS, vars_of};

/// The first line of a message. It differs between versions.
const VERSION: &str = "zoolock reaper 1";

/// The settings that are needed to reach the servers.
const SETTINGS: [&str; 6] = [CONNECT, AUTH, TLS, CACERT, CERT, KEY];

/// The maximum number of servers. Resolving a name needs a thread.
const MOST_SERVERS: usize = 16;

/// The longest session timeout, in milliseconds, and the longest attempt to end a session.
const MOST: i64 = 3_600_000;
pub(super) const LONGEST_TRY: Duration = Duration::from_secs(60);

/// The longest answer of a server, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// The minimum time between two attempts, and the maximum time of all attempts.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_OUTAGE: Duration = Duration::from_secs(3600);

/// The names of the lines after the settings. The settings have the names of environment variables.
const SESSION: &str = "SESSION";
const PASSWORD: &str = "PASSWORD";
const TIMEOUT: &str = "TIMEOUT";
const OWN: [&str; 3] = [SESSION, PASSWORD, TIMEOUT];

/// Everything that is needed to end the session of a client from outside, including from another
/// process: see [`Client::registration`](crate::Client::registration).
///
/// It contains credentials of the client.
#[derive(Clone, PartialEq, Eq)]
pub struct Registration {
    settings: Vec<(String, OsString)>,
    key: SessionKey,
}

impl Registration {
    pub(crate) fn new(settings: Vec<(String, OsString)>, key: SessionKey) -> Registration {
        Registration { settings, key }
    }

    /// Returns the id of the session.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.key.id
    }

    pub(super) fn setting(&self, name: &str) -> Option<OsString> {
        let found = self.settings.iter().find(|(setting, _)| setting == name);
        found.map(|(_, text)| text.clone())
    }

    /// Ends the session; its locks are free at once. **Only call this when the process that had the
    /// session is known to have ended**, including everything that may still work on its behalf.
    ///
    /// Blocks until a server has reported that the session is over, for at most a session timeout.
    /// It is not an error if the session was already over.
    ///
    /// # Errors
    ///
    /// - [`Error::InvalidArgument`] if the settings cannot be used, for example because a
    ///   certificate file is gone.
    /// - [`Error::MaybeDone`] if no server has answered in time. The servers cannot be reached, or
    ///   have ended the session by themselves. Trying again is safe.
    /// - [`Error::SpawnThread`] if the operating system cannot create a thread.
    pub fn end_session(&self) -> Result<()> {
        self.end_keeping(())
    }

    fn end_keeping(&self, kept: impl Any + Send + Sync) -> Result<()> {
        let builder = ClientBuilder::from_vars(|name| self.setting(name))?;
        let builder = builder.client_builder()?.max_answer(MAX_ANSWER);
        let key = SessionKey { timeout: self.key.timeout.min(LONGEST_TRY), ..self.key.clone() };
        builder.end_session(&key, kept).map_err(|error| match error.kind() {
            ErrorKind::BadArguments => Error::invalid("settings", error.to_string()),
            ErrorKind::NoThread => Error::SpawnThread { cause: error.to_string() },
            _ => Error::MaybeDone { path: format!("session {:#x}", self.key.id) },
        })
    }

    /// Returns the timeout of the session.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.key.timeout
    }

    /// Ends the session of a process that has just ended, `margin` from now. This is for programs
    /// that do nothing else: the call keeps trying during outages until a server has reported that
    /// the session is over, an hour has passed, or the channel `over` has no sender left.
    pub fn end_session_after(&self, margin: Duration, over: &Receiver<()>) {
        let (died, mut wait) = (sys::now(), Some(margin));
        while let Some(time) = wait
            && sys::recv_timeout(over, time).is_err_and(|error| error.is_timeout())
        {
            wait = self.attempt(died, ());
        }
    }

    /// Tries once to end the session of a process that died at this time. Returns how long to wait
    /// before the next attempt, if one is needed. `kept` is dropped when all lookups of names have
    /// ended: the system's resolver may take longer than this call.
    pub(super) fn attempt(&self, died: Instant, kept: impl Any + Send + Sync) -> Option<Duration> {
        let (ended, session, passed) = (self.end_keeping(kept), self.key.id, sys::now() - died);
        let wait = match ended {
            Ok(()) => None,
            Err(_) if passed > LONGEST_OUTAGE => None,
            // Nothing was sent. A certificate may be missing for a moment; otherwise, the session
            // ends by itself.
            Err(Error::InvalidArgument { .. }) if passed > self.key.timeout => None,
            Err(Error::InvalidArgument { .. }) => Some(PAUSE.max(self.key.timeout / 8)),
            Err(Error::SpawnThread { .. }) => Some(PAUSE),
            // Each attempt keeps the session alive for a while. If the close requests are lost, the
            // session expires during this wait.
            Err(_) => Some(self.key.timeout.max(PAUSE)),
        };
        caught(|| match (ended, wait) {
            (Ok(()), _) => {
                info!(target: "zoolock", "session {session:#x} has ended, {passed:.0?} after its process");
            }
            (Err(error), Some(_)) => {
                warn!(target: "zoolock", "session {session:#x} has not ended yet: {error}");
            }
            (Err(error), None) => {
                warn!(target: "zoolock", "session {session:#x} is left to the servers: {error}");
            }
        });
        wait
    }

    /// Returns the registration as text, for another process. That process must use the same
    /// version of zoolock. The text contains credentials, which is why `Debug` does not print it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let SessionKey { id, password, timeout } = &self.key;
        let (id, timeout) = (id.to_string(), timeout.as_millis().to_string());
        let own = [(SESSION, id.as_bytes()), (PASSWORD, password), (TIMEOUT, timeout.as_bytes())];
        let settings = self.settings.iter().map(|(name, text)| (&**name, text.as_bytes()));
        let mut text = VERSION.to_owned();
        for (name, value) in settings.chain(own) {
            let _ = write!(text, "\n{name}=");
            text.extend(value.iter().map(|byte| format!("{byte:02x}")));
        }
        text
    }

    /// Parses the text that [`to_text`](Registration::to_text) returned.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if it is not a registration of this version.
    pub fn from_text(text: &str) -> Result<Registration> {
        let reason = "it names more than 16 servers, or is not a registration of this version of zoolock: use the same version for the client and the reaper";
        Registration::parse(text).ok_or_else(|| Error::invalid("registration", reason))
    }

    fn parse(text: &str) -> Option<Registration> {
        let lines = text.strip_prefix(VERSION)?.strip_prefix('\n')?.split('\n');
        let value = |line: &str| {
            let (name, value) = line.split_once('=')?;
            let is_known = OWN.contains(&name) || SETTINGS.contains(&name);
            Some((name.to_owned(), from_hex(value).filter(|_| is_known)?))
        };
        let lines = lines.take(OWN.len() + SETTINGS.len());
        let values = lines.map(value).collect::<Option<Vec<_>>>()?.into_iter();
        let (own, settings): (Vec<_>, Vec<_>) =
            values.partition(|(name, _)| OWN.contains(&&**name));
        let find = |name| Some(own.iter().find(|(own, _)| own == name)?.1.clone());
        let number = |name| String::from_utf8(find(name)?).ok()?.parse().ok();
        let timeout = number(TIMEOUT).filter(|timeout| (1..=MOST).contains(timeout))?;
        let is_crowd = |(name, text): &(String, Vec<u8>)| {
            name == CONNECT && text.split(|byte| *byte == b',').count() > MOST_SERVERS
        };
        if settings.iter().any(is_crowd) {
            return None;
        }
        let timeout = Duration::from_millis(timeout.unsigned_abs());
        let key = SessionKey { id: number(SESSION)?, password: find(PASSWORD)?, timeout };
        let settings = settings.into_iter().map(|(name, text)| (name, OsString::from_vec(text)));
        Some(Registration { settings: settings.collect(), key })
    }
}

impl Client {
    /// Returns what is needed to end this client's session from outside. This is for programs that
    /// supervise other processes themselves; a [`Reaper`](crate::Reaper) does all of that. `None`
    /// while there is no session, and if a [reaper](ClientBuilder::reaper) cannot use the settings.
    #[must_use]
    pub fn registration(&self) -> Option<Registration> {
        let key = self.inner.requests.session_key()?;
        Some(Registration::new(vars_of(&self.builder)?, key))
    }
}

/// Prints without credentials.
impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registration({:?})", self.key)
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair.filter(|pair| pair.len() == 2)?, 16).ok()).collect()
}
