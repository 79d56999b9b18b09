//! The files that the lock protects, and a checker (the `Witness`) that detects concurrent use.
//! This module does not use the distributed lock.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::str::FromStr;

const NUMBER: &str = "next-order";
const LEDGER: &str = "ledger";
const WITNESS: &str = "witness";

/// The length of the number file. Every write replaces the whole file at once, so a killed process
/// never leaves half a number.
const NUMBER_BYTES: usize = 21;
/// More bytes than any line of the ledger has.
const LINE_BYTES: u64 = 128;

/// One line of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) order: u64,
    pub(crate) process: u64,
    pub(crate) thread: u64,
    pub(crate) token: u64,
    /// Whether no other thread was using the books, according to the witness.
    pub(crate) alone: bool,
}

/// The number of the next order, and the ledger of the orders handed out. They are two files, so
/// that an intruder between the two writes leaves traces.
#[derive(Debug)]
pub(crate) struct Books {
    number: File,
    ledger: File,
}

impl Books {
    /// Creates books in which the next order is number 1.
    pub(crate) fn create(folder: &Path) -> io::Result<Books> {
        for name in [NUMBER, LEDGER, WITNESS] {
            File::create_new(folder.join(name))?;
        }
        let books = Books::open(folder)?;
        books.set_next(1)?;
        Ok(books)
    }

    pub(crate) fn open(folder: &Path) -> io::Result<Books> {
        Ok(Books {
            number: File::options().read(true).write(true).open(folder.join(NUMBER))?,
            ledger: File::options().read(true).append(true).open(folder.join(LEDGER))?,
        })
    }

    /// Returns the number of the next order, from both files.
    ///
    /// Only the ledger counts. A process that was killed between the two writes has advanced the
    /// first file, but handed out nothing. Its number is handed out now.
    pub(crate) fn next(&self) -> io::Result<u64> {
        let mut text = [0; NUMBER_BYTES];
        self.number.read_exact_at(&mut text, 0)?;
        let number: u64 = parse(&String::from_utf8_lossy(&text))?;
        let last = self.last()?.map_or(0, |entry| entry.order);
        Ok(if number == last + 2 { last + 1 } else { number })
    }

    /// Hands out `entry.order`, the result of [`next`](Books::next).
    ///
    /// The ledger only records the fencing token, for the audit. To protect its data against late
    /// holders, a program registers the token before it reads them, as the example
    /// `fenced_register` shows. Here the lock alone protects the books, to show that this works.
    pub(crate) fn hand_out(&self, entry: &Entry) -> io::Result<()> {
        self.set_next(entry.order + 1)?;
        // One write appends the line, so lines stay whole even if two threads are here at once.
        (&self.ledger).write_all(format!("{entry}\n").as_bytes())
    }

    fn set_next(&self, number: u64) -> io::Result<()> {
        self.number.write_all_at(format!("{number:020}\n").as_bytes(), 0)
    }

    fn last(&self) -> io::Result<Option<Entry>> {
        let length = self.ledger.metadata()?.len();
        let begin = length.saturating_sub(LINE_BYTES);
        let mut tail = vec![0; (length - begin) as usize];
        self.ledger.read_exact_at(&mut tail, begin)?;
        let tail = String::from_utf8_lossy(&tail);
        tail.lines().last().map(parse).transpose()
    }
}

/// Reads all lines of the ledger.
pub(crate) fn read_ledger(folder: &Path) -> io::Result<Vec<Entry>> {
    fs::read_to_string(folder.join(LEDGER))?.lines().map(parse).collect()
}

/// Detects whether two threads use the books at once. It is an advisory lock of the operating
/// system, which releases the lock of a killed process by itself.
#[derive(Debug)]
pub(crate) struct Witness(File);

/// Dropping this ends what [`Witness::look`] began.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    file: Option<&'a File>,
}

impl Witness {
    /// Opens the witness of one thread: these locks exclude open files, not processes.
    pub(crate) fn open(folder: &Path) -> io::Result<Witness> {
        File::open(folder.join(WITNESS)).map(Witness)
    }

    /// Watches the books until the result is dropped.
    pub(crate) fn look(&self) -> io::Result<Watch<'_>> {
        match self.0.try_lock() {
            Ok(()) => Ok(Watch { file: Some(&self.0) }),
            Err(TryLockError::WouldBlock) => Ok(Watch { file: None }),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Watch<'_> {
    pub(crate) fn is_alone(&self) -> bool {
        self.file.is_some()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        // A failure would be reported as an overlap by the next watch.
        let _ = self.file.map(File::unlock);
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { order, process, thread, token, alone } = self;
        let witness = if *alone { "alone" } else { "overlap" };
        write!(f, "{order} {process} {thread} {token} {witness}")
    }
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(line: &str) -> Result<Entry, String> {
        let damaged = || format!("damaged line in the ledger: {line:?}");
        let [order, process, thread, token, witness] =
            line.split(' ').collect::<Vec<_>>().try_into().map_err(|_| damaged())?;
        let number = |text: &str| text.parse().map_err(|_| damaged());
        Ok(Entry {
            order: number(order)?,
            process: number(process)?,
            thread: number(thread)?,
            token: number(token)?,
            alone: match witness {
                "alone" => true,
                "overlap" => false,
                _ => return Err(damaged()),
            },
        })
    }
}

fn parse<T: FromStr<Err: ToString>>(text: &str) -> io::Result<T> {
    let damaged = |error: T::Err| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
    text.trim().parse().map_err(damaged)
}
