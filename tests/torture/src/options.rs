//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use crate::kinds::Kind;

/// Tortures the locks of zoolock and counts what must not happen.
#[derive(Debug, Parser)]
#[command(name = "zoolock-torture")]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) run: RunOptions,
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
}

/// The coordinator's task.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunOptions {
    /// How many acquisitions there must be at least, over all phases (1 to 10000000)
    #[arg(long, value_name = "N", default_value = "5000")]
    #[arg(value_parser = |text: &str| whole(text, 1, 10_000_000))]
    pub(crate) acquisitions: u64,
    /// Where all choices come from; a random one if it is not given
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Three servers instead of one, and faults among them
    #[arg(long)]
    pub(crate) ensemble: bool,
    /// Go through the phases again until so many minutes have passed (1 to 10000)
    #[arg(long, value_name = "M")]
    #[arg(value_parser = |text: &str| whole(text, 1, 10_000))]
    pub(crate) minutes: Option<u64>,
    /// Only the phases whose names contain this
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
    /// How many holders are stopped before a guarded write, in each round (1 to 100000)
    #[arg(long, value_name = "N", default_value = "60")]
    #[arg(value_parser = |text: &str| whole(text, 1, 100_000))]
    pub(crate) stops: u64,
    /// Only these kinds of locks, with commas between them; all if it is not given
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = kind())]
    pub(crate) kinds: Vec<Kind>,
    /// How many threads each of the four client processes has (1 to 64)
    #[arg(long, value_name = "N", default_value = "8")]
    #[arg(value_parser = |text: &str| whole(text, 1, 64))]
    pub(crate) threads: u64,
    /// Instead, replay so many seeds of the simulation against a real server, from the seed on, or from 0
    #[arg(long, value_name = "N")]
    pub(crate) replay: Option<u64>,
}

impl RunOptions {
    /// The least duration of the run.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(60 * self.minutes.unwrap_or(0))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// The arguments of this program's copies.
    #[command(hide = true)]
    Client(ClientOptions),
}

/// The coordinator's settings for a client process.
#[derive(Debug, Clone, Args)]
pub(crate) struct ClientOptions {
    #[arg(long)]
    pub(crate) process: usize,
    /// The number of the process's earlier starts.
    #[arg(long)]
    pub(crate) incarnation: u32,
    #[arg(long)]
    pub(crate) threads: usize,
    #[arg(long)]
    pub(crate) seed: u64,
    #[arg(long)]
    pub(crate) connect: String,
    #[arg(long)]
    pub(crate) folder: PathBuf,
    #[arg(long, value_delimiter = ',', value_parser = kind())]
    pub(crate) kinds: Vec<Kind>,
}

fn kind() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::name)).try_map(|name| name.parse::<Kind>())
}

fn whole(text: &str, least: u64, most: u64) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("it must be a whole number from {least} to {most}")),
    }
}
