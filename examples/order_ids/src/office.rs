//! Starts the clerks, kills one of them while it holds the lock, and sums up.

use std::any::Any;
use std::env;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, Reaper, testing};

use crate::audit::{Findings, Row, Tally};
use crate::books::{self, Books};
use crate::clerk::SESSION_TIMEOUT;
use crate::message::Message;
use crate::{Outcome, Plan};

/// The longest time without any message from a clerk. After this time, something is stuck: session
/// timeouts are much shorter.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the whole example. Returns false if the orders are wrong.
pub(crate) fn run(plan: &Plan) -> Outcome<bool> {
    let servers = Servers::find(plan)?;
    let folder = tempfile::Builder::new().prefix("order-ids-").tempdir()?;
    Books::create(folder.path())?;
    // It ends the session of the clerk that is killed, which the servers keep for a while.
    let socket = folder.path().join("reaper");
    let reaper = if plan.without_reaper { None } else { Some(Reaper::start(&socket)?) };
    let mut office = Office::open(plan, &servers, folder.path())?;
    office.wait_for_the_end()?;
    drop(reaper);
    let ledger = books::read_ledger(folder.path())?;
    Ok(office.report(plan, &ledger, &servers))
}

/// The servers of the lock. A server in this process, or one started by it, ends when this is
/// dropped.
struct Servers {
    /// Their kind, for display.
    kind: &'static str,
    connect_string: String,
    /// The timeout that they grant.
    session_timeout: Duration,
    _own: Option<Box<dyn Any>>,
}

impl Servers {
    fn find(plan: &Plan) -> Outcome<Servers> {
        let (kind, connect_string, own): (_, _, Option<Box<dyn Any>>) = match &plan.server {
            Some(given) => ("the ZooKeeper at", given.clone(), None),
            None if plan.zookeeper => {
                eprintln!("starting a ZooKeeper");
                let server = zoolock_test_support::Server::start()?;
                ("a private ZooKeeper at", server.connect_string(), Some(Box::new(server)))
            }
            None => {
                let server = testing::Server::start()?;
                ("a server in this process at", server.connect_string(), Some(Box::new(server)))
            }
        };
        eprintln!("using {kind} {connect_string}");
        // Try the connection here: otherwise every process would report that it fails.
        let client = Client::connect(&connect_string, SESSION_TIMEOUT)?;
        let session_timeout = client.session_timeout();
        client.close()?;
        Ok(Servers { kind, connect_string, session_timeout, _own: own })
    }
}

/// A clerk's message and the time when it came, or `None` at the end of its output.
type Mail = (usize, Option<(Instant, Message)>);

struct Office {
    orders: u64,
    clerks: Vec<Clerk>,
    mail: Receiver<Mail>,
    begun: Instant,
    handed_out: u64,
    killing: Killing,
    progress: Progress,
}

/// The progress of the kill and the takeover.
#[derive(Clone, Copy)]
enum Killing {
    Ahead,
    Done { at: Instant, token: u64 },
    TakenOver { after: Duration },
}

impl Office {
    /// Starts the clerks, and lets them begin together.
    fn open(plan: &Plan, servers: &Servers, folder: &Path) -> Outcome<Office> {
        let (sender, mail) = mpsc::channel();
        let clerks = (1..=plan.processes).map(|number| {
            let mut command = Command::new(env::current_exe()?);
            command.args(["clerk", "--number", &number.to_string()]);
            command.args(["--threads", &plan.threads.to_string()]);
            command.args(["--orders", &plan.orders.to_string()]);
            command.args(["--connect", &servers.connect_string]);
            command.arg("--folder").arg(folder);
            if !plan.without_reaper {
                command.arg("--reaper").arg(folder.join("reaper"));
            }
            if plan.without_lock {
                command.arg("--without-lock");
            } else if number == plan.processes {
                command.args(["--stop-at", &(plan.orders / 3).to_string()]);
            }
            Clerk::start(number, command, sender.clone())
        });
        let mut office = Office {
            orders: plan.orders,
            clerks: clerks.collect::<io::Result<_>>()?,
            mail,
            begun: Instant::now(),
            handed_out: 0,
            killing: Killing::Ahead,
            progress: Progress::new(),
        };
        office.await_ready()?;
        office.begun = Instant::now();
        for clerk in &mut office.clerks {
            // Ignore an error: the end of a clerk's output shows that it is gone.
            let _ = clerk.input.write_all(b"begin\n");
        }
        Ok(office)
    }

