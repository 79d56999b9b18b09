//! The command line.

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

const HELP: &str = "\
`zoolock run --help` has the exit codes.

Examples:
  export ZOOKEEPER_CONNECT=zk1:2181,zk2:2181,zk3:2181/my-app

  zoolock run /locks/backup backup.sh --all   one at a time among all machines
  zoolock run -n /locks/report report         only if nobody else is at it
  zoolock run -n -E 0 --hold-at-least 1m /locks/nightly nightly.sh
                                              due on all machines at once: one of them does it
  zoolock run -w 1m -v /locks/deploy deploy   wait for a minute, and see the queue
  zoolock lead /services/scheduler scheduler  on several machines, of which one runs it
  zoolock list /locks/backup                  who has it, who waits for it
  zoolock list -r /locks                      all that somebody has or waits for
  zoolock watch /locks/backup                 who has it and who waits for it, live

Environment:
  ZOOKEEPER_CONNECT  the servers, HOST:PORT[,HOST:PORT]..[/CHROOT], where -c does not name them
  ZOOKEEPER_AUTH     if the servers want to know who asks: digest:user:password, sasl:user:password
                     (DIGEST-MD5), or another scheme and its secret, here so that nobody sees them in
                     a list of processes. What zoolock makes then belongs to these credentials, and
                     whoever shares the lock needs the same. They are kept from what `zoolock run` and
                     `zoolock lead` run, unless they are told --keep-auth.
  ZOOKEEPER_TLS, ZOOKEEPER_CACERT, ZOOKEEPER_CERT, ZOOKEEPER_KEY, ZOOKEEPER_SESSION_TIMEOUT
                     as the options of these names, which win
  ZOOKEEPER_CONFIG   a file of settings, as --config; /etc/zoolock.toml, if there is one, where
                     neither names a file
  NOTIFY_SOCKET      where `zoolock run` and `zoolock lead` tell a service manager how they are, by
                     sd_notify(3)

A file of settings is TOML, with connect, session_timeout, auth, tls, cacert, cert and key: what is
not said by an option or a variable. With auth in it, it must not be open to everybody.

SECS is a number of seconds, or one with a unit: 500ms, 90s, 5m, 1.5h.";

/// How long connecting may take, as the library has it for a session timeout that is not given.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Where the settings are that nothing else says.
const SETTINGS: &str = "/etc/zoolock.toml";

/// The environment variable with the name of another file of settings.
const CONFIG: &str = "ZOOKEEPER_CONFIG";

/// The environment variable with the credentials.
pub(crate) const AUTH: &str = "ZOOKEEPER_AUTH";

const RUN: &str = "\
The program runs in a process group of its own, which is the terminal's foreground group if standard
input is a terminal. INT, TERM, HUP, QUIT, USR1, USR2 and TSTP are handed on to the group, but for those
that were ignored when zoolock was started, as INT is behind a script's `&`. The lock is released when
the program and all that it has started have ended; what is to go on without the lock needs a session
of its own (setsid). When nobody is left of the group, the signals go to what is left elsewhere, such
as in the groups that timeout(1) makes.

If the lock is about to be lost (no server was heard of for so long that somebody else may get it
soon), all of them get TERM when a tenth of the session timeout is left, and KILL at the end. If its
node was deleted there is no time left, and KILL comes at once. A program that becomes another user
(sudo) cannot be killed: run zoolock as that user.

If zoolock itself is killed, so are they; if it is stopped, they are killed when the lock may be lost:
a second process, the guard, watches over it. The program is not started before the guard is ready. A
guard that is killed is replaced, and one that is stopped goes on, as long as zoolock itself runs. Where
the system gives no other guard, the program is killed at once (71). Who kills both at the same instant
kills the program, too (on Linux), but not what it has started. A service manager ends that as well, as
in the last example, but has an environment of its own.

ZOOKEEPER_AUTH is kept from the program, which could do with it whatever zoolock may. What needs it,
as a zoolock inside this one does, takes --keep-auth. This keeps it out of logs, and from what is
started in turn; a program of the same user that looks for it finds it in zoolock's own environment.

What -v says never holds up the lock, the program or a signal: if nobody reads it, lines are left out.

For a job that is due on many machines at the same time, -n alone is not enough: a machine whose clock
is late finds the lock free, and runs the job once more, when the job has ended by then. With
--hold-at-least, zoolock keeps the lock until so long after it was granted, whatever the program's exit
code is, stays for as long, and ends with that code. Say more than the clocks differ by, and less than
the time until the job is due again. INT, TERM, HUP, QUIT, USR1 and USR2 end it early.

