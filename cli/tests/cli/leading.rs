//! `lead`: a program that runs while its zoolock leads, and again in the next term.

use std::process::Command;

use nix::sys::signal::Signal;
use zoolock_test_support::{Server, fresh_path, wait_until};

use crate::util::{
    Beside, SOON, Scratch, UNTIL_TOLD, await_gone, await_nodes, children_of, client, in_terminal,
    is_gone, lock_of, zoolock, zoolock_at,
};

/// Prints its token and its process, and ends only on TERM.
const LEADS: &str = "trap 'echo caught TERM; exit 7' TERM; trap 'echo caught HUP' HUP; \
     echo token $ZOOLOCK_TOKEN; echo inside $$; while :; do sleep 0.05; done";

/// The same without an end on TERM.
const STUBBORN: &str = "trap '' TERM; echo token $ZOOLOCK_TOKEN; echo inside $$; \
     while :; do sleep 0.05; done";

/// `zoolock lead` with a shell script.
fn lead(timeout: &str, path: &str, script: &str) -> Command {
    zoolock(&["lead", "--session-timeout", timeout, path, "sh", "-c", script])
}

/// Waits for a term, and returns its token and its program.
#[track_caller]
fn begins(leader: &Beside) -> (u64, u32) {
    let token = leader.says("token ").parse().expect("a token");
    (token, leader.is_inside())
}

#[test]
fn second_candidate_leads_when_the_first_ends() {
    let path = fresh_path("lead");
    let mut first = Beside::start(lead("40", &path, LEADS));
    let (token, inside) = begins(&first);
    let mut second = Beside::start(lead("40", &path, LEADS));
    await_nodes(&path, 2);
    first.signal(Signal::SIGHUP);
    first.says("caught HUP");
    assert_eq!(second.said(), [""; 0], "it stands by");
    first.signal(Signal::SIGTERM);
    first.says("caught TERM");
    let (next, _) = begins(&second);
    assert!(is_gone(inside) && next > token);
    assert_eq!(first.code(), Some(0));
    second.signal(Signal::SIGTERM);
    assert_eq!(second.code(), Some(0));
    await_nodes(&path, 0);
}

#[test]
fn second_candidate_leads_when_the_leader_is_killed() {
    let path = fresh_path("lead-killed");
    let first = Beside::start(lead("4", &path, STUBBORN));
    let (token, inside) = begins(&first);
    let mut second = Beside::start(lead("4", &path, LEADS));
    await_nodes(&path, 2);
    first.signal(Signal::SIGKILL);
    let (next, _) = begins(&second);
    assert!(is_gone(inside), "two programs at once");
    assert!(next > token);
    second.signal(Signal::SIGTERM);
    assert_eq!(second.code(), Some(0));
}

#[test]
fn leader_stopped_for_too_long_loses_its_program_and_contends_again() {
    let path = fresh_path("lead-stopped");
    let leader = Beside::start(lead("4", &path, STUBBORN));
    let (token, inside) = begins(&leader);
    leader.stop();
    let rival = client();
    let rival = lock_of(&rival, &path).acquire().expect("locked");
    assert!(is_gone(inside), "the program runs beside the rival");
    leader.signal(Signal::SIGCONT);
    leader.says("the lock was lost while the program ran");
    await_nodes(&path, 2);
    rival.release().expect("released");
    let (next, _) = begins(&leader);
    assert!(next > token);
}

