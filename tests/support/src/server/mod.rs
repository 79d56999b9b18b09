//! A real ZooKeeper server that can be stopped, killed, paused and started again.

pub(crate) mod config;
mod four_letter;
pub(crate) mod install;
mod process;
mod sasl;
mod tls;

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::port::ReservedPort;
use crate::wait::poll;
use config::{Config, DATA, Program};
use four_letter::{four_letter, metric};
use install::Installation;
use process::Process;
use sasl::Users;
use tls::Tls;

/// A start takes a fraction of a second, but much longer on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// A server sometimes never answers a connection made during its start. The next one has twice the time,
/// since the machine may be that slow.
const FIRST_ANSWER_WITHIN: Duration = Duration::from_millis(250);
const LONGEST_ANSWER_WITHIN: Duration = Duration::from_secs(8);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
pub(crate) const PORT_ATTEMPTS: usize = 5;
const LOG_TAIL_LINES: usize = 40;

/// A ZooKeeper server of this process, on a port of 127.0.0.1: standalone, or a member of an
/// [`Ensemble`](crate::Ensemble).
///
/// Sessions may last from 1 s to 60 s, and all four-letter words are allowed. Every method takes `&self`, and
/// the port and the data survive stops and starts. The drop of the value and the end of the process, even by
/// SIGKILL, end the server and remove its directory. (A directory may be left in the temporary folder when
/// the server was stopped at that moment.)
#[derive(Debug)]
pub struct Server {
    config: Mutex<Config>,
    installation: Installation,
    port: ReservedPort,
    secure_port: Option<ReservedPort>,
    // Dropped before the directory, since fields drop in order.
    process: Mutex<Option<Process>>,
    folder: TempDir,
}

/// Settings for a [`Server`].
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until `start`"]
pub struct ServerBuilder {
    config: Config,
}

impl ServerBuilder {
    pub(crate) fn of(program: Program) -> Self {
        let config = Config { program, ..Config::default() };
        Self { config }
    }

    /// The port; any free one by default.
    pub fn port(mut self, port: u16) -> Self {
        self.config.port = Some(port);
        self
    }

