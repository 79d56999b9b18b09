//! The supervisor. Whatever a program does to itself and its descendants, all of them end when zoolock ends, the
//! supervisor ends or the lock is lost, and the lock is held while any of them runs.

use std::os::fd::OwnedFd;
use std::process::Command;
use std::{fs, thread};

use common::handle_of;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::pidfd_send_signal;

use crate::limits::assert_ends_before_the_next;
use crate::util::*;

/// Programs that print `inside` from a process that is not a child of the shell and does not carry any mark of it.
const ESCAPES: [(&str, &str); 9] = [
    ("its own session", "setsid sh -c 'echo inside $$; exec sleep 1000' &"),
    ("a daemon", "(setsid sh -c 'echo inside $$; exec sleep 1000' &)"),
    ("another group", "timeout 1000 sh -c 'echo inside $$; exec sleep 1000' &"),
    ("no environment", "(env -i setsid sh -c 'echo inside $$; exec sleep 1000' &)"),
    (
        "a title",
        "(perl -e '$0 = \"a title \" x 400; $| = 1; print \"inside $$\\n\"; sleep 1000' &)",
    ),
    ("a stopped process", "(sh -c 'echo inside $$; kill -STOP $$' &)"),
    (
        "another terminal",
        "script -qec \"sh -c 'echo inside \\$\\$; sleep 1000'\" /dev/null < /dev/null &",
    ),
    (
        "an ended first thread",
        "(perl -e 'print \"\"'; python3 -c '
import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
print(\"inside\", os.getpid(), flush=True)
ctypes.CDLL(None).syscall(60, 0)' &)",
    ),
    (
        "its own supervisor",
        "python3 -c '
import ctypes, os, time
ctypes.CDLL(None).prctl(36, 1)
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        print(\"inside\", os.getpid(), flush=True)
        time.sleep(1000)
    os._exit(0)
time.sleep(1000)' &",
    ),
];

/// Runs a test with each of these programs at the same time.
fn with_each(begin: &str, end: &str, test: impl Fn(Beside, OwnedFd, &str) + Sync) {
    thread::scope(|scope| {
        for (name, script) in ESCAPES {
            let test = &test;
            scope.spawn(move || {
                let path = fresh_path("escapes");
                let running = runs(&[], &path, &format!("{begin}\n{script}\n{end}"));
                let inside = running.is_inside();
                println!("{name}: {inside}");
                test(running, handle_of(inside), &path);
            });
        }
    });
}

/// Returns whether all threads of a process have ended. The first of them may have ended long before the others.
fn has_ended(process: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&Timespec::default())) == Ok(1)
}

#[test]
fn whatever_a_program_has_started_ends_with_zoolock() {
    with_each("", "wait", |running, inside, _| {
        running.signal(Signal::SIGKILL);
        wait_until("it has ended", SOON, || has_ended(&inside));
    });
}

#[test]
fn whatever_a_program_has_started_ends_with_the_supervisor() {
    with_each("", "sleep 1000", |mut running, inside, path| {
        send(supervisor_of(running.id()), Signal::SIGKILL);
        running.says("because its supervisor was killed");
        assert!(has_ended(&inside), "the lock is released only behind its end");
        assert_eq!(running.code(), Some(71));
        await_nodes(path, 0);
    });
}

#[test]
fn whatever_a_program_has_started_ends_with_the_lock() {
    with_each("", "wait", |mut running, inside, path| {
        delete_node(path);
        assert_eq!(running.code(), Some(74));
        assert!(has_ended(&inside));
    });
}

#[test]
fn lock_is_held_for_whatever_a_program_has_started() {
    with_each("exec 3<&0", "read line <&3; exit 5", |mut running, inside, path| {
        running.let_go();
        running.says("the program has ended, but zoolock keeps the lock for its descendants: ");
        assert!(is_taken(path) && !has_ended(&inside));
        pidfd_send_signal(&inside, rustix::process::Signal::KILL).expect("sent");
        // When it is killed, other processes of the script become orphans as well, sooner or later.
        wait_until("all have ended", SOON, || {
            if !is_gone(running.id()) {
                running.signal(Signal::SIGTERM);
            }
            is_gone(running.id())
        });
        assert_eq!(running.code(), Some(5));
        await_nodes(path, 0);
    });
}

