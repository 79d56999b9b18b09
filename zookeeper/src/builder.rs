//! The settings of a client, and its first session.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, unbounded};

use crate::client::ZooKeeper;
use crate::core::clock::{FOREVER, Moment};
use crate::core::connection::Credential;
use crate::core::hosts::HostList;
#[cfg(feature = "sasl")]
use crate::core::sasl::User;
use crate::error::{ConnectFailure, Error, ErrorKind, Result};
use crate::listener::Listener;
use crate::reader::{self, Failed, Transport};
use crate::resolver::Lookup;
use crate::shared::{ClientCore, Shared};
use crate::sys::net::Bell;
#[cfg(feature = "sasl")]
use crate::sys::random;
use crate::sys::thread::{self, JoinHandle};
use crate::sys::{self, select};
#[cfg(feature = "tls")]
use crate::tls::Tls;
#[cfg(doc)]
use crate::types::State;
use crate::types::{SessionEvent, SessionEventKind, SessionKey};

/// Settings of a client; see [`ZooKeeper::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `connect` is called"]
pub struct Builder {
    servers: String,
    session_timeout: Duration,
    connect_timeout: Duration,
    request_timeout: Duration,
    credentials: Vec<Credential>,
    #[cfg(feature = "sasl")]
    sasl: Option<User>,
    listeners: Vec<Listener<SessionEvent>>,
    pub(crate) transport: Transport,
}

impl ZooKeeper {
    /// Opens a session with one of `servers`: hosts and an optional root, such as
    /// `a:2181,b,[::1]:2182/app`. The port defaults to 2181. If there is a root, it must exist, and all
    /// paths are below it. For the errors, see [`Builder::connect`].
    pub fn connect(servers: &str, session_timeout: Duration) -> Result<ZooKeeper> {
        ZooKeeper::builder(servers).session_timeout(session_timeout).connect()
    }

    /// Returns a builder for a client with other settings.
    pub fn builder(servers: &str) -> Builder {
        Builder::new(servers)
    }
}

impl Builder {
    fn new(servers: &str) -> Builder {
        Builder {
            servers: servers.to_owned(),
            session_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(10),
            credentials: Vec::new(),
            #[cfg(feature = "sasl")]
            sasl: None,
            listeners: Vec::new(),
            transport: Transport {
                lookup: Lookup::default(),
                max_answer: 64 * 1024 * 1024,
                #[cfg(feature = "tls")]
                tls: None,
            },
        }
    }

    /// Sets how long the servers keep the session after the last request that they have received; 10 s
    /// by default, from 1 ms to 24 days. The servers may grant another timeout
    /// ([`ZooKeeper::session_timeout`]), by default between 2 and 20 of their ticks of 2 s. For leases,
    /// the timeout has to be at least four ticks, and its minimum and maximum the same on all servers.
    pub fn session_timeout(mut self, timeout: Duration) -> Builder {
        self.session_timeout = timeout;
        self
    }

    /// Sets how long [`connect`](Self::connect) may take; 10 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Builder {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long each call may take; 10 s by default. See also [`ZooKeeper::with_timeout`].
    pub fn request_timeout(mut self, timeout: Duration) -> Builder {
        self.request_timeout = timeout;
        self
    }

    /// Adds credentials, such as `digest` and `user:password`. The client sends them at the beginning
    /// of every connection. May be called several times.
    pub fn auth(mut self, scheme: &str, secret: &[u8]) -> Builder {
        self.credentials.push(Credential { scheme: scheme.to_owned(), secret: secret.to_owned() });
        self
    }

    /// Authenticates by SASL at the beginning of every connection. The mechanism is DIGEST-MD5, which
    /// does not send the password itself; see [SASL](crate#sasl). Calling this again replaces the user.
    #[cfg(feature = "sasl")]
    pub fn sasl(mut self, user: &str, password: &str) -> Builder {
        self.sasl = Some(User::new(user, password, random));
        self
    }