    fn await_ready(&mut self) -> Outcome<()> {
        for _ in 0..self.clerks.len() {
            match self.mail.recv_timeout(PATIENCE)? {
                (_, Some((_, Message::Ready))) => {}
                (index, _) => {
                    let clerk = &mut self.clerks[index];
                    let status = clerk.process.wait()?;
                    return Err(format!("process {} did not start: {status}", clerk.number).into());
                }
            }
        }
        Ok(())
    }

    /// Handles messages until every clerk has ended.
    fn wait_for_the_end(&mut self) -> Outcome<()> {
        let mut heard = Instant::now();
        while self.clerks.iter().any(|clerk| clerk.status.is_none()) {
            match self.mail.recv_timeout(self.progress.period()) {
                Ok((index, Some((at, message)))) => {
                    heard = at;
                    self.hear(index, at, message)?;
                }
                Ok((index, None)) => self.clerks[index].bury()?,
                Err(RecvTimeoutError::Timeout) if heard.elapsed() < PATIENCE => {}
                Err(_) => return Err(format!("nothing happened for {PATIENCE:?}").into()),
            }
            self.show_progress();
        }
        self.progress.finish();
        Ok(())
    }

    fn hear(&mut self, index: usize, at: Instant, message: Message) -> io::Result<()> {
        let clerk = &mut self.clerks[index];
        let number = clerk.number;
        match message {
            Message::Ready => {}
            Message::Granted { token, waited } => {
                waited.into_iter().for_each(|time| clerk.tally.waited(time));
                self.notice_take_over(number, at, token);
            }
            Message::Refused => clerk.tally.refused(),
            Message::Ordered { depth } => {
                clerk.tally.ordered(depth);
                self.handed_out += 1;
            }
            Message::Holding { token } => {
                let at = Instant::now();
                clerk.kill()?;
                self.killing = Killing::Done { at, token };
                let text = format!("process {number} held the lock and was killed");
                self.progress.note(&text);
            }
            Message::Trouble(text) => self.progress.note(&format!("process {number}: {text}")),
        }
        Ok(())
    }

    /// Notes the first grant after the kill. It has a higher token; a message with a lower token
    /// was already in transit at the kill.
    fn notice_take_over(&mut self, number: u64, now: Instant, token: u64) {
        if let Killing::Done { at, token: last } = self.killing
            && token > last
        {
            let after = now.saturating_duration_since(at);
            self.killing = Killing::TakenOver { after };
            let text = format!("process {number} took over after {} ms", after.as_millis());
            self.progress.note(&text);
        }
    }

    fn show_progress(&mut self) {
        let (handed_out, orders) = (self.handed_out, self.orders);
        let pending = match self.killing {
            Killing::Done { .. } => ", waiting for the killed process's session to end",
            _ => "",
        };
        let seconds = self.begun.elapsed().as_secs_f64();
        self.progress.show(|| format!("{handed_out} of {orders} orders, {seconds:.1} s{pending}"));
    }

