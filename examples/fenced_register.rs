//! A counter that loses no update, even if a holder of its lock is paused between its read and its
//! write, and continues after the next holder has read.
//!
//! ```text
//! cargo run --example fenced_register
//! ```
//!
//! Two processes add one to the counter, each in four steps:
//!
//! 1. It acquires the lock, and gets a fencing token.
//! 2. It registers the token with the counter (`claim`): from now on the counter refuses every
//!    lower token.
//! 3. It reads.
//! 4. It writes. The counter checks that the token is still the last one registered.
//!
//! The first process is paused after its step 3, for longer than its session lives. The second
//! process acquires the lock, registers its token and reads. Then the first one continues. The
//! counter refuses its write, because the second process has registered a higher token. A counter
//! that only compared the tokens of writes would accept the write: the second process has not
//! written anything yet, and its own write would then undo the first one's.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use zoolock::{Client, DistributedLock};

type Outcome<T> = Result<T, Box<dyn Error>>;

const LOCK: &str = "/zoolock-examples/fenced-register";
/// How long the servers keep the lock of a paused process.
const SESSION: Duration = Duration::from_secs(4);
/// The length of the row: two numbers of twenty digits, a space and a newline.
const BYTES: usize = 42;

/// A counter in a file, with the last token registered. Each method is one step, like a transaction
/// of a database: no other process uses the file meanwhile. The SQL has the same steps, for a table
/// `counter` and a table `fence` with a row for each lock.
struct Register(PathBuf);

struct Row {
    fence: u64,
    value: u64,
}

impl Register {
    /// Creates the row of the counter. The first `claim` creates the row of the fence.
    fn create(path: &Path) -> io::Result<Register> {
        write_row(&File::create(path)?, &Row { fence: 0, value: 0 })?;
        Ok(Register(path.to_owned()))
    }

    /// `INSERT INTO fence (lock, token) VALUES (:lock, :token) ON CONFLICT (lock) DO UPDATE SET token = excluded.token WHERE fence.token <= excluded.token`
    ///
    /// Returns false if no row matches: a later holder has registered a higher token.
    fn claim(&self, token: u64) -> io::Result<bool> {
        self.step(|row| {
            let is_newest = row.fence <= token;
            row.fence = row.fence.max(token);
            is_newest
        })
    }

    /// `SELECT value FROM counter`
    fn read(&self) -> io::Result<u64> {
        self.step(|row| row.value)
    }

    /// In one transaction: `UPDATE fence SET token = :token WHERE lock = :lock AND token = :token`
    /// and `UPDATE counter SET value = :value`
    ///
    /// Returns false, and writes nothing, if the first update matches no row: a later holder has
    /// registered a higher token.
    fn write(&self, token: u64, value: u64) -> io::Result<bool> {
        self.step(|row| {
            let has_claimed = row.fence == token;
            if has_claimed {
                row.value = value;
            }
            has_claimed
        })
    }

    fn step<T>(&self, step: impl FnOnce(&mut Row) -> T) -> io::Result<T> {
        let file = File::options().read(true).write(true).open(&self.0)?;
        file.lock()?; // until it is closed
        let mut row = read_row(&file)?;
        let result = step(&mut row);
        write_row(&file, &row)?;
        Ok(result)
    }
}

fn read_row(file: &File) -> io::Result<Row> {
    let mut text = [0; BYTES];
    file.read_exact_at(&mut text, 0)?;
    let text = String::from_utf8_lossy(&text);
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten().ok_or(io::ErrorKind::InvalidData);
    Ok(Row { fence: next()?, value: next()? })
}

/// Writes the row in one call, so that a killed process never leaves half of it.
fn write_row(file: &File, Row { fence, value }: &Row) -> io::Result<()> {
    file.write_all_at(format!("{fence:020} {value:020}\n").as_bytes(), 0)
}

/// Adds one, and calls `has_read` between the read and the write. A refused holder starts again.
fn increment(
    client: &Client,
    register: &Register,
    mut has_read: impl FnMut() -> io::Result<()>,
) -> Outcome<()> {
    let lock = DistributedLock::new(client, LOCK)?;
    loop {
        let guard = lock.acquire()?;
        let token = guard.fencing_token();
        if register.claim(token)? {
            let value = register.read()?;
            println!("token {token} has claimed, and has read {value}");
            has_read()?;
            if register.write(token, value + 1)? {
                println!("token {token} has written {}", value + 1);
                return Ok(()); // an error of the release would not undo the write
            }
        }
        match guard.release() {
            Err(error) if error.is_lost() => println!("token {token} is refused: {error}"),
            Err(error) => return Err(error.into()),
            // Servers that were set up anew grant low tokens.
            Ok(()) => {
                return Err(format!("token {token} is refused, although its lock is held").into());
            }
        }
    }
}

/// The process that is paused, a copy of this program. Dropping this kills it.
struct Slow {
    process: Child,
    said: BufReader<ChildStdout>,
}

impl Slow {
    fn start(file: &Path) -> Outcome<Slow> {
        let mut command = Command::new(env::current_exe()?);
        command.arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let said = process.stdout.take().ok_or("no pipe")?;
        Ok(Slow { process, said: BufReader::new(said) })
    }

    fn signal(&self, name: &str) -> io::Result<()> {
        let kill = format!("kill -{name} {}", self.process.id());
        match Command::new("sh").args(["-c", &kill]).status()? {
            status if status.success() => Ok(()),
            status => Err(io::Error::other(format!("{kill}: {status}"))),
        }
    }

    /// Waits for the next line of the process, and prints it. Returns false if the process has
    /// ended.
    fn says(&mut self) -> io::Result<bool> {
        let mut line = String::new();
        let is_open = self.said.read_line(&mut line)? > 0;
        print!("{}{line}", if is_open { "slow:  " } else { "" });
        Ok(is_open)
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn connect() -> zoolock::Result<Client> {
    let servers = env::var("ZOOKEEPER_CONNECT");
    Client::connect(servers.as_deref().unwrap_or("127.0.0.1:2181"), SESSION)
}

/// Pauses after its read until the other process makes it continue. It does not check whether it
/// holds the lock.
fn slow(file: &str) -> Outcome<()> {
    increment(&connect()?, &Register(file.into()), || {
        io::stdin().read_line(&mut String::new()).map(drop)
    })
}

fn demonstrate(file: &Path) -> Outcome<()> {
    let register = Register::create(file)?;
    let mut slow = Slow::start(file)?;
    slow.says()?;
    slow.signal("STOP")?;
    println!("slow:  is stopped");

    // Waits for the lock until the session of the paused process has ended.
    increment(&connect()?, &register, || {
        if let Some(mut input) = slow.process.stdin.take() {
            println!("slow:  goes on");
            slow.signal("CONT")?;
            input.write_all(b"\n")?;
            slow.says()?;
        }
        Ok(())
    })?;
    while slow.says()? {}

    let value = register.read()?;
    println!("the register says {value}");
    match value {
        2 => Ok(()),
        _ => Err("an update was lost".into()),
    }
}

fn run() -> Outcome<()> {
    if let Some(file) = env::args().nth(1) {
        return slow(&file);
    }
    let file = env::temp_dir().join(format!("fenced-register-{}", std::process::id()));
    let shown = demonstrate(&file);
    std::fs::remove_file(&file)?;
    shown
}

fn main() {
    if let Err(error) = run() {
        eprintln!("fenced_register: {error}");
        std::process::exit(1);
    }
}