    /// Sends the events of the session to `listener`, from the first
    /// [`Connected`](SessionEventKind::Connected) on, as long as the client lives.
    pub fn subscribe(mut self, listener: &Listener<SessionEvent>) -> Builder {
        self.listeners.push(listener.clone());
        self
    }

    /// Sets the length of the longest accepted answer, in bytes; 64 MiB by default. A longer answer
    /// ends the connection. The servers limit requests to a megabyte by default.
    pub fn max_answer(mut self, bytes: usize) -> Builder {
        self.transport.max_answer = bytes;
        self
    }

    /// Connects to the servers with TLS.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Builder {
        self.transport.tls = Some(tls);
        self
    }

    /// Opens a session.
    ///
    /// Tries each address of each server once. If a server did not accept the connection in time, or
    /// accepted it and did not answer, tries all addresses again, until the timeout.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::BadArguments`] for settings that cannot be used.
    /// - [`ErrorKind::AuthFailed`] for credentials that the servers refuse.
    /// - [`ErrorKind::ConnectFailed`] if no server can be used, or none within the timeout. The error
    ///   contains the reason for each server, and [`Error::connect_failure`] returns what failed.
    /// - [`ErrorKind::NoThread`] if the operating system refuses a thread.
    pub fn connect(self) -> Result<ZooKeeper> {
        let servers = self.servers.clone();
        self.try_connect().map_err(|error| error.of("connect to", &servers))
    }

    /// Returns a client that opens a session in the background, and retries until it has one. Until
    /// then its state is [`State::Connecting`], and calls wait for the session, just as they later wait
    /// for a new connection if one breaks. [`Builder::connect_timeout`] has no effect.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::BadArguments`] for settings that cannot be used.
    /// - [`ErrorKind::NoThread`] if the operating system refuses a thread.
    pub fn connect_lazily(mut self) -> Result<ZooKeeper> {
        let servers = self.servers.clone();
        let credentials = mem::take(&mut self.credentials);
        let started =
            self.start(credentials, None).map_err(|error| error.of("connect to", &servers))?;
        Ok(started.client)
    }

    /// Ends the session of another process that is known to have died. The servers delete its ephemeral
    /// nodes at once, instead of a session timeout later. [`ZooKeeper::session_key`] returns the key.
    /// The timeouts of this builder have no effect.
    ///
    /// This resumes the session at any of the servers, with the shortest timeout that they grant, and
    /// closes it. It waits for at most a session timeout. **If the process is still alive, it loses the
    /// session**, as if the servers had ended it.
    ///
    /// `kept` is dropped when all lookups of names have ended, too: the system's resolver may take
    /// longer than this call.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::BadArguments`] for settings that cannot be used.
    /// - [`ErrorKind::NoThread`] if the operating system refuses a thread.
    /// - [`ErrorKind::NoConnection`] or [`ErrorKind::Timeout`] if no server has confirmed in time that
    ///   the session is over. It is safe to try again.
    #[doc(hidden)]
    pub fn end_session(mut self, key: &SessionKey, kept: impl Send + Sync + 'static) -> Result<()> {
        let (servers, timeout) = (self.servers.clone(), key.timeout);
        self.transport.lookup = self.transport.lookup.keeping(kept);
        let credentials = mem::take(&mut self.credentials);
        let settings = self.session_timeout(timeout).request_timeout(timeout);
        let started = settings.start(credentials, Some(key));
        let started = started.map_err(|error| error.of("connect to", &servers))?;
        started.client.close()
    }

    fn try_connect(mut self) -> Result<ZooKeeper> {
        let begun = sys::now();
        let deadline = begun.checked_add(self.connect_timeout).unwrap_or(begun + FOREVER);
        let credentials = mem::take(&mut self.credentials);
        let started = self.start(Vec::new(), None)?;
        first_session(&started.events, &started.failed, deadline)?;
        let client = started.client;
        for credential in credentials {
            while let Err(error) = client.by(deadline).remember(credential.clone()) {
                if error.kind() != ErrorKind::ConnectionLoss {
                    let failure = match error.kind() {
                        ErrorKind::AuthFailed => ConnectFailure::Credentials,
                        _ => ConnectFailure::Silent,
                    };
                    return Err(error.connecting(failure));
                }
            }
        }
        Ok(client)
    }

    /// Starts the threads of a client that sends these credentials on each connection.
    fn start(self, credentials: Vec<Credential>, session: Option<&SessionKey>) -> Result<Started> {
        let hosts = HostList::parse(&self.servers).map_err(Error::bad)?;
        let milliseconds = self.session_timeout.as_millis();
        if milliseconds == 0 || i32::try_from(milliseconds).is_err() {
            let problem = format!(
                "the session timeout is {milliseconds} ms, but must be 1 to {} ms",
                i32::MAX
            );
            return Err(Error::bad(problem));
        }
        #[cfg(feature = "sasl")]
        if self.sasl.as_ref().is_some_and(|user| user.name().is_empty()) {
            return Err(Error::bad("the name of the SASL user is empty"));
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.transport.tls {
            tls.check()?;
        }
        let no_bell =
            |cause| no_thread(format!("failed to create a file descriptor for wake-ups: {cause}"));
        let bell = Bell::new().map_err(no_bell)?;
        let now = Moment::now();
        let mut core = ClientCore::new(self.session_timeout, now);
        core.know(credentials);
        session.into_iter().for_each(|key| core.take_over(key));
        #[cfg(feature = "sasl")]
        core.be(self.sasl);
        let shared = Arc::new(Shared::new(core, hosts, bell, now));
        let (listener, events) = Listener::channel();
        self.listeners.iter().chain([&listener]).for_each(|each| shared.subscribe(each));
        let (failures, failed) = unbounded();
        let (alive, ended) = bounded(0);
        let (reading, reader_alive) = (Arc::clone(&shared), alive.clone());
        let transport = self.transport;
        let reader = move || {
            reader::run(&reading, &transport, &failures);
            drop(reader_alive);
        };
        let timing = Arc::clone(&shared);
        let timer = move || {
            timing.keep_time();
            drop(alive);
        };
        // From here on, dropping the client ends its threads.
        let client = ZooKeeper::new(&shared, self.request_timeout, ended);
        client.add_thread(spawn("zookeeper-timer", timer)?);
        client.add_thread(spawn("zookeeper-reader", reader)?);
        Ok(Started { client, events, failed, _listener: listener })
    }
}

