//! Hands out order numbers from a plain file that several processes share, and checks that none was
//! given twice or left out, even though one of the processes is killed while it holds the lock.
//!
//! ```text
//! cargo run --release -p order_ids -- --processes 3 --threads 4 --orders 4000
//! ```
//!
//! The [`office`] starts copies of this program. Each copy is a [`clerk`] with several threads,
//! which write into the [`books`] under a lock of zoolock. A clerk reports to the office with
//! [`message`]s. At the end, the [`audit`] reads the ledger. A separate checker, the `Witness`,
//! notes in the ledger when two threads used the books at once. It is an advisory lock of the
//! operating system and does not depend on ZooKeeper.
//!
//! The server runs in the process of the office, unless `--zookeeper` or `--server` selects
//! another. The office has a reaper, which ends the session of the clerk that is killed. With
//! `--without-reaper`, the other clerks wait until the servers do that. With `--without-lock`, the
//! clerks do not take the lock, to show that the audit finds the errors that the lock prevents.

mod audit;
mod books;
mod clerk;
mod message;
mod office;

use std::error::Error;
use std::fmt::Write;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand, error::ErrorKind};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The fewest orders for each process. With fewer, all might be handed out before the clerk to be
/// killed has acquired the lock once.
const LEAST_ORDERS_PER_PROCESS: u64 = 10;

/// Hands out order numbers under a distributed lock, and checks them.
#[derive(Debug, Parser)]
#[command(name = "order_ids")]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct CommandLine {
    #[command(flatten)]
    plan: Plan,
    #[command(subcommand)]
    role: Option<Role>,
}

/// The plan of a run.
#[derive(Debug, Clone, Args)]
struct Plan {
    /// How many processes share the lock (2 to 50); one of them is killed
    #[arg(long, value_name = "P", default_value = "3")]
    #[arg(value_parser = |text: &str| count(text, 2, 50))]
    processes: u64,
    /// How many threads each process has (1 to 50)
    #[arg(long, value_name = "T", default_value = "4")]
    #[arg(value_parser = |text: &str| count(text, 1, 50))]
    threads: u64,
    /// How many orders there are (10 or more for each process)
    #[arg(long, value_name = "N", default_value = "4000")]
    #[arg(value_parser = |text: &str| count(text, 20, 1_000_000))]
    orders: u64,
    /// Start a real ZooKeeper (what tests/setup.sh installs) instead of a server in this process
    #[arg(long, conflicts_with = "server")]
    zookeeper: bool,
    /// Use the ZooKeeper at these addresses, HOST:PORT,HOST:PORT and so on
    #[arg(long, value_name = "HOSTS")]
    server: Option<String>,
    /// Do not take the lock, to see what goes wrong; no process is killed
    #[arg(long)]
    without_lock: bool,
    /// Do not end the session of the killed process: the servers do that after the session timeout
    #[arg(long)]
    without_reaper: bool,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// The arguments of a copy of this program.
    #[command(hide = true)]
    Clerk(clerk::Job),
}

fn count(text: &str, least: u64, most: u64) -> Result<u64, String> {
    match text.parse() {
        Ok(count) if (least..=most).contains(&count) => Ok(count),
        _ => Err(format!("it must be a whole number from {least} to {most}")),
    }
}

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    let outcome = match command_line.role {
        Some(Role::Clerk(job)) => clerk::run(&job).map(|()| true),
        None => {
            refuse_too_few_orders(&command_line.plan);
            office::run(&command_line.plan)
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("order_ids: {}", with_sources(&*error));
            ExitCode::FAILURE
        }
    }
}

fn refuse_too_few_orders(plan: &Plan) {
    let least = plan.processes * LEAST_ORDERS_PER_PROCESS;
    if plan.orders < least {
        let text = format!(
            "{} orders are too few for {} processes: there must be {least} or more, so that each \
             has its turn before they run out",
            plan.orders, plan.processes
        );
        CommandLine::command().error(ErrorKind::ValueValidation, text).exit();
    }
}

fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}
