//! The command line.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::process;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use nix::sys::signal::Signal;
use zoolock::{Client, ClientBuilder, Error};

use crate::exit::{CONFLICT, Failed, USAGE};
use crate::settings::{Setting, in_file};

/// The help below the options.
macro_rules! help {
    ($name:literal) => {
        include_str!(concat!("help/", $name, ".txt")).trim_ascii_end()
    };
}

/// The library's default session timeout, which limits connecting.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The default settings file.
const SETTINGS: &str = "/etc/zoolock.toml";

/// The environment variable with the name of another settings file.
const CONFIG: &str = "ZOOKEEPER_CONFIG";

/// The environment variable with the identity of the outer zoolock. Nested runs share one identity,
/// so that a list shows when one of them waits for another.
pub(crate) const IDENTITY: &str = "ZOOLOCK_IDENTITY";

/// The environment variable with the socket of a reaper.
pub(crate) const REAPER: &str = "ZOOLOCK_REAPER";

/// The environment variable with the credentials.
pub(crate) const AUTH: &str = "ZOOKEEPER_AUTH";

/// Distributed locks on Apache ZooKeeper: run a program under a lock, see who holds it
#[derive(Debug, Parser)]
#[command(name = "zoolock", version, after_help = help!("zoolock"), max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) action: Action,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Run a program while holding a lock
    Run(Run),
    /// Run a program while leading, term after term
    #[command(after_help = help!("lead"))]
    Lead(Program),
    /// Show who holds a lock and who waits for it
    #[command(after_help = help!("list"))]
    List {
        /// Print JSON, an array of objects
        #[arg(long)]
        json: bool,
        /// Show all locks at PATH and below
        #[arg(short, long)]
        recursive: bool,
        #[command(flatten)]
        lock: Target,
    },
    /// Show who holds a lock and who waits for it, live
    #[command(after_help = help!("watch"))]
    Watch {
        /// The time between two polls
        #[arg(long, value_name = "SECS", default_value = "1", value_parser = interval, allow_negative_numbers = true)]
        interval: Duration,
        /// Show all locks at PATH and below, busiest first
        #[arg(short, long)]
        recursive: bool,
        /// Print a JSON object on a line for each change
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        lock: Target,
    },
    /// Check whether a fencing token is the current holder's
    #[command(after_help = help!("verify"))]
    Verify {
        #[command(flatten)]
        lock: Target,
        /// The fencing token, in decimal or hexadecimal (0x..)
        #[arg(value_parser = token)]
        token: u64,
    },
    /// Ask the holders of a lock to release it
    #[command(after_help = help!("revoke"))]
    Revoke(Target),
    /// Take a lock from a holder that does not release it
    #[command(after_help = help!("break"))]
    Break {
        #[command(flatten)]
        lock: Target,
        /// The fencing token of the contender, in decimal or hexadecimal (0x..)
        #[arg(long, value_name = "N", value_parser = token)]
        token: u64,
    },
    /// Check the servers, and what this client may do there
    #[command(after_help = help!("doctor"))]
    Doctor {
        /// Print JSON, an object with the servers and the findings
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        servers: Servers,
        /// The path of a lock: also check what this client may do there
        path: Option<String>,
    },
    /// End the sessions of programs on this machine that die, which frees their locks at once
    #[command(after_help = help!("reaper"))]
    Reaper {
        /// The Unix socket to create, where programs register
        #[arg(long, value_name = "PATH")]
        socket: PathBuf,
    },
    /// Write a completion script for a shell
    #[command(after_help = help!("completions"))]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the man pages
    #[command(after_help = help!("man"))]
    Man {
        /// The folder for the pages, one for each subcommand; created if it is missing
        folder: PathBuf,
    },
}

/// A lock, and the settings of its servers.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    servers: Servers,
    /// The path of the lock
    pub(crate) path: String,
}

impl Target {
    /// Connects with the default identity.
    pub(crate) fn connect(&self) -> Result<Client, Failed> {
        self.servers.connect_as(&own_identity(), None)
    }
}

/// The settings of the servers.
#[derive(Debug, Clone, Args)]
pub(crate) struct Servers {
    /// The servers, HOST:PORT[,HOST:PORT]..[/CHROOT] [env: ZOOKEEPER_CONNECT]
    #[arg(short, long, value_name = "HOSTS")]
    connect: Option<String>,
    /// How long the servers keep the locks of a client that has gone silent, 10 by default; at least four ticks of the servers, and within their bounds (4 to 40 by default) [env: ZOOKEEPER_SESSION_TIMEOUT]
    #[arg(long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    session_timeout: Option<Duration>,
    /// Use TLS, at the servers' secureClientPort [env: ZOOKEEPER_TLS]
    #[arg(long)]
    tls: bool,
    /// Use TLS, and trust these root certificates (PEM) instead of the system's [env: ZOOKEEPER_CACERT]
    #[arg(long, value_name = "FILE")]
    cacert: Option<OsString>,
    /// Use TLS, and present this client certificate (PEM); needs --key [env: ZOOKEEPER_CERT]
    #[arg(long, value_name = "FILE")]
    cert: Option<OsString>,
    /// The private key of --cert (PEM), in a file that must not be accessible to all users [env: ZOOKEEPER_KEY]
    #[arg(long, value_name = "FILE")]
    key: Option<OsString>,
    /// A settings file (TOML) that may set connect, session_timeout, auth, tls, cacert, cert and key; /etc/zoolock.toml by default [env: ZOOKEEPER_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<OsString>,
    /// Fail if the CHROOT of HOSTS does not exist, because it may be misspelled; by default it is created
    #[arg(long)]
    pub(crate) no_create: bool,
}

