//! Unread output: a full pipe, a stopped terminal, a stopped pager. The command never waits for these.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::termios::{FlowArg, tcflow};
use rustix::io::{ioctl_fionbio, ioctl_fionread};
use zoolock_test_support::{connect_string, fresh_path, shared_probe, wait_until};

use crate::util::{
    Beside, RUN, SOON, Scratch, UNTIL_TOLD, await_nodes, client, code_of, in_terminal, lock_of,
    once_connected, run, zoolock,
};

/// A full pipe. Nobody reads from it while the reader is kept.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().expect("a pipe");
    ioctl_fionbio(&writer, true).expect("set");
    while writer.write(&[b'x'; 1]).is_ok() {}
    // Its next user blocks on writes, as usual.
    ioctl_fionbio(&writer, false).expect("set");
    (reader, writer)
}

/// Starts a command whose standard error is full while the reader is kept.
fn unheard(command: Command) -> (Beside, PipeReader) {
    let (reader, writer) = full_pipe();
    (Beside::spawn(&command, Stdio::piped(), writer.into()), reader)
}

#[test]
fn waiter_with_a_full_stderr_runs_its_program_and_releases() {
    let path = fresh_path("unheard");
    let lock = lock_of(&client(), &path).acquire().expect("locked");
    let (mut first, _reader) = unheard(run(&["-v"], &path, UNTIL_TOLD));
    await_nodes(&path, 2);
    let (mut second, _other) = unheard(run(&["-v"], &path, UNTIL_TOLD));
    await_nodes(&path, 3);
    let begun = Instant::now();
    lock.release().expect("released");
    first.is_inside();
    println!("inside after {:?}", begun.elapsed());
    first.let_go();
    assert_eq!(first.code(), Some(0));
    second.is_inside();
    second.let_go();
    assert_eq!(second.code(), Some(0));
    println!("both ended after {:?}", begun.elapsed());
    await_nodes(&path, 0);
}

#[test]
fn revocation_with_a_full_stderr_does_not_kill_the_program() {
    let (client, path) = (client(), fresh_path("unheard-revoke"));
    // The shell itself would print there that a signal has ended a `sleep`.
    let script = "exec 2>&-; trap 'echo caught USR1' USR1; trap 'echo caught TERM; exit 7' TERM; \
         echo inside $$; while :; do sleep 0.05; done";
    let (mut running, _reader) = unheard(run(&["-v"], &path, script));
    running.is_inside();
    let holder = client.contenders(&path).expect("contenders").remove(0);
    // The process that forwards signals also keeps the program alive.
    for _ in 0..20 {
        client.revoke(&holder).expect("asked");
        running.signal(Signal::SIGUSR1);
        running.says("caught USR1");
    }
    let still = client.contenders(&path).expect("contenders").remove(0);
    assert_eq!(still.token, holder.token, "it still holds the lock");
    running.signal(Signal::SIGTERM);
    running.says("caught TERM");
    assert_eq!(running.code(), Some(7));
    await_nodes(&path, 0);
}

#[test]
fn waiter_with_a_full_stderr_ends_by_deadline_and_signals() {
    let path = fresh_path("unheard-waits");
    let _lock = lock_of(&client(), &path).acquire().expect("locked");
    let (mut told, _reader) = unheard(run(&["-v"], &path, "true"));
    await_nodes(&path, 2);
    told.signal(Signal::SIGTERM);
    assert_eq!(told.code(), Some(128 + Signal::SIGTERM as i32));
    let begun = Instant::now();
    let (_reader, writer) = full_pipe();
    let mut limited = once_connected(|| {
        let stderr = writer.try_clone().expect("a pipe").into();
        Beside::spawn(&run(&["-v", "-w", "3"], &path, "true"), Stdio::piped(), stderr)
    });
    assert_eq!(limited.code(), Some(1));
    println!("ended after {:?}", begun.elapsed());
    await_nodes(&path, 1);
}

#[test]
fn unread_errors_do_not_delay_the_exit() {
    let path = fresh_path("unheard-errors");
    for (arguments, wanted) in [
        (&["run", "not/absolute", "true"][..], 64),
        (&["run", "--no-such-option"], 64),
        (&["revoke", &path], 1),
        // Another process prints this.
        (&["run", &path, "no-such-program-anywhere"], 127),
    ] {
        let begun = Instant::now();
        let (mut one, _reader) = unheard(zoolock(arguments));
        assert_eq!(one.code(), Some(wanted), "{arguments:?}");
        println!("{arguments:?}: ended after {:?}", begun.elapsed());
    }
    await_nodes(&path, 0);
}

#[test]
fn stopped_terminal_delays_nobody() {
    let (path, scratch) = (fresh_path("stopped-terminal"), Scratch::new());
    let lock = lock_of(&client(), &path).acquire().expect("locked");
    let script = format!("echo inside > {}", scratch.name());
    let mut command = Command::new("sh");
    command.args([
        "-c",
        &format!("tty; exec {} {RUN} -v {path} sh -c '{script}'", env!("CARGO_BIN_EXE_zoolock")),
    ]);
    command.env("ZOOKEEPER_CONNECT", connect_string());
    let mut waiting = in_terminal(command);
    let (_, terminal) = waiting.exp_regex("/dev/[a-z0-9/]+\r").expect("its terminal");
    waiting.exp_string("2nd, held by").expect("it waits");
    // The effect of Ctrl-S.
    let mut open = File::options();
    let terminal = open.write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(terminal.trim_end());
    let terminal = terminal.expect("opened");
    tcflow(&terminal, FlowArg::TCOOFF).expect("stopped");
    let begun = Instant::now();
    lock.release().expect("released");
    await_nodes(&path, 0);
    assert!(scratch.file.exists(), "the program did not run");
    assert_eq!(code_of(&waiting), 0);
    println!("ended after {:?}", begun.elapsed());
    tcflow(&terminal, FlowArg::TCOON).expect("goes on");
}

#[test]
fn signals_end_list_and_watch_behind_a_stopped_pager() {
    let path = fresh_path("pager");
    let probe = shared_probe().expect("probe");
    probe.create_all(&path).expect("made");
    for _ in 0..200 {
        probe.create(&format!("{path}/lock-"), b"someone", true, true).expect("made");
    }
    for arguments in [&["list", &path][..], &["list", "--json", &path], &["watch", &path]] {
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let (mut reader, writer) = full_pipe();
            let full = ioctl_fionread(&reader).expect("its length");
            // Room for a part of its output.
            reader.read_exact(&mut [0; 4096]).expect("read");
            let mut stuck = Beside::spawn(&zoolock(arguments), writer.into(), Stdio::piped());
            wait_until("it writes", SOON, || ioctl_fionread(&reader).is_ok_and(|now| now == full));
            stuck.signal(signal);
            assert_eq!(stuck.status().signal(), Some(signal as i32), "{arguments:?}");
        }
    }
}
