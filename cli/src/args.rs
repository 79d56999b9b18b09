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

const HELP: &str = "\
`zoolock run --help` lists the exit codes.

Examples:
  export ZOOKEEPER_CONNECT=zk1:2181,zk2:2181,zk3:2181/my-app

  zoolock run /locks/backup backup.sh --all   one at a time among all machines
  zoolock run -n /locks/report report         only if the lock is free
  zoolock run -n -E 0 --hold-at-least 1m /locks/nightly nightly.sh
                                              due on all machines at once, runs on one of them
  zoolock run -w 1m -v /locks/deploy deploy   wait for at most a minute, and show the queue
  zoolock lead /services/scheduler scheduler  started on several machines, runs on one of them
  zoolock list /locks/backup                  who holds it and who waits for it
  zoolock list -r /locks                      all locks with a holder or a waiter
  zoolock watch /locks/backup                 who holds it and who waits for it, live
  zoolock watch -r /locks                     all these locks, live, those with most waiters first
  zoolock doctor                              what is wrong with the servers, and what to do

Environment:
  ZOOKEEPER_CONNECT  the servers, HOST:PORT[,HOST:PORT]..[/CHROOT], unless -c names them
  ZOOKEEPER_AUTH     the credentials: digest:user:password, sasl:user:password (DIGEST-MD5), or
                     another scheme and its secret. They come by the environment because ps(1)
                     shows the options of a process to everybody. Nodes that zoolock creates then
                     belong to these credentials, so all who share a lock need the same ones. The
                     programs of `zoolock run` and `zoolock lead` get them only with --keep-auth.
  ZOOKEEPER_TLS, ZOOKEEPER_CACERT, ZOOKEEPER_CERT, ZOOKEEPER_KEY, ZOOKEEPER_SESSION_TIMEOUT
                     the same as the options of these names, which take precedence; the timeout is
                     a number of seconds without a unit, also in a settings file
  ZOOKEEPER_CONFIG   a settings file, the same as --config; the default is /etc/zoolock.toml, if it
                     exists
  NOTIFY_SOCKET      where `zoolock run` and `zoolock lead` report their state to a service manager,
                     by sd_notify(3)

A settings file is TOML and may set connect, session_timeout, auth, tls, cacert, cert and key. Options
and variables take precedence over it. A file that sets auth must not be open to everybody.

SECS is a number of seconds, or numbers with units: 500ms, 90s, 5m, 1.5h, 1h30m.";

/// The library's default session timeout, which limits connecting.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The default settings file.
const SETTINGS: &str = "/etc/zoolock.toml";

/// The environment variable with the name of another settings file.
const CONFIG: &str = "ZOOKEEPER_CONFIG";

/// The environment variable with the credentials.
pub(crate) const AUTH: &str = "ZOOKEEPER_AUTH";

const RUN: &str = "\
The program runs in its own process group, which is the terminal's foreground group if standard
input is a terminal. zoolock hands INT, TERM, HUP, QUIT, USR1, USR2 and TSTP on to the group, except
signals that were ignored when zoolock started: a script's `&`, for example, ignores INT. zoolock
releases the lock when the program and all its descendants have ended. To continue without the lock,
a process needs its own session (setsid). When the group is empty, the signals go to the descendants
in other groups, such as those that timeout(1) creates.

If no server answers for so long that another client may get the lock soon, the program and its
descendants get TERM when a tenth of the session timeout is left, and KILL at the end. If the lock's
node was deleted, no time is left, and KILL comes at once. A program that becomes another user (sudo)
cannot be killed: run zoolock as that user.

If zoolock itself is killed, the program and its descendants are killed, too. If zoolock is stopped,
they are killed when the lock may be lost. A second process, the guard, does this. The program starts
when the guard is ready. While zoolock runs, it replaces a guard that is killed, and continues one
that is stopped. If the system refuses another guard, zoolock kills the program at once (71). If
zoolock and the guard are killed at the same instant, the program is killed, too (on Linux), but not
its descendants. A service manager ends those as well, as in the last example; the service does not
inherit this environment.