impl Servers {
    /// Returns the settings of a client.
    pub(crate) fn builder(&self) -> Result<ClientBuilder, Failed> {
        let file = self.file()?;
        let own = |name: &str| {
            // Unlike the supervisor, a reaper would not wait for the program's descendants.
            let is_for_programs = name == REAPER;
            let text = self.option(name).or_else(|| env::var_os(name));
            text.filter(|text| !text.is_empty() && !is_for_programs)
        };
        let builder = ClientBuilder::from_vars(|name| {
            own(name).or_else(|| file.get(name).map(|(text, _)| text.clone()))
        });
        let builder = builder.map_err(|error| match &error {
            Error::InvalidArgument { what, .. }
                if own(what).is_none() && file.contains_key(*what) =>
            {
                Failed::new(USAGE, format!("{error}{}", file[*what].1))
            }
            _ => self.wrong(error),
        })?;
        Ok(builder.existing_chroot(self.no_create))
    }

    /// Connects with this identity, within this time.
    fn connect_as(&self, identity: &str, within: Option<Duration>) -> Result<Client, Failed> {
        let mut builder = self.builder()?.identity(identity);
        if let Some(within) = within {
            let longest = self.session_timeout.unwrap_or(SESSION_TIMEOUT);
            builder = builder.connect_timeout(within.min(longest).max(Duration::from_millis(1)));
        }
        builder.connect().map_err(|error| self.wrong(error))
    }

    /// Reads the file that the option names, otherwise that of the variable, otherwise the default file
    /// if it exists.
    fn file(&self) -> Result<BTreeMap<String, Setting>, Failed> {
        let default = || Path::new(SETTINGS).exists().then(|| (SETTINGS, SETTINGS.into()));
        let option = self.config.clone().map(|file| ("--config", file));
        let named = option.or_else(|| Some((CONFIG, env::var_os(CONFIG)?))).or_else(default);
        let Some((what, file)) = named.filter(|(_, file)| !file.is_empty()) else {
            return Ok(BTreeMap::new());
        };
        let wrong = |reason| Failed::new(USAGE, format!("invalid {what}: {reason}"));
        in_file(Path::new(&file)).map_err(wrong)
    }

    /// Renames a setting in an error: the library names the variable, but the user set an option.
    pub(crate) fn wrong(&self, error: Error) -> Failed {
        let Error::InvalidArgument { what, reason, .. } = &error else {
            return error.into();
        };
        let option = what.strip_prefix("ZOOKEEPER_").filter(|_| self.option(what).is_some());
        let place = match option {
            Some(option) => format!("--{}", option.to_lowercase().replace('_', "-")),
            None if *what == "identity" => "--identity".to_owned(),
            None => return error.into(),
        };
        Failed::new(USAGE, format!("invalid {place}: {reason}"))
    }