-w waits for servers, too, if there is none in the beginning. Without -w, and with -n, zoolock ends with
69 then, so that a wrong address is noticed; later outages are waited out in any case.

With systemd's Type=notify the service has started (READY=1) when the program has, and STATUS says how
many are ahead; to wait for the lock counts as starting, for which TimeoutStartSec= is the limit. The
program does not get NOTIFY_SOCKET, for zoolock speaks for the service.

The same path inside itself waits for ever, as with flock(1). What flock(1) is given as -c 'COMMAND'
is written sh -c 'COMMAND' here, where -c names the servers.

Environment of the program:
  ZOOLOCK_PATH   the lock's path
  ZOOLOCK_TOKEN  the fencing token, which rises from one holder to the next: have whatever the
                 program writes to refuse lower ones, from before the program reads it
  ZOOLOCK_NODE   the node that stood for the hold when the program was started
  ZOOLOCK_NODES  the same, behind those of the locks around it: by this, zoolock knows on Linux what
                 the program has started, so it is to be left there

Exit codes:
  any  that of the program; 128 + the signal that ended it, or zoolock before it ran
  1    somebody else had the lock (-n), or had it for too long (-w); -E gives another code
  64   the command line, a variable or a file of settings is wrong
  69   no connection, or no answer
  71   the system would not start a process or a thread: the program was not started, or was killed
  74   the lock was lost while the program ran
  77   no permission, or the servers refuse the credentials
  126  the program cannot be run
  127  there is no such program

Examples:
  zoolock run /locks/backup backup.sh --all
  zoolock run -n -E 0 --hold-at-least 1m /locks/nightly nightly.sh
                                                         one machine does it, the others are content
  zoolock run --on-revoke TERM /locks/scan scan.sh       ends if somebody asks by `zoolock revoke`
  zoolock run -s /locks/config sh -c 'cp config /tmp/'   beside other readers
  zoolock run --semaphore 3 /locks/licenses solver       three at a time
  zoolock run /locks/a zoolock run /locks/b both.sh      two locks
  systemd-run --wait --pipe --collect -p TimeoutStopSec=2 zoolock run -c zk1:2181 /locks/a job.sh";

const LEAD: &str = "\
Of all who lead at the same path one leads at a time, and the others stand by. While it leads, zoolock
runs the program, as `zoolock run` does, whose help says more: of process groups, of ZOOKEEPER_AUTH, of
what becomes of the program when zoolock is killed or stopped. When the lock is lost, the program is
ended, and zoolock contends for the next term. Each term has a ZOOLOCK_TOKEN of its own, higher than
all before.

When the program ends by itself, whatever its exit code, zoolock gives the lock up, so that another
machine can lead, and contends again: a second later, and if the program ran for less than 30 s, each
time after twice as long, up to 30 s.

If somebody asks for the lock (`zoolock revoke`), the leader steps down: its program gets TERM, and when
it has ended, zoolock contends again at once, behind the others.

INT, TERM and QUIT are handed on and end zoolock when the program has ended, and so do INT, HUP and
QUIT from the terminal that have ended the program. HUP, USR1, USR2 and TSTP are handed on. One that
stands by has no program to hand them to, and ends.

With systemd's Type=notify it is started (READY=1) when it contends, so that one that stands by has
started, too; STATUS says who leads.

Environment of the program:
  ZOOLOCK_PATH   the lock's path
  ZOOLOCK_TOKEN  the term's fencing token: have whatever the program writes to refuse lower ones,
                 from before the program reads it
  ZOOLOCK_NODE   the node that stood for the hold when the program was started
  ZOOLOCK_NODES  the same, behind those of the locks around it, to be left there

Exit codes:
  0    ended by a signal
  64   the command line is wrong
  69   no server in the beginning
  71   the system would not start a process or a thread
  77   no permission, or the servers refuse the credentials

Examples:
  zoolock lead /services/scheduler scheduler --config /etc/scheduler.toml
  zoolock lead -v /services/scheduler scheduler      says who leads, and what happens";

const LIST: &str = "\
AGE is how long its node has been there, by the server's clock: what a holder has waited for the lock
counts, too. One that was asked to let go (`zoolock revoke`) and holds it still is said to be `asked`.

