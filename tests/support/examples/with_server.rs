//! Runs a command with a private ZooKeeper server, whose address is in `ZOOKEEPER_CONNECT`, and exits with
//! the command's code. If `ZOOKEEPER_CONNECT` is already set, the command uses that instead.
//!
//! ```text
//! cargo run -p zoolock-test-support --example with_server -- COMMAND [ARGUMENT]...
//! ```

use std::env;
use std::io;
use std::process::{Command, ExitCode};

use zoolock_test_support::Server;

const VARIABLE: &str = "ZOOKEEPER_CONNECT";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("with_server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    let program = arguments
        .next()
        .ok_or_else(|| io::Error::other("usage: with_server COMMAND [ARGUMENT]..."))?;
    let mut command = Command::new(&program);
    command.args(arguments);
    // Lives until the command has ended.
    let _server = match env::var(VARIABLE) {
        Ok(given) if !given.trim().is_empty() => None,
        _ => {
            let server = Server::start()?;
            command.env(VARIABLE, server.connect_string());
            Some(server)
        }
    };
    let failed = |error| io::Error::other(format!("failed to run {program:?}: {error}"));
    let status = command.status().map_err(failed)?;
    // A command killed by a signal has no code.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