/// A library that makes each supervisor exit before it begins its work.
const ENDS_SUPERVISORS: &str = r#"
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void end(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--exec-supervisor")) _exit(101);
}
"#;

#[test]
fn program_without_a_supervisor_never_starts() {
    let (folder, path) = (tempfile::tempdir().expect("a folder"), fresh_path("unready"));
    let (source, library) = (folder.path().join("end.c"), folder.path().join("end.so"));
    fs::write(&source, ENDS_SUPERVISORS).expect("written");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().expect("a C compiler, as cargo has it").success());
    let mut command = run(&[], &path, "echo inside");
    let (code, said, errors) = ends(command.env("LD_PRELOAD", &library));
    assert_eq!((code, &*said), (Some(71), ""), "it has started");
    assert!(
        errors.ends_with("zoolock: the program was killed, because its supervisor was killed\n")
    );
}

/// A program with a daemon, which prints `inside`.
const WITH_A_DAEMON: &str = "(setsid sh -c 'echo inside $$; exec sleep 1000' &); exec sleep 1000";

#[test]
fn stopped_supervisor_kills_when_zoolock_is_killed() {
    let running = runs(&[], &fresh_path("both-stopped"), WITH_A_DAEMON);
    let inside = running.is_inside();
    let supervisor = supervisor_of(running.id());
    // The program is stopped as well, so that it cannot resume its supervisor.
    running.stop();
    send(supervisor, Signal::SIGSTOP);
    running.signal(Signal::SIGKILL);
    await_gone(inside);
}

#[test]
fn all_end_before_the_next_grant_while_zoolock_is_stopped() {
    // The supervisor keeps running, is stopped as well, or is killed.
    let end_with = |signal: Option<Signal>| {
        println!("its supervisor gets {signal:?}");
        let path = fresh_path("stopped");
        let mut running = runs(&["--session-timeout", "6"], &path, WITH_A_DAEMON);
        let inside = running.is_inside();
        let supervisor = supervisor_of(running.id());
        assert_ends_before_the_next(&running, inside, &path, || {
            if let Some(signal) = signal.filter(|_| !is_gone(supervisor)) {
                send(supervisor, signal);
            }
        });
        if signal == Some(Signal::SIGKILL) {
            // zoolock may first detect either that its supervisor was killed or that its lock is lost.
            assert!(matches!(running.code(), Some(71 | 74)));
        }
    };
    thread::scope(|scope| {
        for signal in [None, Some(Signal::SIGSTOP), Some(Signal::SIGKILL)] {
            scope.spawn(move || end_with(signal));
        }
    });
}

/// Signals do not continue a zoolock that a debugger has stopped, so only its supervisor can end the program.
#[test]
fn all_end_with_the_lease_while_a_debugger_stops_zoolock() {
    let running = runs(&["--session-timeout", "6"], &fresh_path("debugged"), WITH_A_DAEMON);
    let inside = running.is_inside();
    let _debugger = debugger_of(running.id());
    await_gone(inside);
}