The program gets ZOOKEEPER_AUTH only with --keep-auth, which a zoolock inside this one needs. This
keeps the credentials out of logs and away from descendants. A program of the same user can still
find them in zoolock's own environment.

Messages of -v never delay the lock, the program or a signal: zoolock drops lines that nobody reads.

For a job that is due on many machines at the same time, -n alone is not enough. A machine whose clock
is late finds the lock free if the job has ended by then, and runs the job again. With
--hold-at-least, zoolock keeps the lock until this long after its grant, whatever the program's exit
code. It runs for as long itself, then ends with that code. Give more than the clocks differ by, and
less than the time until the job is due again. INT, TERM, HUP, QUIT, USR1 and USR2 end the wait early.

With -w, zoolock also waits for servers if none answers at the start. Without -w, or with -n, it ends
with 69 then, so that a wrong address is noticed. It waits through later outages in any case.

With systemd's Type=notify, the service has started (READY=1) when the program has started, and STATUS
says how many are ahead. Waiting for the lock counts as starting, and TimeoutStartSec= limits it. The
program does not get NOTIFY_SOCKET: zoolock reports for the service.

A program that runs zoolock with the path that it runs under waits forever, as with flock(1). Write
the -c 'COMMAND' of flock(1) as sh -c 'COMMAND': here, -c names the servers.

Environment of the program:
  ZOOLOCK_PATH   the lock's path
  ZOOLOCK_TOKEN  the fencing token, which rises from one holder to the next. The program should claim
                 its data with the token before it reads them: from then on, lower tokens are refused
  ZOOLOCK_NODE   the node of the hold when the program was started
  ZOOLOCK_NODES  the same, after the nodes of the locks around this one. Do not change it: on Linux,
                 zoolock recognizes the program's descendants by it

Exit codes:
  any  the program's exit code; 128 + the signal that ended it, or that ended zoolock before it ran
  1    another client had the lock (-n), or had it for too long (-w); -E gives another code
  64   the command line, a variable or a settings file is wrong
  69   no connection, or no answer
  71   the system refused a process or a thread: the program was not started, or was killed
  74   the lock was lost while the program ran
  77   no permission, or the servers refuse the credentials
  126  the program cannot be run
  127  the program does not exist

Examples:
  zoolock run /locks/backup backup.sh --all
  zoolock run -n -E 0 --hold-at-least 1m /locks/nightly nightly.sh
                                                         one machine runs it, the others exit with 0
  zoolock run --on-revoke TERM /locks/scan scan.sh       ends if `zoolock revoke` asks for the lock
  zoolock run -s /locks/config sh -c 'cp config /tmp/'   beside other readers
  zoolock run --semaphore 3 /locks/licenses solver       three at a time
  zoolock run /locks/a zoolock run /locks/b both.sh      two locks
  systemd-run --wait --pipe --collect -p TimeoutStopSec=2 zoolock run -c zk1:2181 /locks/a job.sh";

const LEAD: &str = "\
Of all candidates at a path, one leads at a time, and the others stand by. While it leads, zoolock
runs the program as `zoolock run` does. `zoolock run --help` has the details: process groups,
ZOOKEEPER_AUTH, and what happens to the program when zoolock is killed or stopped. When the lock is
lost, zoolock ends the program, and contends for the next term. Each term has its own ZOOLOCK_TOKEN,
higher than all before.

When the program ends by itself, whatever its exit code, zoolock releases the lock, so that another
machine can lead, and contends again after a pause. The pause is 1 s at first, and
doubles, up to 30 s, each time that the program runs for less than 30 s.

If another client asks for the lock (`zoolock revoke`), the leader steps down: its program gets TERM.
When the program has ended, zoolock contends again at once, behind the others.

