//! The files that the lock protects, and the witness beside them. Nothing in here knows the lock.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::str::FromStr;

const NUMBER: &str = "next-order";
const LEDGER: &str = "ledger";
const WITNESS: &str = "witness";

/// The number file is always overwritten in full and with one write, so that a process that is
/// killed never leaves half a number.
const NUMBER_BYTES: usize = 21;
/// More than a line of the ledger ever has.
const LINE_BYTES: u64 = 128;

/// One line of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) order: u64,
    pub(crate) process: u64,
    pub(crate) thread: u64,
    pub(crate) token: u64,
    /// Nobody else was at the books, by the word of the witness.
    pub(crate) alone: bool,
}

/// The number of the next order, and the ledger of those handed out: two files, so that somebody
/// in between leaves traces.
#[derive(Debug)]
pub(crate) struct Books {
    number: File,
    ledger: File,
}

impl Books {
    /// New books, in which the next order is number 1.
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

    /// The number of the next order, by both files.
    ///
    /// The line in the ledger is what counts. A process that was killed between the two writes
    /// has taken a number out of the first file and handed it to nobody: it is given out now.
    pub(crate) fn next(&self) -> io::Result<u64> {
        let mut text = [0; NUMBER_BYTES];
        self.number.read_exact_at(&mut text, 0)?;
        let number: u64 = parse(&String::from_utf8_lossy(&text))?;
        let last = self.last()?.map_or(0, |entry| entry.order);
        Ok(if number == last + 2 { last + 1 } else { number })
    }

    /// Hands out `entry.order`, which [`next`](Books::next) gave.
    ///
    /// The fencing token is only noted here, for the audit. Books that are to be safe from late holders
    /// would be claimed with it before they are read (the example `fenced_register` shows how); but then
    /// they would protect themselves, and here the lock alone shall be seen to do it.
    pub(crate) fn hand_out(&self, entry: &Entry) -> io::Result<()> {
        self.set_next(entry.order + 1)?;
        // Appended with one write: lines stay whole, even if two were here at once.
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

/// All lines of the ledger.
pub(crate) fn read_ledger(folder: &Path) -> io::Result<Vec<Entry>> {
    fs::read_to_string(folder.join(LEDGER))?.lines().map(parse).collect()
}

/// Sees whether two are at the books at once: an advisory lock of the operating system, which it
/// takes back by itself from a process that is killed.
#[derive(Debug)]
pub(crate) struct Witness(File);

/// Ends what [`Witness::look`] began.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    file: Option<&'a File>,
}

impl Witness {
    /// Each thread opens one of its own: these locks exclude open files, not processes.
    pub(crate) fn open(folder: &Path) -> io::Result<Witness> {
        File::open(folder.join(WITNESS)).map(Witness)
    }

    /// Watches until the result is dropped.
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
        // A failure would show as an overlap at the next look.
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
