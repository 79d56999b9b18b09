//! The command line.

use std::env;
use std::ffi::OsString;
use std::num::ParseIntError;
use std::path::PathBuf;
use std::process;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use zoolock::{Client, ClientBuilder};

use crate::exit::{CONFLICT, Failed};

const HELP: &str = "\
`zoolock run --help` has the exit codes.

Examples:
  export ZOOKEEPER_CONNECT=zk1:2181,zk2:2181,zk3:2181/my-app

  zoolock run /locks/backup backup.sh --all   one at a time among all machines
  zoolock run -n /locks/nightly report        only if nobody else is at it
  zoolock run -w 60 -v /locks/deploy deploy   wait for a minute, and see the queue
  zoolock lead /services/scheduler scheduler  on several machines, of which one runs it
  zoolock list /locks/backup                  who has it, who waits for it
  zoolock list -r /locks                      all that somebody has or waits for
  zoolock watch /locks/backup                 the same, live

Environment:
  ZOOKEEPER_CONNECT  the servers, HOST:PORT[,HOST:PORT]..[/CHROOT], where -c does not name them
  ZOOKEEPER_AUTH     if the servers want to know who asks: digest:user:password, sasl:user:password
                     (DIGEST-MD5), or another scheme and its secret, here so that nobody sees them in
                     a list of processes. What zoolock makes then belongs to these credentials, and
                     whoever shares the lock needs the same. They are kept from what `zoolock run` and
                     `zoolock lead` run, unless they are told --keep-auth.
  ZOOKEEPER_TLS, ZOOKEEPER_CACERT, ZOOKEEPER_CERT, ZOOKEEPER_KEY, ZOOKEEPER_SESSION_TIMEOUT
                     as the options of these names, which win
  ZOOKEEPER_CONFIG   a file of settings, as --config
  NOTIFY_SOCKET      where `zoolock run` and `zoolock lead` tell a service manager how they are, by
                     sd_notify(3)

A file of settings is TOML, with connect, session_timeout, auth, tls, cacert, cert and key: what is
not said by an option or a variable. With auth in it, it must not be open to everybody.";

/// How long connecting may take, as the library has it for a session timeout that is not given.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

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
a second process watches over it. Who kills both at the same instant kills the program, too (on
Linux), but not what it has started. A service manager ends that as well, as in the last example, but
has an environment of its own.

ZOOKEEPER_AUTH is kept from the program, which could do with it whatever zoolock may. What needs it,
as a zoolock inside this one does, takes --keep-auth. This keeps it out of logs, and from what is
started in turn; a program of the same user that looks for it finds it in zoolock's own environment.

What -v says never holds up the lock, the program or a signal: if nobody reads it, lines are left out.

With systemd's Type=notify the service has started (READY=1) when the program has, and STATUS says how
many are ahead; to wait for the lock counts as starting, for which TimeoutStartSec= is the limit. The
program does not get NOTIFY_SOCKET, for zoolock speaks for the service.

The same path inside itself waits for ever, as with flock(1). What flock(1) is given as -c 'COMMAND'
is written sh -c 'COMMAND' here, where -c names the servers.

Environment of the program:
  ZOOLOCK_PATH   the lock's path
  ZOOLOCK_TOKEN  the fencing token, which rises from one holder to the next: have whatever the
                 program writes to refuse lower ones
  ZOOLOCK_NODE   the node that stood for the hold when the program was started
  ZOOLOCK_NODES  the same, behind those of the locks around it: by this, zoolock knows on Linux what
                 the program has started, so it is to be left there

Exit codes:
  any  that of the program; 128 + the signal that ended it, or zoolock before it ran
  1    somebody else had the lock (-n), or had it for too long (-w); -E gives another code
  64   the command line, a variable or a file of settings is wrong
  69   no connection, or no answer
  71   the system would not start a process
  74   the lock was lost while the program ran
  77   no permission
  126  the program cannot be run
  127  there is no such program

Examples:
  zoolock run /locks/backup backup.sh --all
  zoolock run -n -E 0 /locks/nightly -- nightly.sh       one machine does it, the others are content
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

INT, TERM and QUIT are handed on and end zoolock when the program has ended, and so do INT, HUP and
QUIT from the terminal that have ended the program. HUP, USR1, USR2 and TSTP are handed on. One that
stands by has no program to hand them to, and ends.

With systemd's Type=notify it is started (READY=1) when it contends, so that one that stands by has
started, too; STATUS says who leads.

Environment of the program:
  ZOOLOCK_PATH   the lock's path
  ZOOLOCK_TOKEN  the term's fencing token: have whatever the program writes to refuse lower ones
  ZOOLOCK_NODE   the node that stood for the hold when the program was started
  ZOOLOCK_NODES  the same, behind those of the locks around it, to be left there

Exit codes:
  0    ended by a signal
  64   the command line is wrong
  69   no server in the beginning
  71   the system would not start a process
  77   no permission

Examples:
  zoolock lead /services/scheduler scheduler --config /etc/scheduler.toml
  zoolock lead -v /services/scheduler scheduler      says who leads, and what happens";

const LIST: &str = "\
SINCE is how long its node has been there, by the server's clock: what it has waited for the lock
counts, too.

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
Curator's with makeRevocable(). `zoolock run` says so with -v, and goes on.

Exit codes:
  0    somebody was asked
  1    nobody holds the lock
  64   the command line is wrong
  69   no connection, or no answer
  77   no permission

Examples:
  zoolock revoke /locks/backup";

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
    /// Show the same, live
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
    /// A file of settings, TOML: connect, session_timeout, auth, tls, cacert, cert, key [env: ZOOKEEPER_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<OsString>,
    /// The lock's path
    pub(crate) path: String,
}

impl Target {
    /// Connects, for at most so long.
    pub(crate) fn connect(&self, within: Option<Duration>) -> Result<Client, Failed> {
        let host = nix::unistd::gethostname().unwrap_or_default();
        let mut builder =
            ClientBuilder::from_vars(|name| self.option(name).or_else(|| env::var_os(name)))?
                .identity(format!("{}/{}", host.to_string_lossy(), process::id()));
        if let Some(within) = within {
            let longest = self.session_timeout.unwrap_or(SESSION_TIMEOUT);
            builder = builder.connect_timeout(within.min(longest).max(Duration::from_millis(1)));
        }
        Ok(builder.connect()?)
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
            "ZOOKEEPER_CONFIG" => self.config.clone(),
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
    /// Wait for at most so long, connecting included; 0 is -n
    #[arg(short, long, visible_alias = "timeout", value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) wait: Option<Duration>,
    /// The exit code when somebody else has the lock, or has it for too long
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = CONFLICT, allow_negative_numbers = true)]
    pub(crate) conflict_exit_code: u8,
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
            program,
        }
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

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().unwrap_or(f64::NAN);
    if seconds.is_nan() {
        return Err("not a number".to_owned());
    }
    if seconds < 0.0 {
        return Err("less than 0".to_owned());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| "too long".to_owned())
}
