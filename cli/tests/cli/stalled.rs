//! Output that is not read: a full pipe, a stopped terminal, a stopped pager. None of these makes the command wait.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::fcntl::OFlag;
use nix::sys::termios::{FlowArg, tcflow};
use rustix::io::{ioctl_fionbio, ioctl_fionread};

use crate::util::*;

/// Returns a pipe that is full. It stays full while the reader is neither read nor dropped.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().expect("a pipe");
    ioctl_fionbio(&writer, true).expect("set");
    while writer.write(&[b'x'; 1]).is_ok() {}
    // Writes of the process that inherits it block, as usual.
    ioctl_fionbio(&writer, false).expect("set");
    (reader, writer)
}

/// Starts a command whose standard error is full. It stays full while the reader is kept.
fn unheard(command: &Command) -> (Beside, PipeReader) {
    let (reader, writer) = full_pipe();
    (Beside::spawn(command, Stdio::piped(), writer.into()), reader)
}

#[test]
fn waiter_with_a_full_stderr_runs_its_program_and_releases() {
    let path = fresh_path("unheard");
    let lock = held(&path);
    let (mut first, _reader) = unheard(&run(&["-v"], &path, UNTIL_TOLD));
    await_nodes(&path, 2);
    let (mut second, _other) = unheard(&run(&["-v"], &path, UNTIL_TOLD));
    await_nodes(&path, 3);
    lock.release().expect("released");
    for waiter in [&mut first, &mut second] {
        waiter.is_inside();
        assert_eq!(let_end(waiter), Some(0));
    }
    await_nodes(&path, 0);
}

#[test]
fn revocation_with_a_full_stderr_does_not_kill_the_program() {
    let (client, path) = (client(), fresh_path("unheard-revoke"));
    // With its standard error open, the shell would write there that a signal has ended a `sleep`, and block.
    let (mut running, _reader) = unheard(&run(&["-v"], &path, &format!("exec 2>&-; {LISTENS}")));
    running.is_inside();
    let holder = contenders(&path).remove(0);
    // If the process that forwards signals blocked on writing, the program would not survive.
    for _ in 0..20 {
        client.revoke(&holder).expect("asked");
        running.signal(Signal::SIGUSR1);
        running.says("caught USR1");
    }
    let still = contenders(&path).remove(0);
    assert_eq!(still.token, holder.token, "it still holds the lock");
    assert_eq!(end_by(Signal::SIGTERM, &mut running), Some(7));
}

#[test]
fn unread_errors_do_not_delay_the_exit() {
    let path = fresh_path("unheard-errors");
    for (arguments, wanted) in [
        (&["run", "not/absolute", "true"][..], 64),
        (&["run", "--no-such-option"], 64),
        (&["revoke", &path], 1),
        // The supervisor prints this error.
        (&["run", &path, "/proc"], 126),
    ] {
        let (mut one, _reader) = unheard(&zoolock(arguments));
        assert_eq!(one.code(), Some(wanted), "{arguments:?}");
    }
    await_nodes(&path, 0);
}

#[test]
fn stopped_terminal_delays_nobody() {
    let (path, (_folder, file)) = (fresh_path("stopped-terminal"), scratch());
    let lock = held(&path);
    let zoolock = format!("{ZOOLOCK} run -v {path} sh -c 'echo inside > {file}'");
    let mut waiting = Terminal::with(in_shell("sh", &format!("tty; exec {zoolock}")));
    let (_, terminal) = waiting.0.exp_regex("/dev/[a-z0-9/]+\r").expect("its terminal");
    waiting.shows("2nd, held by");
    // This has the effect of Ctrl-S.
    let mut open = File::options();
    let terminal = open.write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(terminal.trim_end());
    let terminal = terminal.expect("opened");
    tcflow(&terminal, FlowArg::TCOOFF).expect("stopped");
    lock.release().expect("released");
    await_nodes(&path, 0);
    assert!(Path::new(&file).exists(), "the program did not run");
    assert_eq!(waiting.code(), 0);
    tcflow(&terminal, FlowArg::TCOON).expect("goes on");
}

#[test]
fn signals_end_list_and_watch_behind_a_stopped_pager() {
    let (path, probe) = (fresh_path("pager"), probe());
    probe.create_all(&path).expect("made");
    (0..200).for_each(|_| drop(contends(&probe, &path, "someone")));
    for (arguments, signal) in [
        (&["list", &path][..], Signal::SIGTERM),
        (&["list", "--json", &path], Signal::SIGINT),
        (&["watch", &path], Signal::SIGTERM),
    ] {
        let (mut reader, writer) = full_pipe();
        let full = ioctl_fionread(&reader).expect("its length");
        // This makes room for a part of the command's output.
        reader.read_exact(&mut [0; 4096]).expect("read");
        let mut stuck = Beside::spawn(&zoolock(arguments), writer.into(), Stdio::piped());
        wait_until("it writes", SOON, || ioctl_fionread(&reader).is_ok_and(|now| now == full));
        stuck.signal(signal);
        assert_eq!(stuck.status().signal(), Some(signal as i32), "{arguments:?}");
    }
}