zoolock hands INT, TERM and QUIT on to the program, and ends when the program has ended. INT, HUP and
QUIT from the terminal that end the program also end zoolock. HUP, USR1, USR2 and TSTP are handed on.
A candidate that stands by has no program to hand signals to. They end it, except TSTP, which stops it.

With systemd's Type=notify, the service has started (READY=1) when it contends, so that a candidate
that stands by has started, too. STATUS says who leads.

Environment of the program:
  ZOOLOCK_PATH   the lock's path
  ZOOLOCK_TOKEN  the term's fencing token. The program should claim its data with the token before it
                 reads them: from then on, lower tokens are refused
  ZOOLOCK_NODE   the node of the hold when the program was started
  ZOOLOCK_NODES  the same, after the nodes of the locks around this one; do not change it

Exit codes:
  0    ended by a signal
  64   the command line is wrong
  69   no server at the start
  71   the system refused a process or a thread
  77   no permission, or the servers refuse the credentials

Examples:
  zoolock lead /services/scheduler scheduler --config /etc/scheduler.toml
  zoolock lead -v /services/scheduler scheduler      reports who leads, and events";

const LIST: &str = "\
AGE is the age of a contender's node, by the server's clock: the time that a waiter has waited. For a
holder it includes the time before its grant, which the servers do not keep. So HELD, how long it has
held the lock, is at most (≤) as long. `zoolock watch` knows HELD for the grants that it sees. In JSON,
`since` is the time at which the node was created. The state `asked` is that of a holder that was asked
to release (`zoolock revoke`) and has not released yet.

With -r there is a line for each lock, in the order of the tree: how many wait, the longest wait, the
holder, and the first waiter (NEXT). In JSON each lock has all its contenders. Free locks are not shown:
they look like other nodes. If a path denies read permission, zoolock names it on standard error,
continues, and ends with 77. On a terminal, long paths and names are cut in the middle to fit its width.

Programs with the library name a thread HOST/PROCESS/NAME#NUMBER, unless they set another identity. If
two locks have HOLDER and NEXT the other way round, these threads wait for each other.

Exit codes:
  0    the list is complete, even if it is empty
  64   the command line is wrong
  69   no connection, or no answer
  77   no permission

Examples:
  zoolock list /locks/backup
  zoolock list --json /locks/backup | jq -r '.[] | select(.holds) | .identity'
  zoolock list -r /
  zoolock list -r --json /locks | jq -r '.[] | select(.waiting > 10) | .path'";

const WATCH: &str = "\
On a terminal, zoolock draws the table again each time. The last line counts what does not fit.
Elsewhere zoolock writes a line for each contender that came (+), acquired the lock (*), was asked
to release it (!) or left (-). What changes back between two looks is not seen.
Ctrl-C ends it and leaves the last table on the terminal, below what was there before.

With -r there is a line for each lock: first the locks with most waiters, and of these, the one that is
held longest. If the output is no terminal, zoolock writes the table when something has changed. Each
look reads all nodes below PATH, so give a longer interval for large trees. Paths that deny read
permission are counted as not readable; `zoolock list -r` names them.

HELD is the time since zoolock saw the grant. If it did not see the grant, HELD is at most (≤) the age
of the holder's node, which includes the time before the grant.

With --json, zoolock writes a JSON object on a line for each change: first one for each contender, then
what each look shows anew. `event` is `waits`, `holds`, `asked` (to release the lock) or `gone`: released,
lost, given up, or not readable any more. `time` is when zoolock saw it. `path`, `node` and `token` name
the contender.

Examples:
  zoolock watch --interval 0.5 /locks/backup
  zoolock watch -r --json /locks | jq -r 'select(.event == \"holds\") | .path'
  zoolock watch -r /";

const VERIFY: &str = "\
The answer is as new as the question, whichever server gives it, but it may be outdated when it
arrives. Where two writers would do harm, each holder has to claim the resource with its token before
it reads, and the resource has to refuse lower tokens.

