//! The long run of all locks at once, under faults. README.md explains how to run it and to read its report.
//!
//! ```text
//! coordinator --starts--> servers, with a proxy before each for every client process
//!   |       |
//!   |       +---starts--> client processes, this program again: a worker takes a lock
//!   |                     (operations, mix), a witness, writes, and gives all back (hold)
//!   |                              | events, over a socket for each worker (protocol)
//!   |                              v
//!   |                     recorder, with the register: the history of the phase
//!   |
//!   for each phase: the nemesis breaks servers, networks, the tree, client processes;
//!                   the judge judges the history; the report has a line
//! ```
//!
//! The [judge](zoolock_judge) does not know how the locks work. It sees the times of grants, losses and
//! unlocks, the [`witness`](client::witness) of each hold, the register's answers, the guarded writes in
//! ZooKeeper (journal), and the names of nodes. The exit code is not zero if anything is wrong.

mod client;
mod clock;
mod coordinator;
mod journal;
mod kinds;
mod nemesis;
mod options;
mod paths;
mod protocol;
mod replay;
mod report;
mod settings;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;

use options::{Options, Role};

type Failure = Box<dyn Error + Send + Sync>;
type Outcome<T> = Result<T, Failure>;

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match options.role {
        Some(Role::Client(options)) => client::run(&options).map(|()| true),
        None => match options.run.replay {
            Some(count) => replay::run(options.run.seed.unwrap_or(0), count),
            None => coordinator::run(&options.run),
        },
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