    /// Prints the table, the line of results, and the settings of the run. Returns whether the
    /// results are correct.
    fn report(&self, plan: &Plan, ledger: &[books::Entry], servers: &Servers) -> bool {
        println!("{}", Row::HEADING);
        for clerk in &self.clerks {
            let own = ledger.iter().filter(|entry| entry.process == clerk.number);
            let row = Row {
                process: clerk.number,
                orders: own.count(),
                tally: &clerk.tally,
                end: &clerk.end(),
            };
            println!("{row}");
        }
        let findings = Findings::of(ledger, self.orders);
        if findings.late_tokens > 0 {
            eprintln!("{} fencing tokens were lower than the one before", findings.late_tokens);
        }
        let take_over = match self.killing {
            Killing::TakenOver { after } => after.as_millis().to_string(),
            _ => "never".to_owned(),
        };
        println!(
            "orders={} duplicates={} gaps={} overlaps={} takeover_ms={take_over}",
            findings.orders, findings.duplicates, findings.gaps, findings.overlaps
        );
        let Servers { kind, connect_string, session_timeout, .. } = servers;
        let lock = if plan.without_lock { "without the lock, beside" } else { "with" };
        let reaper = if plan.without_reaper { "no reaper" } else { "a reaper" };
        println!("{lock} {kind} {connect_string}, session timeout {session_timeout:?}, {reaper}");
        let taken_over = matches!(self.killing, Killing::TakenOver { .. });
        findings.is_clean() && taken_over && !self.clerks.iter().any(Clerk::has_failed)
    }
}

/// The process of a clerk. Dropping this kills it.
struct Clerk {
    number: u64,
    process: Child,
    /// The clerk's standard input. The clerk ends when this is closed.
    input: ChildStdin,
    tally: Tally,
    killed: bool,
    /// Known when the process has ended.
    status: Option<ExitStatus>,
}

impl Clerk {
    fn start(number: u64, mut command: Command, mail: Sender<Mail>) -> io::Result<Clerk> {
        // In its own process group, a clerk does not get interrupts from the terminal. These end
        // the office alone, and the clerks then have time to clean up.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let input = process.stdin.take().ok_or_else(missing)?;
        let output = process.stdout.take().ok_or_else(missing)?;
        let index = number as usize - 1;
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let heard = Instant::now();
                let message = line.parse().unwrap_or(Message::Trouble(line));
                let _ = mail.send((index, Some((heard, message))));
            }
            let _ = mail.send((index, None));
        });
        Ok(Clerk { number, process, input, tally: Tally::default(), killed: false, status: None })
    }

    fn kill(&mut self) -> io::Result<()> {
        self.killed = true;
        self.process.kill()
    }

    /// Reaps the process, whose output has ended.
    fn bury(&mut self) -> io::Result<()> {
        self.status = Some(self.process.wait()?);
        Ok(())
    }

    /// Returns whether the clerk failed by itself. A kill from outside is not a failure: the other
    /// clerks have to continue after it.
    fn has_failed(&self) -> bool {
        let code = self.status.and_then(|status| status.code());
        code.is_some_and(|code| code != 0)
    }

    fn end(&self) -> String {
        match self.status {
            _ if self.killed => "killed while it held the lock".to_owned(),
            Some(status) if status.success() => "all done".to_owned(),
            Some(status) => status.to_string(),
            None => "running".to_owned(),
        }
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// The progress on standard error. On a terminal it is one line that is overwritten; elsewhere, a
/// new line comes now and then.
struct Progress {
    on_terminal: bool,
    shown: Instant,
}

impl Progress {
    fn new() -> Progress {
        Progress { on_terminal: io::stderr().is_terminal(), shown: Instant::now() }
    }

    fn period(&self) -> Duration {
        Duration::from_millis(if self.on_terminal { 100 } else { 1000 })
    }

    fn show(&mut self, text: impl FnOnce() -> String) {
        if self.shown.elapsed() < self.period() {
            return;
        }
        self.shown = Instant::now();
        if self.on_terminal {
            eprint!("\r\x1b[K{}", text());
        } else {
            eprintln!("{}", text());
        }
    }

    /// Writes a line that stays.
    fn note(&self, text: &str) {
        self.finish();
        eprintln!("{text}");
    }

    fn finish(&self) {
        if self.on_terminal {
            eprint!("\r\x1b[K");
        }
    }
}
