//! The long run of all locks at once, under faults. README.md says how to run it and how to read
//! its report.
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
//! The [judge](zoolock_judge) knows nothing of how the locks work. It has the times of grants,
//! losses and unlocks, the [`witness`](client::witness) of each hold, what the register took, what
//! ZooKeeper has of guarded writes (journal), and the names of nodes. The exit code is not zero if
//! there is a violation.

mod client;
mod clock;
mod coordinator;
mod journal;
mod kinds;
mod nemesis;
mod options;
mod paths;
mod protocol;
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
        None => coordinator::run(&options.run),
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
