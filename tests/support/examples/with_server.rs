//! Runs a command with a private ZooKeeper server, whose address is in `ZOOKEEPER_CONNECT`, and exits with the
//! command's code. If `ZOOKEEPER_CONNECT` is already set and no port is given, the command uses those servers instead.
//!
//! ```text
//! cargo run -p zoolock-test-support --example with_server -- [--port N] COMMAND [ARGUMENT]...
//! ```
//!
//! With `--port 2181`, programs that use ZooKeeper's default address find the server as well.

use std::env;
use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitCode};

use zoolock_test_support::{Server, ServerBuilder};

const VARIABLE: &str = "ZOOKEEPER_CONNECT";
const USAGE: &str = "usage: with_server [--port N] COMMAND [ARGUMENT]...";

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
    let mut arguments = env::args_os().skip(1).peekable();
    let port = match arguments.next_if(|argument| argument == "--port") {
        Some(_) => Some(port(arguments.next())?),
        None => None,
    };
    let program = arguments.next().ok_or_else(|| io::Error::other(USAGE))?;
    let mut command = Command::new(&program);
    command.args(arguments);
    let is_given = env::var(VARIABLE).is_ok_and(|given| !given.trim().is_empty());
    // The server runs until this variable is dropped, after the command has ended.
    let _server = match port {
        None if is_given => None,
        port => {
            let builder = Server::builder();
            let server = port.into_iter().fold(builder, ServerBuilder::port).start()?;
            command.env(VARIABLE, server.connect_string());
            Some(server)
        }
    };
    let failed = |error| io::Error::other(format!("failed to run {program:?}: {error}"));
    let status = command.status().map_err(failed)?;
    // A command that was killed by a signal has no exit code.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn port(given: Option<OsString>) -> io::Result<u16> {
    let number = given.as_ref().and_then(|text| text.to_str()?.parse().ok());
    number.ok_or_else(|| io::Error::other(format!("--port: not a port: {given:?}; {USAGE}")))
}