Exit codes:
  0    the token is the current holder's
  1    the token is not the current holder's
  64   the command line is wrong
  69   no connection, or no answer
  77   no permission

Examples:
  zoolock verify /locks/backup \"$ZOOLOCK_TOKEN\" || exit";

const REVOKE: &str = "\
The holder decides whether it releases the lock. Programs learn of the request by Hold::revocation()
of the library, or by makeRevocable() of Curator. `zoolock run --on-revoke SIGNAL` sends its program a
signal; without the option it only reports the request with -v. `zoolock lead` steps down. This
command writes a line for each holder that it asked, with its fencing token. `zoolock break` takes the
lock from a holder that does not release it.

Exit codes:
  0    at least one holder was asked
  1    the lock has no holder
  64   the command line is wrong
  69   no connection, or no answer
  77   no permission

Examples:
  zoolock revoke /locks/backup";

const BREAK: &str = "\
This command deletes the node of the contender with this token, which `zoolock list` shows, and writes
the contender's identity. The next contender gets the lock at once. A living holder learns of its
loss, and `zoolock run` then kills its program. Until then, the program may still work beside the
next holder. So break a lock only when the holder is certainly dead, or when its data refuse lower
tokens. Try `zoolock revoke` first.

A waiter with this token loses its queue position, and queues again if it is alive.

Exit codes:
  0    the node is deleted
  1    no contender has this token
  64   the command line is wrong
  69   no connection, or no answer: the node may be deleted
  77   no permission

Examples:
  zoolock list /locks/backup
  zoolock break /locks/backup --token 4294967312";

const DOCTOR: &str = "\
zoolock opens a session as all subcommands do. It also asks each address of each server with
ZooKeeper's four-letter word `srvr`, all servers at the same time. A server has a third of the session
timeout for its answer, and at most 10 s. LATENCY is the time of a connection and its answer.

zoolock does not see the servers' settings: tickTime and the bounds of session timeouts, which have to
be the same on all servers, maxClientCnxns, and forceSync, which has to be `yes`.

With PATH, zoolock lists the node at PATH, then creates an ephemeral node in it and deletes it again.
If there is no node at PATH, it does so in the nearest directory above. It does not take the lock.

Exit codes:
  0    there is no `problem`; there may be a `warning`
  1    there is a `problem`
  64   the command line is wrong
  71   the system refused a thread

Examples:
  zoolock doctor
  zoolock doctor -c zk1:2181,zk2:2181,zk3:2181 --session-timeout 20 /locks
  zoolock doctor --json | jq -r '.findings[] | select(.level != \"ok\") | .text'";

const COMPLETIONS: &str = "\
Examples:
  zoolock completions bash > ~/.local/share/bash-completion/completions/zoolock
  zoolock completions zsh > ~/.zfunc/_zoolock
  zoolock completions fish > ~/.config/fish/completions/zoolock.fish";

const MAN: &str = "\
Examples:
  zoolock man ~/.local/share/man/man1
  zoolock man \"$DESTDIR/usr/share/man/man1\"";

/// Distributed locks on Apache ZooKeeper: run a program under a lock, see who holds it
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
    /// Run a program while leading, term after term
    #[command(after_help = LEAD)]
    Lead(Program),
    /// Show who holds a lock and who waits for it
    #[command(after_help = LIST)]
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
    #[command(after_help = WATCH)]
    Watch {
        /// The time between two looks
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
    #[command(after_help = VERIFY)]
    Verify {
        #[command(flatten)]
        lock: Target,
        /// The fencing token, in decimal or as 0x..
        #[arg(value_parser = token)]
        token: u64,
    },
    /// Ask the holders of a lock to release it
    #[command(after_help = REVOKE)]
    Revoke(Target),
    /// Take a lock from a holder that does not release it
    #[command(after_help = BREAK)]
    Break {
        #[command(flatten)]
        lock: Target,
        /// The contender's fencing token, in decimal or as 0x..
        #[arg(long, value_name = "N", value_parser = token)]
        token: u64,
    },
    /// Check the servers, and what this client may do there
    #[command(after_help = DOCTOR)]
    Doctor {
        /// Print JSON, an object with the servers and the findings
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        servers: Servers,
        /// A path for locks: check what this client may do there
        path: Option<String>,
    },
    /// Write a completion script for a shell
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the man pages
    #[command(after_help = MAN)]
    Man {
        /// The folder for the pages, one for each subcommand; it is created if it is missing
        folder: PathBuf,
    },
}

