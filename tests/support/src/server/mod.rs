//! A real ZooKeeper server that can be stopped, killed, paused and started again.

pub(crate) mod builder;
pub(crate) mod install;
mod process;

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::lock;
use crate::port::ReservedPort;
use crate::wait::poll;
pub use builder::ServerBuilder;
use builder::{DATA, jaas};
use install::Installation;
use process::Process;

/// The limit for a start, which takes a fraction of a second, but much longer on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// A server sometimes never answers a connection that was opened while it started. Each next connection is given twice
/// the time, because the machine may also be just slow.
const FIRST_ANSWER_WITHIN: Duration = Duration::from_millis(250);
const LONGEST_ANSWER_WITHIN: Duration = Duration::from_secs(8);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const PORT_ATTEMPTS: usize = 5;
const LOG_TAIL_LINES: usize = 40;

/// A ZooKeeper server started by this process, on a port of 127.0.0.1. It is either standalone or a member of an
/// [`Ensemble`](crate::Ensemble).
///
/// Session timeouts may be from 1 s to 60 s, and all four-letter words are allowed. Every method takes `&self`. The
/// port and the data survive stops and starts. When the value is dropped or the process ends, even by SIGKILL, the
/// server ends and its directory is removed. (If the server is just being stopped at that moment, the directory may
/// remain in the temporary folder.)
#[derive(Debug)]
pub struct Server {
    settings: Mutex<ServerBuilder>,
    installation: Installation,
    port: ReservedPort,
    secure_port: Option<ReservedPort>,
    // Fields are dropped in this order, so the process ends before its directory is removed.
    process: Mutex<Option<Process>>,
    folder: TempDir,
}