    /// `tickTime`, the unit of session expiry; 500 ms by default.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.config.tick = tick;
        self
    }

    /// Whether each transaction is forced to disk before its answer; false by default. Without it the data
    /// survives [`Server::kill`], but no crash of the machine.
    pub fn force_sync(mut self, force: bool) -> Self {
        self.config.force_sync = force;
        self
    }

    /// A line `key=value` in the configuration file, which overrides any default. ZooKeeper turns unknown
    /// keys into system properties `zookeeper.<key>`.
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.config.properties.push((key.into(), value.into()));
        self
    }

    /// Another argument for Java, such as `-Xmx1g`.
    pub fn jvm_flag(mut self, flag: &str) -> Self {
        self.config.jvm_flags.push(flag.into());
        self
    }

    /// A second port for TLS, [`Server::secure_address`], beside the plain one. The server shows this chain
    /// of certificates, its own first, and has this key, both in PEM. It asks clients for no certificate.
    ///
    /// [`property`](Self::property) can override ZooKeeper's settings for it, `ssl.*`. Netty then serves both
    /// ports; its jars come with Debian's ZooKeeper. By default ZooKeeper 3.8 speaks only TLS 1.2.
    pub fn tls(mut self, chain_pem: &str, key_pem: &str) -> Self {
        self.config.tls = Some(Tls::new(chain_pem, key_pem));
        self
    }

    /// Requires a client certificate on the TLS port, issued by one of these roots in PEM.
    ///
    /// # Panics
    ///
    /// Without [`tls`](Self::tls) before it.
    pub fn tls_clients(mut self, roots_pem: &str) -> Self {
        let tls = self.config.tls.as_mut();
        let tls = tls.expect("`tls_clients` comes after `tls`");
        tls.require_clients(roots_pem);
        self
    }

    /// The users that SASL (DIGEST-MD5) accepts, by name and password; none by default.
    pub fn sasl_users(mut self, users: &[(&str, &str)]) -> Self {
        self.config.sasl_users = Some(Users::new(users));
        self
    }

    /// Starts the server, and returns when it answers.
    ///
    /// # Errors
    ///
    /// When ZooKeeper or Java is not installed (the text says what to do), when the port is taken, or when
    /// the server does not come up (the text has the end of its log).
    pub fn start(self) -> io::Result<Server> {
        let installation = Installation::find()?;
        if let Program::Source { .. } = self.config.program {
            installation.require_compiler()?;
        }
        let mut attempt = 1;
        loop {
            let server = Server::new(self.config.clone(), installation.clone())?;
            match server.start_again() {
                Ok(()) => return Ok(server),
                // Another process that does not know of the reservation listens on this port.
                Err(error) if attempt < PORT_ATTEMPTS && is_port_taken(&error) => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Server {
    /// Starts a server with default settings; see [`ServerBuilder::start`].
    ///
    /// # Errors
    ///
    /// As [`ServerBuilder::start`].
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// Returns a builder for a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    pub(crate) fn new(config: Config, installation: Installation) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("zoolock-server-").tempdir()?;
        if let Some(users) = &config.sasl_users {
            users.write(folder.path())?;
        }
        let secure_port = config.tls.as_ref().map(|_| ReservedPort::any());
        Ok(Self {
            installation,
            port: config.port.map_or_else(ReservedPort::any, ReservedPort::at)?,
            secure_port: secure_port.transpose()?,
            config: Mutex::new(config),
            process: Mutex::new(None),
            folder,
        })
    }

    /// Returns the address for clients, which never changes.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// The address in the format of ZooKeeper clients, `127.0.0.1:<port>`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.address().to_string()
    }

    /// The address for clients with TLS; it never changes.
    ///
    /// # Panics
    ///
    /// When the server was not started with [`ServerBuilder::tls`].
    #[must_use]
    pub fn secure_address(&self) -> SocketAddr {
        self.secure().expect("this server was started without `ServerBuilder::tls`")
    }

    /// Shuts the server down in order (SIGTERM), and waits for its end. The data stay. Does nothing when it
    /// is not running.
    ///
    /// # Errors
    ///
    /// When the process cannot be ended.
    pub fn stop(&self) -> io::Result<()> {
        self.process().take().map_or(Ok(()), Process::terminate)
    }

    /// Kills the server (SIGKILL), and waits for its end. The data stay. Does nothing when it is not running.
    ///
    /// # Errors
    ///
    /// When the process cannot be ended.
    pub fn kill(&self) -> io::Result<()> {
        self.process().take().map_or(Ok(()), Process::kill)
    }

    /// Starts the server after a stop or kill, with the same data and port, and returns when it answers. A
    /// member of an ensemble answers while it looks for the others, since these may not run.
    /// [`Ensemble::wait_ready`](crate::Ensemble::wait_ready) waits for the quorum.
    ///
    /// # Errors
    ///
    /// When it is already running or does not come up (the text has the end of its log).
    pub fn start_again(&self) -> io::Result<()> {
        let mut process = self.process();
        if process.as_mut().is_some_and(|running| !running.has_exited()) {
            return Err(io::Error::other("the server is running already"));
        }
        let config = self.config().clone();
        let config_file = self.path("zoo.cfg");
        let data = self.path(DATA);
        fs::create_dir_all(&data)?;
        if let Some(membership) = &config.membership {
            fs::write(data.join("myid"), membership.id.to_string())?;
        }
        let folder = self.folder.path();
        let text = config.text(folder, self.address(), self.secure());
        fs::write(&config_file, text)?;
        config.program.write(folder)?;
        if let Some(tls) = &config.tls {
            tls.write(folder)?;
        }
        // The log covers this start only, so that its end shows this start's problem.
        fs::write(self.path("log"), "")?;
        let command = config.command(&self.installation, &config_file);
        let mut started = Process::spawn(command, folder, &self.path("log"))?;
        self.wait_until_ready(&mut started)?;
        *process = Some(started);
        Ok(())
    }

    /// Replaces the users of [`sasl_users`](ServerBuilder::sasl_users) from the next start on. Without those
    /// this does nothing.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn set_sasl_users(&self, users: &[(&str, &str)]) -> io::Result<()> {
        Users::new(users).write(self.folder.path())
    }

    /// Adds a line `key=value` to the configuration file from the next start on. It overrides earlier ones;
    /// see [`property`](ServerBuilder::property).
    pub fn set_property(&self, key: &str, value: &str) {
        self.config().properties.push((key.into(), value.into()));
    }

    /// Removes the data of a stopped server. After the next start it knows no node and no session.
    ///
    /// # Errors
    ///
    /// When it is running, or the files cannot be removed.
    pub fn wipe(&self) -> io::Result<()> {
        match *self.process() {
            Some(_) => Err(io::Error::other("the server is running")),
            None => fs::remove_dir_all(self.path(DATA)),
        }
    }

    /// [`stop`](Self::stop) and [`start_again`](Self::start_again).
    ///
    /// # Errors
    ///
    /// As those.
    pub fn restart(&self) -> io::Result<()> {
        self.stop()?;
        self.start_again()
    }

    /// Pauses the server (SIGSTOP): its connections stay open, and nothing is answered.
    ///
    /// # Errors
    ///
    /// When it is not running.
    pub fn pause(&self) -> io::Result<()> {
        self.running(Process::pause)
    }

    /// Lets a paused server continue (SIGCONT).
    ///
    /// # Errors
    ///
    /// When it is not running.
    pub fn resume(&self) -> io::Result<()> {
        self.running(Process::resume)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.process().as_ref().is_some_and(Process::is_paused)
    }

    /// The process id of the server; `None` when it is not running.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.process().as_ref().map(Process::id)
    }

    /// Returns the answer to a four-letter word such as `mntr`, `cons` or `wchp`.
    ///
    /// # Errors
    ///
    /// When the server does not answer within 5 s.
    pub fn four_letter(&self, word: &str) -> io::Result<String> {
        self.four_letter_within(word, ANSWER_WITHIN)
    }

    pub(crate) fn four_letter_within(&self, word: &str, longest: Duration) -> io::Result<String> {
        four_letter(self.address(), word, longest)
    }

    /// Returns a whole number from `mntr`, such as `zk_packets_received` or `zk_watch_count`.
    ///
    /// The question itself costs packets: each four-letter word adds 1 to `zk_packets_received`, counted
    /// before the answer. The addition to `zk_packets_sent` depends on the length of the answer, and so on
    /// the version.
    ///
    /// # Errors
    ///
    /// When the server does not answer within 5 s, or has no such whole number.
    pub fn metric(&self, name: &str) -> io::Result<u64> {
        metric(&self.four_letter("mntr")?, name)
    }

    /// Returns the last lines of the server's log, for the messages of failed tests.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let log = fs::read(self.path("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    fn wait_until_ready(&self, started: &mut Process) -> io::Result<()> {
        let mut patience = FIRST_ANSWER_WITHIN;
        let outcome = poll(READY_WITHIN, || {
            if started.has_exited() {
                return Some(Err("ended at once"));
            }
            let asked = Instant::now();
            let ready = self.is_ready(patience);
            if asked.elapsed() >= patience {
                patience = LONGEST_ANSWER_WITHIN.min(patience * 2);
            }
            ready.then_some(Ok(()))
        });
        let Err(what) = outcome.unwrap_or(Err("did not answer in time")) else {
            return Ok(());
        };
        let tail = self.log_tail();
        Err(io::Error::other(format!(
            "failed to start a ZooKeeper server on {}: it {what}; the end of its log:\n{tail}",
            self.address(),
        )))
    }

    /// Only a server that serves requests answers `conf` with its settings, and the directory proves that it
    /// is this one. Any server answers `ruok`.
    fn is_ready(&self, patience: Duration) -> bool {
        if self.config().membership.is_some() {
            return four_letter(self.address(), "ruok", patience)
                .is_ok_and(|answer| answer == "imok");
        }
        let own = format!("dataDir={}", self.path(DATA).display());
        four_letter(self.address(), "conf", patience).is_ok_and(|answer| answer.contains(&own))
            && self.listens_for_tls(patience)
    }

    /// The port for TLS opens after the other one.
    fn listens_for_tls(&self, patience: Duration) -> bool {
        self.secure().is_none_or(|secure| TcpStream::connect_timeout(&secure, patience).is_ok())
    }

    fn secure(&self) -> Option<SocketAddr> {
        self.secure_port.as_ref().map(ReservedPort::address)
    }

    fn running(&self, act: impl FnOnce(&mut Process) -> io::Result<()>) -> io::Result<()> {
        let mut process = self.process();
        let stopped = || io::Error::other("the server is not running");
        act(process.as_mut().ok_or_else(stopped)?)
    }

    fn config(&self) -> MutexGuard<'_, Config> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

pub(crate) fn is_port_taken(error: &io::Error) -> bool {
    error.to_string().contains("java.net.BindException")
}