/// A lock, and the settings of its servers.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    servers: Servers,
    /// The lock's path
    pub(crate) path: String,
}

impl Target {
    /// Connects with the default identity.
    pub(crate) fn connect(&self) -> Result<Client, Failed> {
        self.servers.connect_as(None, None)
    }
}

/// The settings of the servers.
#[derive(Debug, Clone, Args)]
pub(crate) struct Servers {
    /// The servers, HOST:PORT[,HOST:PORT]..[/CHROOT] [env: ZOOKEEPER_CONNECT]
    #[arg(short, long, value_name = "HOSTS")]
    connect: Option<String>,
    /// How long the servers keep the locks of a silent client, 10 by default; at least four server ticks, and within the servers' bounds (4 to 40 by default) [env: ZOOKEEPER_SESSION_TIMEOUT]
    #[arg(long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    session_timeout: Option<Duration>,
    /// Use TLS, at the servers' secureClientPort [env: ZOOKEEPER_TLS]
    #[arg(long)]
    tls: bool,
    /// Use TLS, and trust these root certificates (PEM) instead of the system's [env: ZOOKEEPER_CACERT]
    #[arg(long, value_name = "FILE")]
    cacert: Option<OsString>,
    /// Use TLS, and present this certificate (PEM); with --key [env: ZOOKEEPER_CERT]
    #[arg(long, value_name = "FILE")]
    cert: Option<OsString>,
    /// The key of --cert (PEM), which must not be open to everybody [env: ZOOKEEPER_KEY]
    #[arg(long, value_name = "FILE")]
    key: Option<OsString>,
    /// A settings file (TOML) that may set connect, session_timeout, auth, tls, cacert, cert and key; /etc/zoolock.toml by default [env: ZOOKEEPER_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<OsString>,
    /// Fail if the CHROOT of HOSTS does not exist, instead of creating it: it may be misspelled
    #[arg(long)]
    pub(crate) no_create: bool,
}