#[test]
fn code_of_the_program_stays_when_its_number_is_used_again() {
    // The next process of the whole system gets this id, unless another process starts before it, or a group still has
    // this id. The parent of that process ends at once, so that the supervisor reaps it.
    let script = "setsid sh -c 'while kill -0 $1 2> /dev/null; do sleep 0.01; done
        for i in 1 2 3 4 5 6 7 8 9; do
            (echo $(($1 - 1)) > /proc/sys/kernel/ns_last_pid; sh -c \"sleep 0.1; exit 9\" &) 2> /dev/null
            sleep 0.2
        done' - $$ & exit 3";
    assert_eq!(runs(&[], &fresh_path("number"), script).code(), Some(3));
}

#[test]
fn flood_of_signals_harms_nobody() {
    let script = format!("trap '' USR1; {UNTIL_TOLD}");
    let mut running = started(&[], &fresh_path("flood"), &script);
    let supervisor = supervisor_of(running.id());
    // The supervisor reads nothing.
    let debugger = debugger_of(supervisor);
    for _ in 0..500_000 {
        running.signal(Signal::SIGUSR1);
    }
    drop(debugger);
    // When its supervisor is stopped, zoolock resumes it.
    for _ in 0..5 {
        send(supervisor, Signal::SIGSTOP);
        wait_until("it goes on", SOON, || !is_stopped(supervisor));
    }
    assert_eq!(let_end(&mut running), Some(0));
}

/// Starts a debugger, and waits until it has stopped the first thread of this process.
fn debugger_of(process: u32) -> Beside {
    let mut debugger = Command::new("python3");
    let attach = format!(
        "import ctypes, os, time; ctypes.CDLL(None).ptrace(16, {process}, 0, 0); \
         os.waitpid({process}, 0); print('attached', flush=True); time.sleep(1000)"
    );
    debugger.args(["-c", &attach]);
    let debugger = Beside::start(debugger);
    debugger.says("attached");
    debugger
}

#[test]
fn traced_supervisor_does_not_keep_a_lost_lock() {
    let path = fresh_path("traced");
    let mut running = runs(&[], &path, WITH_A_DAEMON);
    let inside = handle_of(running.is_inside());
    let supervisor = supervisor_of(running.id());
    let _debugger = debugger_of(supervisor);
    delete_node(&path);
    assert_eq!(running.code(), Some(74));
    assert!(has_ended(&inside));
}

#[test]
fn processes_from_before_the_exec_are_spared() {
    let path = fresh_path("strangers");
    let zoolock = format!("exec {ZOOLOCK} run {path} sh -c '{UNTIL_TOLD}'");
    let script = format!("sleep 1000 & echo stranger $!; {zoolock}");
    let mut running = Beside::start(in_shell("sh", &script));
    let stranger: u32 = running.says("stranger ").parse().expect("a process");
    running.is_inside();
    send(supervisor_of(running.id()), Signal::SIGKILL);
    assert_eq!(running.code(), Some(71));
    assert!(!is_gone(stranger));
    send(stranger, Signal::SIGKILL);
}

#[test]
fn kill_by_name_spares_the_supervisor() {
    let path = fresh_path("sigkill-name");
    let script = "sh -c 'echo child $$; while :; do sleep 0.05; done' & wait";
    let running = runs(&[], &path, script);
    let child = running.says("child ").parse().expect("a process");
    // These are what `pkill -9 -f` (with the name of the command or of the program) and `killall -9 zoolock` match.
    let is_named = |process: u32| {
        let names = ["cmdline", "comm"].map(|what| fs::read(format!("/proc/{process}/{what}")));
        let names =
            names.map(|name| String::from_utf8_lossy(&name.expect("its name")).into_owned());
        names.iter().any(|name| name.contains("zoolock") || name.contains("echo child"))
    };
    assert!(is_named(running.id()) && !is_named(supervisor_of(running.id())));
    running.signal(Signal::SIGKILL);
    await_gone(child);
}

#[test]
fn many_forks_and_zombies_end_with_zoolock() {
    let (_folder, file) = scratch();
    // Each fork leaves an orphan, which forks again. A thousand processes end without being reaped by their parents.
    let script = format!(
        "perl -e '$| = 1; for (1..1000) {{ fork or exit }}
         for (1..20) {{ fork or do {{ setpgrp; for (;;) {{ fork and exit; \
         open my $f, \">>\", \"{file}\"; syswrite $f, \"x\" }} }} }} print \"inside $$\\n\"; sleep 1000'"
    );
    let running = runs(&[], &fresh_path("forks"), &script);
    let inside = running.is_inside();
    let supervisor = supervisor_of(running.id());
    running.signal(Signal::SIGKILL);
    await_gone(inside);
    await_gone(supervisor);
    let is_left = |process: &fs::DirEntry| {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(&file)
    };
    let left = fs::read_dir("/proc").expect("all processes").flatten().filter(is_left);
    assert_eq!(left.count(), 0);
}