/// A client that was started, with the events of its session.
struct Started {
    client: ZooKeeper,
    events: Receiver<SessionEvent>,
    failed: Receiver<Failed>,
    /// As long as this is kept, `events` receives the events.
    _listener: Listener<SessionEvent>,
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(name.into()).spawn(run);
    thread.map_err(|cause| no_thread(cause.to_string()))
}

fn no_thread(reason: String) -> Error {
    Error::because(ErrorKind::NoThread, reason)
}

fn first_session(
    events: &Receiver<SessionEvent>,
    failed: &Receiver<Failed>,
    deadline: Instant,
) -> Result<()> {
    let (mut reason, mut failure) = ("no answer".to_owned(), ConnectFailure::Silent);
    loop {
        select! {
            recv(events) -> event => match event.map(|event| event.kind) {
                Ok(SessionEventKind::Connected) => return Ok(()),
                Ok(_) => {}
                Err(_) => break,
            },
            recv(failed) -> failed => match failed {
                Ok(failed) => {
                    reason = failed.causes;
                    failure = failed.failure;
                    if failure == ConnectFailure::Credentials || !failed.is_silent {
                        break;
                    }
                }
                Err(_) => break,
            },
            default(deadline.saturating_duration_since(sys::now())) => break,
        }
    }
    let kind = match failure {
        ConnectFailure::Credentials => ErrorKind::AuthFailed,
        _ => ErrorKind::ConnectFailed,
    };
    Err(Error::because(kind, reason).connecting(failure))
}