With -r there is a line for each lock, the tree from top to bottom: who holds it, and how many wait. In
JSON each has all contenders. Free locks are not among them: nothing tells them from other nodes. What
may not be read is named on the standard error, and is exit code 77 in the end. On a terminal lines are
cut to its width.

Exit codes:
  0    all was seen, also if it was nothing
  64   the command line is wrong
  69   no connection, or no answer
  77   no permission

Examples:
  zoolock list /locks/backup
  zoolock list --json /locks/backup | jq -r '.[] | select(.holds) | .identity'
  zoolock list -r /
  zoolock list -r --json /locks | jq -r '.[] | select(.waiting > 10) | .path'";

const WATCH: &str = "\
On a terminal the table is drawn again each time; else there is a line for each contender that came
(+), got the lock (*) or went (-). Ends with Ctrl-C.

Examples:
  zoolock watch --interval 0.5 /locks/backup";

const VERIFY: &str = "\
The answer is no older than the question, whichever server gave it; but it may be outdated as soon
as it is there. Where two writers would do harm, the resource has to refuse tokens that are lower
than the highest it has seen.

Exit codes:
  0    it is
  1    it is not
  64   the command line is wrong
  69   no connection, or no answer
  77   no permission

Examples:
  zoolock verify /locks/backup \"$ZOOLOCK_TOKEN\" || exit";

const REVOKE: &str = "\
It is up to the holder whether it listens: programs that use the library with Hold::revocation(),
Curator's with makeRevocable(). `zoolock run --on-revoke SIGNAL` sends its program a signal, without
it says so with -v, and goes on; `zoolock lead` steps down. Writes a line for each holder that was asked,
with its fencing token. `zoolock break` takes the lock from one that does not let go.

Exit codes:
  0    somebody was asked
  1    nobody holds the lock
  64   the command line is wrong
  69   no connection, or no answer
  77   no permission

Examples:
  zoolock revoke /locks/backup";

const BREAK: &str = "\
Deletes the node of this one contender, as `zoolock list` shows its token, and writes whose it was. The
next one is let in at once. A holder that is alive hears of it, and `zoolock run` kills its program then;
until it has heard of it, it may still be at work beside the next one. So do this when the holder is
certainly dead, or when what it writes to refuses lower tokens. Try `zoolock revoke` first.

One that waits loses its place, and queues again if it is alive.

Exit codes:
  0    its node is deleted
  1    nobody there has this token
  64   the command line is wrong
  69   no connection, or no answer: it may be deleted
  77   no permission

Examples:
  zoolock list /locks/backup
  zoolock break /locks/backup --token 4294967312";

const COMPLETIONS: &str = "\
Examples:
  zoolock completions bash > ~/.local/share/bash-completion/completions/zoolock
  zoolock completions zsh > ~/.zfunc/_zoolock
  zoolock completions fish > ~/.config/fish/completions/zoolock.fish";

const MAN: &str = "\
Examples:
  zoolock man ~/.local/share/man/man1
  zoolock man \"$DESTDIR/usr/share/man/man1\"";

/// Distributed locks on Apache ZooKeeper: run a program under one, see who has one
#[derive(Debug, Parser)]
#[command(name = "zoolock", version, after_help = HELP, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) action: Action,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Run a program while holding a lock
    Run(Run),
    /// Run a program while leading: start it again each time that the lock is got
    #[command(after_help = LEAD)]
    Lead(Program),
    /// Show who holds a lock and who waits for it
    #[command(after_help = LIST)]
    List {
        /// As JSON, an array of objects
        #[arg(long)]
        json: bool,
        /// All locks at PATH and below
        #[arg(short, long)]
        recursive: bool,
        #[command(flatten)]
        lock: Target,
    },
    /// Show who holds a lock and who waits for it, live
    #[command(after_help = WATCH)]
    Watch {
        /// How often to look
        #[arg(long, value_name = "SECS", default_value = "1", value_parser = interval, allow_negative_numbers = true)]
        interval: Duration,
        #[command(flatten)]
        lock: Target,
    },
    /// Tell whether a fencing token is the current holder's
    #[command(after_help = VERIFY)]
    Verify {
        #[command(flatten)]
        lock: Target,
        /// The fencing token, in decimal or as 0x..
        #[arg(value_parser = token)]
        token: u64,
    },
    /// Ask the holders of a lock to let go
    #[command(after_help = REVOKE)]
    Revoke(Target),
    /// Take a lock from a holder that does not let go
    #[command(after_help = BREAK)]
    Break {
        #[command(flatten)]
        lock: Target,
        /// Whose: its fencing token, in decimal or as 0x..
        #[arg(long, value_name = "N", value_parser = token)]
        token: u64,
    },
    /// Write a completion script for a shell
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Write the man pages
    #[command(after_help = MAN)]
    Man {
        /// The folder that they are written to, one for each subcommand
        folder: PathBuf,
    },
}