impl Server {
    /// Starts a server with default settings; see [`ServerBuilder::start`].
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// Returns a builder for a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    pub(crate) fn new(settings: ServerBuilder, installation: Installation) -> io::Result<Self> {
        Ok(Self {
            installation,
            port: settings.port.map_or_else(ReservedPort::any, ReservedPort::at)?,
            secure_port: settings.has_tls.then(ReservedPort::any).transpose()?,
            settings: Mutex::new(settings),
            process: Mutex::new(None),
            folder: tempfile::Builder::new().prefix("zoolock-server-").tempdir()?,
        })
    }

    /// Returns the address for clients. It never changes.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Returns the address in the format of ZooKeeper clients, `127.0.0.1:<port>`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.address().to_string()
    }

    /// Returns the address for TLS clients. It never changes.
    ///
    /// # Panics
    ///
    /// If the server was not started with [`ServerBuilder::tls`].
    #[must_use]
    pub fn secure_address(&self) -> SocketAddr {
        self.secure().expect("this server was started without `ServerBuilder::tls`")
    }

    /// Shuts down the server in an orderly way (SIGTERM), and waits until it has ended. The data are kept. Does nothing
    /// if the server is not running.
    pub fn stop(&self) -> io::Result<()> {
        lock(&self.process).take().map_or(Ok(()), Process::terminate)
    }

    /// Like [`stop`](Self::stop), but kills the server (SIGKILL).
    pub fn kill(&self) -> io::Result<()> {
        lock(&self.process).take().map_or(Ok(()), Process::kill)
    }

    /// Starts the server after it was stopped or killed, with the same data and port, and returns when it answers. A
    /// member of an ensemble answers even while it searches for the others, because they may not be running;
    /// [`Ensemble::wait_ready`](crate::Ensemble::wait_ready) waits for the quorum. Fails if the server is already
    /// running or does not start (the error contains the end of its log).
    pub fn start_again(&self) -> io::Result<()> {
        let mut process = lock(&self.process);
        if process.as_mut().is_some_and(|running| !running.has_exited()) {
            return Err(io::Error::other("the server is running already"));
        }
        let settings = lock(&self.settings).clone();
        let folder = self.folder.path();
        let command = settings.write(&self.installation, folder, self.address(), self.secure())?;
        // The log is emptied, so that it only contains the problems of this start.
        fs::write(self.path("log"), "")?;
        let mut started = Process::spawn(command, folder, &self.path("log"))?;
        self.wait_until_ready(&mut started, settings.membership.is_some())?;
        *process = Some(started);
        Ok(())
    }

    /// Replaces the users of [`sasl_users`](ServerBuilder::sasl_users) for the next start. Fails if the server was
    /// first started without users.
    pub fn set_sasl_users(&self, users: &[(&str, &str)]) -> io::Result<()> {
        let mut settings = lock(&self.settings);
        let none = || io::Error::other("the server was started without users");
        *settings.jaas.as_mut().ok_or_else(none)? = jaas(users);
        Ok(())
    }

    /// Adds a line `key=value` to the configuration file for the next start. It overrides earlier lines; see
    /// [`property`](ServerBuilder::property).
    pub fn set_property(&self, key: &str, value: &str) {
        lock(&self.settings).set_property(key, value);
    }

    /// Removes the data of a stopped server, which then has neither nodes nor sessions after the next start. Fails if
    /// the server is running.
    pub fn wipe(&self) -> io::Result<()> {
        match *lock(&self.process) {
            Some(_) => Err(io::Error::other("the server is running")),
            None => fs::remove_dir_all(self.path(DATA)),
        }
    }

    /// Calls [`stop`](Self::stop) and then [`start_again`](Self::start_again).
    pub fn restart(&self) -> io::Result<()> {
        self.stop()?;
        self.start_again()
    }

    /// Pauses the server (SIGSTOP): its connections stay open, but it does not answer. Fails if the server is not
    /// running.
    pub fn pause(&self) -> io::Result<()> {
        self.running(Process::pause)
    }

    /// Resumes a paused server (SIGCONT).
    pub fn resume(&self) -> io::Result<()> {
        self.running(Process::resume)
    }

    /// Returns the process id of the server, or `None` if it is not running.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        lock(&self.process).as_ref().map(Process::id)
    }

    /// Returns whether the server is running and not paused.
    pub(crate) fn is_active(&self) -> bool {
        lock(&self.process).as_ref().is_some_and(|process| !process.paused)
    }

    /// Returns the answer to a four-letter word such as `mntr`, `cons` or `wchp`. Fails if no answer arrives within 30
    /// s.
    pub fn four_letter(&self, word: &str) -> io::Result<String> {
        ask(self.address(), word, ANSWER_WITHIN)
    }

    /// Returns an integer from `mntr`, such as `zk_packets_received` or `zk_watch_count`.
    ///
    /// This call itself changes the counts: each four-letter word adds 1 to `zk_packets_received` before it is
    /// answered. How much it adds to `zk_packets_sent` depends on the length of the answer, and therefore on the
    /// version.
    pub fn metric(&self, name: &str) -> io::Result<u64> {
        let answer = self.four_letter("mntr")?;
        let mut lines = answer.lines().filter_map(|line| line.split_once('\t'));
        let value = lines.find(|(key, _)| *key == name).map(|(_, value)| value.trim().parse());
        value.and_then(Result::ok).ok_or_else(|| {
            io::Error::other(format!("no whole number `{name}` among the metrics:\n{answer}"))
        })
    }

    /// Returns the last lines of the server's log, to be printed when a test fails.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let log = fs::read(self.path("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    fn wait_until_ready(&self, started: &mut Process, is_member: bool) -> io::Result<()> {
        let mut patience = FIRST_ANSWER_WITHIN;
        let outcome = poll(READY_WITHIN, || {
            if started.has_exited() {
                return Some(Err("ended at once"));
            }
            let asked = Instant::now();
            let ready = self.is_ready(is_member, patience);
            if asked.elapsed() >= patience {
                patience = LONGEST_ANSWER_WITHIN.min(patience * 2);
            }
            ready.then_some(Ok(()))
        });
        outcome.unwrap_or(Err("did not answer in time")).map_err(|what| {
            let (address, tail) = (self.address(), self.log_tail());
            io::Error::other(format!(
                "failed to start a ZooKeeper server on {address}: it {what}; the end of its log:\n{tail}"
            ))
        })
    }

    /// Only a server that serves requests answers `conf` with its settings, whereas any server answers `ruok`. The data
    /// directory proves that it is this server. The TLS port is opened after the plain one, so it is checked as well.
    fn is_ready(&self, is_member: bool, patience: Duration) -> bool {
        let own = format!("dataDir={}", self.path(DATA).display());
        let (word, expected) = if is_member { ("ruok", "imok") } else { ("conf", &*own) };
        let connects = |secure| TcpStream::connect_timeout(&secure, patience).is_ok();
        ask(self.address(), word, patience).is_ok_and(|answer| answer.contains(expected))
            && self.secure().is_none_or(connects)
    }

    fn secure(&self) -> Option<SocketAddr> {
        self.secure_port.as_ref().map(ReservedPort::address)
    }

    fn running(&self, act: impl FnOnce(&mut Process) -> io::Result<()>) -> io::Result<()> {
        let stopped = || io::Error::other("the server is not running");
        act(lock(&self.process).as_mut().ok_or_else(stopped)?)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Sends a text, and returns everything received until the connection ends. No step may take longer than `longest`.
pub(crate) fn ask(address: SocketAddr, text: &str, longest: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, longest)?;
    stream.set_read_timeout(Some(longest))?;
    stream.set_write_timeout(Some(longest))?;
    stream.write_all(text.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Starts servers. Tries again if one of the ports is used by another process, which ignores our reservations.
pub(crate) fn on_free_ports<T>(start: impl Fn() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..PORT_ATTEMPTS {
        match start() {
            Err(error) if error.to_string().contains("java.net.BindException") => {}
            outcome => return outcome,
        }
    }
    start()
}
