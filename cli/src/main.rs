//! The command `zoolock`: runs a program under a distributed lock, as flock(1) does under a local
//! one, and shows who has a lock and who waits for it. A user of the library like any other.

#[cfg(not(unix))]
compile_error!("the command needs process groups and signals as Unix has them");

mod args;
mod child;
mod exit;
mod family;
mod guard;
mod holder;
mod look;
mod progress;
mod run;
mod signals;
mod step;
mod table;
mod terminal;
mod watch;

use std::process::ExitCode;

use args::{Action, Arguments};
use clap::{CommandFactory, Parser};
use exit::Failed;

fn main() -> ExitCode {
    if let Some(code) = step::run_if_asked_for().or_else(guard::run_if_asked_for) {
        return ExitCode::from(code);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(told) => {
            // Help that was asked for is no error, and goes to the standard output.
            let code = if told.use_stderr() { exit::USAGE } else { 0 };
            let _ = told.print();
            return ExitCode::from(code);
        }
    };
    let code = act(arguments).unwrap_or_else(|Failed { code, text }| {
        if let Some(text) = text {
            exit::say(&text);
        }
        code
    });
    ExitCode::from(code)
}

fn act(arguments: Arguments) -> Result<u8, Failed> {
    match arguments.action {
        Action::Run(run) => run::run(run),
        Action::List(list) => look::list(&list),
        Action::Watch(watch) => watch::watch(&watch),
        Action::Verify(verify) => look::verify(&verify),
        Action::Revoke(revoke) => look::revoke(&revoke),
        Action::Completions { shell } => {
            let mut command = Arguments::command();
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, "zoolock", &mut script);
            exit::print(&script)
        }
    }
}