/// A lock, and how to reach its servers.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// The servers, HOST:PORT[,HOST:PORT]..[/CHROOT] [env: ZOOKEEPER_CONNECT]
    #[arg(short, long, value_name = "HOSTS")]
    connect: Option<String>,
    /// How long the servers keep the locks of a client that they do not hear of, within their bounds (4 to 40 by default, four of their ticks or more are needed); 10 by default [env: ZOOKEEPER_SESSION_TIMEOUT]
    #[arg(long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    session_timeout: Option<Duration>,
    /// Speak TLS with the servers; the port is another, their secureClientPort [env: ZOOKEEPER_TLS]
    #[arg(long)]
    tls: bool,
    /// Speak TLS, and trust these root certificates (PEM) instead of the system's [env: ZOOKEEPER_CACERT]
    #[arg(long, value_name = "FILE")]
    cacert: Option<OsString>,
    /// Speak TLS, and show this certificate (PEM); with --key [env: ZOOKEEPER_CERT]
    #[arg(long, value_name = "FILE")]
    cert: Option<OsString>,
    /// The key of --cert (PEM), which must not be open to everybody [env: ZOOKEEPER_KEY]
    #[arg(long, value_name = "FILE")]
    key: Option<OsString>,
    /// A file of settings, TOML: connect, session_timeout, auth, tls, cacert, cert, key; /etc/zoolock.toml by default [env: ZOOKEEPER_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<OsString>,
    /// Fail if nothing is at the CHROOT of the servers' list, which the first lock would make: it may be a typing error
    #[arg(long)]
    no_create: bool,
    /// The lock's path
    pub(crate) path: String,
}

impl Target {
    /// Connects as nobody in particular.
    pub(crate) fn connect(&self) -> Result<Client, Failed> {
        self.connect_as(None, None)
    }

    /// Connects, for at most so long.
    fn connect_as(
        &self,
        identity: Option<&str>,
        within: Option<Duration>,
    ) -> Result<Client, Failed> {
        let own = || {
            let host = nix::unistd::gethostname().unwrap_or_default();
            format!("{}/{}", host.to_string_lossy(), process::id())
        };
        let builder = ClientBuilder::from_vars(|name| self.setting(name));
        let mut builder = builder
            .map_err(|error| self.wrong(error))?
            .identity(identity.map_or_else(own, str::to_owned))
            .existing_chroot(self.no_create);
        if let Some(within) = within {
            let longest = self.session_timeout.unwrap_or(SESSION_TIMEOUT);
            builder = builder.connect_timeout(within.min(longest).max(Duration::from_millis(1)));
        }
        builder.connect().map_err(|error| self.wrong(error))
    }

    /// Of an option, a variable, or by default.
    fn setting(&self, name: &str) -> Option<OsString> {
        let default = || (name == CONFIG && Path::new(SETTINGS).exists()).then(|| SETTINGS.into());
        self.option(name).or_else(|| env::var_os(name)).or_else(default)
    }

    /// The library names variables, for it knows no options.
    fn wrong(&self, error: Error) -> Failed {
        let Error::InvalidArgument { what, reason } = &error else {
            return error.into();
        };
        let option = what.strip_prefix("ZOOKEEPER_").filter(|_| self.option(what).is_some());
        let place = match option {
            Some(option) => format!("--{}", option.to_lowercase().replace('_', "-")),
            None if *what == "identity" => "--identity".to_owned(),
            None if *what == CONFIG && env::var_os(what).is_none() => SETTINGS.to_owned(),
            None => return error.into(),
        };
        Failed::new(USAGE, format!("invalid {place}: {reason}"))
    }

