//! The torture run: real processes carry out plans of the simulation against real servers. README.md explains how to
//! run it.
//!
//! ```text
//! run: servers, and some plans at a time
//!   |
//!   scene, one for each plan --starts--> client processes, this program again (client), each behind proxies
//!     |    |                                  | events, a line of JSON each (protocol)
//!     |    |                                  v
//!     |    +-- faults, or stops -->     recorder: the history of the plan
//!     v
//!   the checkers of `tests/checker`
//! ```
//!
//! `--replay` is a different run, which compares the simulated server with a real one (replay).

mod client;
mod faults;
mod kills;
mod machine;
mod protocol;
mod recorder;
mod replay;
mod run;
mod scene;
mod servers;
mod stops;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use protocol::Role;
use rustix::process::{Signal, set_parent_process_death_signal};
use zoolock_simulation::plan;

/// What the simulation's clients require of this module, for the paths of their lock objects.
mod monitor {
    pub(crate) use zoolock_simulation::{READ, SECOND, identity, limit};
}

type Failure = Box<dyn Error + Send + Sync>;
type Outcome<T> = Result<T, Failure>;

/// Carries out plans of the simulation with real processes and servers, and checks what happens.
#[derive(Debug, Parser)]
#[command(name = "zoolock-torture")]
struct Options {
    /// Run plans until there have been N acquisitions
    #[arg(long, value_name = "N", default_value_t = 5000)]
    acquisitions: usize,
    /// The seed of all random choices; random by default
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Three servers instead of one, and faults among them
    #[arg(long)]
    ensemble: bool,
    /// Instead, stop holders that write, until N holders have had a write refused because others had acquired their
    /// locks in the meantime
    #[arg(long, value_name = "N")]
    stops: Option<usize>,
    /// Instead, run the plan of this seed of the simulation
    #[arg(long, value_name = "SEED")]
    plan: Option<u64>,
    /// Instead, replay N seeds of the simulation against a real server, beginning with --seed, or with 0
    #[arg(long, value_name = "N")]
    replay: Option<u64>,
    /// Instead, kill N holders while a reaper runs, and measure when the next holder has the lock
    #[arg(long, value_name = "N")]
    kills: Option<usize>,
    /// The role of this copy of the program, as JSON
    #[arg(long, hide = true)]
    role: Option<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options {
        Options { role: Some(role), .. } => be(role).map(|()| true),
        Options { replay: Some(count), seed, .. } => replay::run(seed.unwrap_or(0), *count),
        Options { kills: Some(count), ensemble, .. } => kills::run(*ensemble, *count),
        _ => run::run(&options),
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

/// Runs this program in a role. The process ends with its parent, even if it is stopped and could not react.
fn be(role: &str) -> Outcome<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    match serde_json::from_str(role)? {
        Role::Client(options) => client::run(options),
        Role::Holder(facts) => kills::hold(facts),
    }
}
