//! The command `zoolock`: runs a program under a distributed lock, as flock(1) does under a local
//! one, and shows who has a lock and who waits for it. It uses only the public API of the library.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the command needs Linux: elsewhere, a process cannot supervise all its descendants"
);

mod args;
mod child;
mod descendants;
mod diagnosis;
mod doctor;
mod exit;
mod four_letter;
mod grants;
mod holder;
mod lead;
mod look;
mod man;
mod messages;
mod notify;
mod output;
mod progress;
mod reaper;
mod run;
mod settings;
mod signals;
mod step;
mod supervisor;
mod table;
mod terminal;
mod tree;

mod walk;
mod watch;

use std::process::{self, ExitCode};

use args::{Action, Arguments};
use clap::{CommandFactory, Parser};
use exit::Failed;

fn main() -> ExitCode {
    let code = step::run_if_asked_for().or_else(supervisor::run_if_asked_for);
    let code = code.unwrap_or_else(|| match Arguments::try_parse() {
        Ok(arguments) => act(arguments).unwrap_or_else(Failed::tell),
        Err(told) => {
            let text = told.render().to_string();
            if told.use_stderr() {
                text.lines().for_each(output::line);
                exit::USAGE
            } else {
                // The user asked for help, so this is not a failure.
                exit::print(text.as_bytes()).unwrap_or_else(Failed::tell)
            }
        }
    });
    notify::finish();
    output::finish();
    ExitCode::from(code)
}

fn act(arguments: Arguments) -> Result<u8, Failed> {
    output::show_warnings();
    let has_handler =
        matches!(arguments.action, Action::Run(_) | Action::Lead(_) | Action::Reaper { .. });
    if process::id() == 1 && !has_handler {
        signals::end_by_them()?;
    }
    match arguments.action {
        Action::Run(run) => run::run(run),
        Action::Lead(program) => lead::lead(program),
        Action::List { json, recursive: false, lock } => look::list(&lock, json),
        Action::List { json, recursive: true, lock } => tree::list(&lock, json),
        Action::Watch { interval, recursive, json, lock } => {
            watch::watch(&lock, interval, recursive, json)
        }
        Action::Verify { lock, token } => look::verify(&lock, token),
        Action::Revoke(lock) => look::revoke(&lock),
        Action::Break { lock, token } => look::break_lock(&lock, token),
        Action::Doctor { json, servers, path } => doctor::examine(&servers, path.as_deref(), json),
        Action::Reaper { socket } => reaper::reap(&socket),
        Action::Man { folder } => man::write(&folder),
        Action::Completions { shell } => {
            let mut command = Arguments::command();
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, "zoolock", &mut script);
            exit::print(&script)
        }
    }
}