    /// What takes the place of a variable of the environment.
    fn option(&self, name: &str) -> Option<OsString> {
        match name {
            "ZOOKEEPER_CONNECT" => self.connect.as_ref().map(OsString::from),
            "ZOOKEEPER_SESSION_TIMEOUT" => {
                self.session_timeout.map(|timeout| timeout.as_secs_f64().to_string().into())
            }
            // Whoever names a file for it wants it, whatever the environment says.
            "ZOOKEEPER_TLS" => {
                let files = [&self.cacert, &self.cert, &self.key];
                let is_meant = self.tls || files.into_iter().any(Option::is_some);
                is_meant.then(|| "true".into())
            }
            "ZOOKEEPER_CACERT" => self.cacert.clone(),
            "ZOOKEEPER_CERT" => self.cert.clone(),
            "ZOOKEEPER_KEY" => self.key.clone(),
            CONFIG => self.config.clone(),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Args)]
#[command(after_help = RUN)]
pub(crate) struct Run {
    /// Hold the lock alone (the default)
    #[arg(short = 'x', short_alias = 'e', long, group = "kind")]
    exclusive: bool,
    /// Hold it beside others that hold it with -s
    #[arg(short, long, group = "kind")]
    pub(crate) shared: bool,
    /// Take one of N permits; all who use PATH must say the same N, and none of -x and -s, which is not checked: they would be let in beside each other
    #[arg(long, value_name = "N", group = "kind", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) semaphore: Option<u32>,
    /// Do not wait if somebody else has the lock
    #[arg(short, long, visible_alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,
    /// Wait for at most so long, for servers as well; 0 is -n
    #[arg(short, long, visible_alias = "timeout", value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) wait: Option<Duration>,
    /// The exit code when somebody else has the lock, or has it for too long
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = CONFLICT, allow_negative_numbers = true)]
    pub(crate) conflict_exit_code: u8,
    /// Keep the lock until so long after it was granted, also when the program has ended before: for a job that is due on many machines at once, and shorter than their clocks differ
    #[arg(long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) hold_at_least: Option<Duration>,
    /// Send this signal, such as TERM, to the program when somebody asks for the lock (`zoolock revoke`)
    #[arg(long, value_name = "SIGNAL", value_parser = signal)]
    pub(crate) on_revoke: Option<Signal>,
    #[command(flatten)]
    pub(crate) program: Program,
}

/// What to run, and under which lock.
#[derive(Debug, Clone, Args)]
pub(crate) struct Program {
    /// Tell the place in the queue while waiting, and what else happens, on standard error
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Leave ZOOKEEPER_AUTH in the program's environment
    #[arg(long)]
    pub(crate) keep_auth: bool,
    /// What the lock's nodes say of who made them; by default HOST/PID
    #[arg(long, value_name = "TEXT")]
    identity: Option<String>,
    #[command(flatten)]
    pub(crate) lock: Target,
    /// The program to run, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

impl Run {
    /// Alone, however long it takes.
    pub(crate) fn alone(program: Program) -> Run {
        Run {
            exclusive: true,
            shared: false,
            semaphore: None,
            nonblock: false,
            wait: None,
            conflict_exit_code: CONFLICT,
            hold_at_least: None,
            on_revoke: None,
            program,
        }
    }
}

impl Program {
    /// Connects, for at most so long.
    pub(crate) fn connect(&self, within: Option<Duration>) -> Result<Client, Failed> {
        self.lock.connect_as(self.identity.as_deref(), within)
    }
}

fn token(text: &str) -> Result<u64, ParseIntError> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
}

/// Not so short that the servers have nothing else to do.
fn interval(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        interval if interval < SHORTEST_INTERVAL => Err("less than 0.01".to_owned()),
        interval => Ok(interval),
    }
}

/// Units, and how many seconds they have. One that ends as another one does comes before it.
const UNITS: [(&str, f64); 4] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

fn seconds(text: &str) -> Result<Duration, String> {
    let with_unit = |(unit, seconds)| Some((text.strip_suffix(unit)?, seconds));
    let (number, unit) = UNITS.into_iter().find_map(with_unit).unwrap_or((text, 1.0));
    let number: f64 = number.trim().parse().unwrap_or(f64::NAN);
    if number.is_nan() {
        return Err("not a number of seconds, nor one with ms, s, m or h behind it".to_owned());
    }
    if number < 0.0 {
        return Err("less than 0".to_owned());
    }
    Duration::try_from_secs_f64(number * unit).map_err(|_| "too long".to_owned())
}

/// By its name, with or without `SIG`, or by its number.
fn signal(text: &str) -> Result<Signal, String> {
    let name = text.to_uppercase();
    let name = format!("SIG{}", name.strip_prefix("SIG").unwrap_or(&name));
    let by_number = || text.parse().ok().and_then(|number: i32| Signal::try_from(number).ok());
    let signal = Signal::from_str(&name).ok().or_else(by_number);
    signal.ok_or_else(|| "no signal, such as TERM or USR1".to_owned())
}
