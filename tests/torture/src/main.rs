//! Tortures the locks: client processes that take them in all ways while a nemesis breaks servers,
//! networks and the processes themselves, and witnesses that know nothing of ZooKeeper.
//!
//! ```text
//! cargo run --release --example torture -- --acquisitions 5000 --seed 1
//! cargo run --release --example torture -- --acquisitions 20000 --ensemble --minutes 30
//! cargo run --release --example torture -- --kinds read-write,semaphore --only cut
//! cargo run --release --example torture -- --peer curator --acquisitions 5000 --seed 1
//! ```
//!
//! All [`kinds`] of locks take part, each at [`places`] of its own; `--kinds` picks some of them.
//!
//! The parent ([`run`]) walks through [`phases`] of [`faults`] on a [`field`]. It starts a [`crew`]
//! of copies of this program, [`client`]s, whose [`worker`]s do what the tables in [`ops`] say, and
//! [`stay`] with what they get for a while. Each holder takes a [`witness`], file locks that a
//! [`guardian`] lets go of at a loss, and writes to a [`register`] that refuses lower fencing
//! tokens. What they tell the [`hub`], and what an [`usher`] sees in the queues, is the [`evidence`]
//! for the [`verdict`] on each phase; the [`report`] and its [`tables`] sum up. The exit code is not
//! zero if anything is wrong.
//!
//! # Another library
//!
//! With `--peer curator` the clients are those of a [`peer`]: Java programs that take the locks by
//! Apache Curator's recipes (`tests/interop/peers/torture`; `tests/setup.sh --interop` installs what
//! that takes). The faults, the tables and the line of JSON are the same, for comparison. What goes
//! wrong is counted and told, and leaves the exit code alone. Processes that hang after a phase are
//! killed and started again, and then this round of the phases is the last one, whatever it lacks
//! of the acquisitions. What has to be known to read the figures:
//!
//! - A holder does what Curator's documentation recommends: it stops when the listener on the
//!   connection's state says `SUSPENDED` or `LOST`, and when the lock was granted while that is the
//!   state. So every cut costs a client its holds, which is a loss in the tables but no fault.
//! - Its fencing token is the number of the write that made its node (`czxid`), read after the lock
//!   was granted. Curator gives none, and this one rises along a queue. Who finds the node gone
//!   instead knows that the hold is lost.
//! - Calls have the deadlines of zoolock's. Curator promises nothing of the kind while a connection
//!   is away: it tries again as its retry policy says. Giving a lock back has no deadline.
//! - There is nothing like the ephemeral lock, no writer goes on as a reader, and nobody waits for
//!   several permits for as long as it takes, since two who do can wait for each other.
//!
//! # The seed
//!
//! The seed gives the choices of every thread and of the nemesis; the times are the machine's.

mod cli;
mod client;
mod clock;
mod crew;
mod evidence;
mod faults;
mod field;
mod gate;
mod guardian;
mod held;
mod hub;
mod hung;
mod kinds;
mod leave;
mod locks;
mod message;
mod mouth;
mod ops;
mod orphans;
mod peer;
mod phases;
mod places;
mod register;
mod report;
mod run;
mod seed;
mod servers;
mod setting;
mod stay;
mod tables;
mod usher;
mod verdict;
mod view;
mod witness;
mod worker;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;

use cli::{CommandLine, Role};

type Failure = Box<dyn Error + Send + Sync>;
type Outcome<T> = Result<T, Failure>;

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    let outcome = match command_line.role {
        Some(Role::Client(job)) => client::run(&job).map(|()| true),
        None => run::run(&command_line.plan),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("torture: {error}");
            ExitCode::FAILURE
        }
    }
}