impl Servers {
    /// Returns the settings of a client.
    pub(crate) fn builder(&self) -> Result<ClientBuilder, Failed> {
        let file = self.file()?;
        let own = |name: &str| {
            let text = self.option(name).or_else(|| env::var_os(name));
            text.filter(|text| !text.is_empty())
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
    fn connect_as(
        &self,
        identity: Option<&str>,
        within: Option<Duration>,
    ) -> Result<Client, Failed> {
        let own = || {
            let host = nix::unistd::gethostname().unwrap_or_default();
            format!("{}/{}", host.to_string_lossy(), process::id())
        };
        let mut builder = self.builder()?.identity(identity.map_or_else(own, str::to_owned));
        if let Some(within) = within {
            let longest = self.session_timeout.unwrap_or(SESSION_TIMEOUT);
            builder = builder.connect_timeout(within.min(longest).max(Duration::from_millis(1)));
        }
        builder.connect().map_err(|error| self.wrong(error))
    }

    /// Reads the file of the option, else of the variable, else the default one if it is there.
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

    /// Renames a setting in an error: the library knows the variable, the user gave an option.
    pub(crate) fn wrong(&self, error: Error) -> Failed {
        let Error::InvalidArgument { what, reason } = &error else {
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
            // A file for TLS turns it on, whatever the environment says.
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
#[command(after_help = RUN)]
pub(crate) struct Run {
    /// Hold the lock alone (the default)
    #[arg(short = 'x', short_alias = 'e', long, group = "kind")]
    exclusive: bool,
    /// Share the lock with others that use -s
    #[arg(short, long, group = "kind")]
    pub(crate) shared: bool,
    /// Take one of N permits; all users of PATH must give the same N, and must not use -x or -s. This is not checked: locks and permits do not exclude each other
    #[arg(long, value_name = "N", group = "kind", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) semaphore: Option<u32>,
    /// Do not wait if another client has the lock
    #[arg(short, long, visible_alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,
    /// Wait for at most this long, also for servers; 0 is -n
    #[arg(short, long, visible_alias = "timeout", value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) wait: Option<Duration>,
    /// The exit code if another client has the lock (-n), or keeps it for too long (-w)
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = CONFLICT, allow_negative_numbers = true)]
    pub(crate) conflict_exit_code: u8,
    /// Keep the lock for at least this long after its grant, even if the program ends earlier: for a short job that is due on many machines whose clocks differ
    #[arg(long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) hold_at_least: Option<Duration>,
    /// Send this signal, such as TERM, to the program when another client asks for the lock (`zoolock revoke`)
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
    /// The identity in the lock's nodes; by default HOST/PID
    #[arg(long, value_name = "TEXT")]
    identity: Option<String>,
    #[command(flatten)]
    pub(crate) lock: Target,
    /// The program to run, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

impl Run {
    /// Returns the settings of an exclusive lock that is waited for without a limit.
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
    /// Connects, within this time.
    pub(crate) fn connect(&self, within: Option<Duration>) -> Result<Client, Failed> {
        self.lock.servers.connect_as(self.identity.as_deref(), within)
    }
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

/// Units, and their length in seconds. `ms` comes first, since it also ends in `s`.
const UNITS: [(&str, f64); 4] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

fn seconds(text: &str) -> Result<Duration, String> {
    let with_unit = |(unit, seconds)| Some((text.strip_suffix(unit)?, seconds));
    let found = UNITS.into_iter().find_map(with_unit);
    let (number, unit) = found.unwrap_or((text, 1.0));
    // In `1h30m`, the hours precede the number of minutes.
    let before = number.rfind(['s', 'm', 'h']).filter(|_| found.is_some());
    let (before, number) = number.split_at(before.map_or(0, |last| last + 1));
    let number: f64 = number.trim().parse().unwrap_or(f64::NAN);
    if number.is_nan() {
        return Err("not a number of seconds, nor a number with the unit ms, s, m or h".to_owned());
    }
    if number < 0.0 {
        return Err("less than 0".to_owned());
    }
    let before = if before.is_empty() { Duration::ZERO } else { seconds(before)? };
    let own = Duration::try_from_secs_f64(number * unit).ok();
    own.and_then(|own| before.checked_add(own)).ok_or_else(|| "too long".to_owned())
}

/// Parses a signal: its name, with or without `SIG`, or its number.
fn signal(text: &str) -> Result<Signal, String> {
    let name = text.to_uppercase();
    let name = format!("SIG{}", name.strip_prefix("SIG").unwrap_or(&name));
    let by_number = || text.parse().ok().and_then(|number: i32| Signal::try_from(number).ok());
    let signal = Signal::from_str(&name).ok().or_else(by_number);
    signal.ok_or_else(|| "not a signal such as TERM or USR1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_add_up_their_parts() {
        for (text, millis) in [("1h30m", 5_400_000), ("1.5h", 5_400_000), ("1m 1s500ms", 61_500)] {
            assert_eq!(seconds(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["1h30", "1h-1m", "-1h1m", "h1m", "1hm", "1e300h1m"] {
            println!("{text}: {}", seconds(text).expect_err(text));
        }
    }
}