#[test]
fn ended_program_yields_and_restarts_with_growing_pauses() {
    let (rival, path) = (client(), fresh_path("lead-again"));
    let mut first = Beside::start(lead("40", &path, "echo inside $$; exit 3"));
    first.is_inside();
    let mut second = Beside::start(lead("40", &path, UNTIL_TOLD));
    first.says("the program ended with exit code 3; contending again in 1s");
    second.is_inside();
    await_nodes(&path, 2);
    second.let_go();
    second.says("the program ended with exit code 0; contending again in 1s");
    first.says("the program ended with exit code 3; contending again in 2s");
    second.signal(Signal::SIGTERM);
    assert_eq!(second.code(), Some(0), "it waits");
    let rival = lock_of(&rival, &path);
    first.says("the program ended with exit code 3; contending again in 4s");
    assert!(rival.try_lock().expect("asked"), "nobody has it while it rests");
    rival.unlock().expect("unlocked");
    first.signal(Signal::SIGINT);
    assert_eq!(first.code(), Some(0), "it waits");
}

#[test]
fn signal_ends_a_standby_and_removes_it_from_the_queue() {
    let path = fresh_path("lead-leaves");
    let _lock = lock_of(&client(), &path).acquire().expect("locked");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut leader = Beside::start(lead("40", &path, "echo not to be seen"));
        await_nodes(&path, 2);
        leader.signal(signal);
        assert_eq!(leader.code(), Some(0));
        assert_eq!(leader.said(), [""; 0]);
        await_nodes(&path, 1);
    }
}

#[test]
fn ctrl_c_ends_the_program_and_the_leader() {
    let path = fresh_path("lead-ctrl-c");
    let mut leader = in_terminal(lead("40", &path, "echo inside; exec sleep 1000"));
    leader.exp_string("inside").expect("it runs");
    leader.send_control('c').expect("sent");
    assert_eq!(crate::util::code_of(&leader), 0);
    await_nodes(&path, 0);
}

/// logrotate sends HUP to a service, whose program has no handler.
#[test]
fn signal_without_a_terminal_ends_the_program_and_no_leader() {
    let path = fresh_path("lead-hup");
    for (script, code) in [("echo inside $$; sleep 1000", 129), ("echo inside $$; exit 130", 130)] {
        let mut leader = Beside::start(lead("40", &path, script));
        leader.is_inside();
        if code == 129 {
            leader.signal(Signal::SIGHUP);
        }
        leader.says(&format!("{path}: the program ended with exit code {code}; contending again"));
        leader.signal(Signal::SIGTERM);
        assert_eq!(leader.code(), Some(0));
    }
}

#[test]
fn outage_ends_a_term_and_the_next_begins_after_it() {
    let server = Server::start().expect("a server");
    let hosts = server.connect_string();
    let arguments = ["lead", "--session-timeout", "4", "/outage", "sh", "-c", LEADS];
    let mut leader = Beside::start(zoolock_at(&hosts, &arguments));
    let (token, inside) = begins(&leader);
    server.kill().expect("killed");
    leader.says("caught TERM");
    await_gone(inside);
    server.start_again().expect("started");
    let (next, _) = begins(&leader);
    assert!(next > token);
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.code(), Some(0));
}

#[test]
fn lead_refuses_bad_arguments_and_unreachable_servers() {
    let path = fresh_path("lead-wrong");
    for (arguments, code) in [
        (&["lead", &path][..], 64),
        (&["lead", "not/absolute", "true"], 64),
        (&["lead", "-n", &path, "true"], 64),
        (&["lead", "-c", "127.0.0.1:1", "--session-timeout", "1", &path, "true"], 69),
    ] {
        let mut leader = Beside::start(zoolock(arguments));
        assert_eq!(leader.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn terms_leave_no_zombies_and_no_supervisors() {
    let (path, scratch) = (fresh_path("lead-many"), Scratch::new());
    let script =
        format!("echo inside $$; test -e {} && echo stays && cat > /dev/null", scratch.name());
    let leader = Beside::start(lead("40", &path, &script));
    leader.is_inside();
    leader.is_inside();
    std::fs::write(&scratch.file, "").expect("written");
    leader.says("stays");
    wait_until("the supervisor, nothing else", SOON, || {
        let children = children_of(leader.id());
        println!("children: {children:?}");
        children.len() == 1
    });
}
