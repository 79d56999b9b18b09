//! The long run of all locks at once, under faults. [README](../README.md): how to run and read it.
//!
//! ```text
//!  coordinator ──starts──> 4 client processes of N workers each          (client)
//!   │  │  │                   │ take and give back locks: operations, mix
//!   │  │  │                   │ take a witness, file locks, for each hold; write to the register
//!   │  │  └──hears them──<────┘ events, over a socket for each worker  (protocol)
//!   │  │        └─ recorder: the history of a phase; it has the register, too
//!   │  └──walks through the phases──> nemesis: servers, networks, tree, client processes
//!   └──after each phase──> checker: judges the history ──> report
//! ```
//!
//! The coordinator and the clients are this program, started as `client ..` (`--peer`: clients in
//! Java instead). A client takes its locks through a proxy of its own, where the [`nemesis`] breaks
//! the network. The [`checker`] knows nothing of how the locks work: it has the times of grants,
//! losses and unlocks, the [`witness`](client::witness) of each hold, what the register took, and
//! the names of nodes.
//! The exit code is not zero if it finds anything wrong.

mod checker;
mod client;
mod clock;
mod coordinator;
mod history;
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