    /// Returns the option that replaces a variable of the environment.
    fn option(&self, name: &str) -> Option<OsString> {
        match name {
            "ZOOKEEPER_CONNECT" => self.connect.as_ref().map(OsString::from),
            "ZOOKEEPER_SESSION_TIMEOUT" => {
                self.session_timeout.map(|timeout| timeout.as_secs_f64().to_string().into())
            }
            // A certificate option turns TLS on, even if the environment turns it off.
            "ZOOKEEPER_TLS" => {
                let files = [&self.cacert, &self.cert, &self.key];
                let is_meant = self.tls || files.into_iter().any(Option::is_some);
                is_meant.then(|| "true".into())
            }
            "ZOOKEEPER_CACERT" => self.cacert.clone(),
            "ZOOKEEPER_CERT" => self.cert.clone(),
            "ZOOKEEPER_KEY" => self.key.clone(),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Args)]
#[command(after_help = help!("run"))]
pub(crate) struct Run {
    /// Hold the lock alone (the default)
    #[arg(short = 'x', short_alias = 'e', long, group = "kind")]
    exclusive: bool,
    /// Share the lock with others that use -s
    #[arg(short, long, group = "kind")]
    pub(crate) shared: bool,
    /// Take one of N permits. All users of PATH must set the same N (zoolock warns of a different one), and must not use -x or -s there (not checked): locks and permits do not exclude each other
    #[arg(long, value_name = "N", group = "kind", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) semaphore: Option<u32>,
    /// Take this many permits of the N at once
    #[arg(long, value_name = "COUNT", requires = "semaphore", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) permits: u32,
    /// Do not wait if another client has the lock
    #[arg(short, long, visible_alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,
    /// Wait for at most this long, for servers and for the lock; 0 is the same as -n
    #[arg(short, long, visible_alias = "timeout", value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) wait: Option<Duration>,
    /// Wait for servers for at most this long, even with -n; -w then limits only the wait for the lock
    #[arg(long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) wait_servers: Option<Duration>,
    /// The exit code if another client has the lock (-n), or keeps it for too long (-w)
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = CONFLICT, allow_negative_numbers = true)]
    pub(crate) conflict_exit_code: u8,
    /// Keep the lock for at least this long after acquiring it, even if the program ends earlier: for a short job that is due on many machines, whose clocks differ
    #[arg(long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) hold_at_least: Option<Duration>,
    /// Send this signal, such as TERM, to the program when another client requests the release of the lock (`zoolock revoke`)
    #[arg(long, value_name = "SIGNAL", value_parser = signal)]
    pub(crate) on_revoke: Option<Signal>,
    #[command(flatten)]
    pub(crate) program: Program,
}

/// A program, and the lock that it runs under.
#[derive(Debug, Clone, Args)]
pub(crate) struct Program {
    /// Report the queue position and other events on standard error
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Leave ZOOKEEPER_AUTH in the program's environment
    #[arg(long)]
    pub(crate) keep_auth: bool,
    /// Ignore descendants of the program that have sessions of their own (setsid): neither wait for them nor end them
    #[arg(long)]
    pub(crate) leave_daemons: bool,
    /// The identity in the nodes of the lock; by default that of the outer zoolock, or HOST/PID
    #[arg(long, value_name = "TEXT")]
    identity: Option<String>,
    #[command(flatten)]
    pub(crate) lock: Target,
    /// The program to run, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

impl Run {
    /// Returns the settings of an exclusive lock, with no limit on the wait.
    pub(crate) fn alone(program: Program) -> Run {
        Run {
            exclusive: true,
            shared: false,
            semaphore: None,
            permits: 1,
            nonblock: false,
            wait: None,
            wait_servers: None,
            conflict_exit_code: CONFLICT,
            hold_at_least: None,
            on_revoke: None,
            program,
        }
    }
}

impl Program {
    /// Connects, within this time.
    pub(crate) fn connect(&self, within: Option<Duration>) -> Result<Client, Failed> {
        self.lock.servers.connect_as(&self.identity(), within)
    }

    /// Returns the identity for the lock's nodes.
    pub(crate) fn identity(&self) -> String {
        let around = || env::var(IDENTITY).ok().filter(|identity| !identity.is_empty());
        self.identity.clone().or_else(around).unwrap_or_else(own_identity)
    }
}

fn own_identity() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    format!("{}/{}", host.to_string_lossy(), process::id())
}

fn token(text: &str) -> Result<u64, ParseIntError> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
}

/// Parses an interval, which must be long enough not to overload the servers.
fn interval(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        interval if interval < SHORTEST_INTERVAL => Err("less than 0.01 seconds".to_owned()),
        interval => Ok(interval),
    }
}

/// Parses a duration: a number of seconds, or numbers with units.
fn seconds(text: &str) -> Result<Duration, String> {
    let parsed = match text.trim().parse() {
        Ok(number) if number < 0.0 => Err("less than 0"),
        Ok(number) if !f64::is_nan(number) => {
            Duration::try_from_secs_f64(number).map_err(|_| "too long")
        }
        _ => humantime::parse_duration(text)
            .map_err(|_| "not a duration (expected e.g. 90, 0.5, 500ms, 5m or 1h30m)"),
    };
    parsed.map_err(str::to_owned)
}

/// Parses a signal: its name, with or without `SIG`, or its number.
fn signal(text: &str) -> Result<Signal, String> {
    let name = text.to_uppercase();
    let name = format!("SIG{}", name.strip_prefix("SIG").unwrap_or(&name));
    let by_number = || text.parse().ok().and_then(|number: i32| Signal::try_from(number).ok());
    let signal = Signal::from_str(&name).ok().or_else(by_number);
    signal.ok_or_else(|| "not a signal (expected e.g. TERM or USR1)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_add_up_their_parts() {
        for (text, millis) in [
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("1m 1s500ms", 61_500),
            (" 60 s", 60_000),
            ("1.5", 1500),
        ] {
            assert_eq!(seconds(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["1h30", "1h-1m", "-1h1m", "h1m", "1hm", "1e300h1m", "1x", "s", "1,5", "0x10"] {
            println!("{text}: {}", seconds(text).expect_err(text));
        }
    }
}
