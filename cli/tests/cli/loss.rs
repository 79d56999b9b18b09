//! Losses while the program runs. It has ended before the next grant.

use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use nix::sys::signal::Signal;
use zoolock::Client;
use zoolock_test_support::{Direction, FaultProxy, Server, fresh_path, wait_until};

use crate::util::{
    Beside, SOON, await_gone, await_nodes, client, code_of, in_terminal, is_gone, lock_of, send,
    shell, zoolock_at,
};

/// Reports TERM and ignores it.
const STUBBORN: &str = "trap 'echo caught TERM' TERM; echo inside $$; while :; do sleep 0.05; done";
/// Ends after some tidying up.
const ORDERLY: &str = "trap 'echo caught TERM; sleep 0.1; echo tidied up; exit 3' TERM; echo inside $$; \
     while :; do sleep 0.05; done";

/// Returns a script under a lock.
fn script(hosts: &str, path: &str, script: &str) -> Command {
    zoolock_at(hosts, &["run", path, "sh", "-c", script])
}

#[test]
fn black_hole_kills_a_stubborn_program_before_the_next_grant() {
    let path = fresh_path("black-hole");
    let address = crate::util::shared_address();
    let proxy = FaultProxy::start(address).expect("proxy");
    let mut running = Beside::start(script(&proxy.connect_string(), &path, STUBBORN));
    let inside = running.is_inside();
    let client = client();
    let rival = lock_of(&client, &path);
    let (tell, let_in) = mpsc::channel();
    thread::spawn(move || {
        rival.lock().expect("locked");
        let _ = tell.send((Instant::now(), is_gone(inside)));
        rival.unlock().expect("unlocked");
    });
    await_nodes(&path, 2);
    let begun = Instant::now();
    proxy.black_hole(Direction::Both);
    running.says("caught TERM");
    let told = begun.elapsed();
    await_gone(inside);
    let gone = begun.elapsed();
    let (let_in, was_gone) = let_in.recv_timeout(SOON).expect("the rival is let in");
    let let_in = let_in - begun;
    println!("TERM after {told:.2?}, gone after {gone:.2?}, rival let in after {let_in:.2?}");
    assert!(was_gone, "the program was still there when the rival was let in");
    assert_eq!(running.code(), Some(74));
}

#[test]
fn killed_server_leaves_the_program_time_to_end() {
    let server = Server::start().expect("a server");
    let mut running = Beside::start(script(&server.connect_string(), "/killed", ORDERLY));
    let inside = running.is_inside();
    let begun = Instant::now();
    server.kill().expect("killed");
    running.says("caught TERM");
    println!("TERM after {:.2?}", begun.elapsed());
    running.says("tidied up");
    running.says("the lock was lost while the program ran: no server has answered");
    assert_eq!(running.code(), Some(74));
    assert!(is_gone(inside));
    println!("ended after {:.2?}", begun.elapsed());
}

#[test]
fn server_back_in_time_costs_nothing() {
    // Long enough for a server start on a busy machine.
    let server = Server::builder().property("maxSessionTimeout", "60000");
    let server = server.start().expect("a server");
    let hosts = server.connect_string();
    let arguments = ["run", "--session-timeout", "60", "/back", "sh", "-c", ORDERLY];
    let mut running = Beside::start(zoolock_at(&hosts, &arguments));
    running.is_inside();
    let client = Client::connect(&hosts, SOON).expect("connect");
    let holder = || client.contenders("/back").map(|mut all| all.remove(0));
    let before = holder().expect("a holder");
    server.restart().expect("restarted");
    wait_until("the server answers", SOON, || holder().is_ok());
    let after = holder().expect("a holder");
    assert_eq!((after.session, after.token), (before.session, before.token));
    assert_eq!(running.said(), [""; 0]);
    running.signal(Signal::SIGTERM);
    assert_eq!(running.code(), Some(3), "its own");
}

#[test]
fn loss_ends_a_stopped_program() {
    let server = Server::start().expect("a server");
    let mut running = Beside::start(script(&server.connect_string(), "/stopped", ORDERLY));
    let inside = running.is_inside();
    send(inside, Signal::SIGSTOP);
    server.kill().expect("killed");
    running.says("caught TERM");
    assert_eq!(running.code(), Some(74));
}

#[test]
fn silent_server_does_not_delay_the_exit() {
    for leaves in [true, false] {
        let (client, path) = (client(), fresh_path("silent-end"));
        let proxy = crate::util::shared_proxy();
        let lock = lock_of(&client, &path);
        let arguments = ["run", "--session-timeout", "40", &path];
        let mut command = zoolock_at(&proxy.connect_string(), &arguments);
        command.args(["sh", "-c", crate::util::UNTIL_TOLD]);
        let mut running = if leaves {
            lock.lock().expect("locked");
            let waiting = Beside::start(command);
            await_nodes(&path, 2);
            waiting
        } else {
            let running = Beside::start(command);
            running.is_inside();
            running
        };
        proxy.black_hole(Direction::Both);
        running.let_go();
        if leaves {
            running.signal(Signal::SIGINT);
        }
        let begun = Instant::now();
        let code = running.code();
        println!("ended after {:.2?}: {code:?}", begun.elapsed());
        assert!(begun.elapsed() < SOON / 4, "{:?}", begun.elapsed());
        assert_eq!(code, Some(if leaves { 130 } else { 0 }));
    }
}

#[test]
fn loss_in_a_terminal_is_reported_and_takes_the_terminal_back() {
    let server = Server::start().expect("a server");
    let mut shell = Command::new("sh");
    let zoolock = env!("CARGO_BIN_EXE_zoolock");
    let command = format!(
        "{zoolock} run /terminal sh -c 'echo inside; sleep 1000'; echo code:$?; \
         read line; echo \"then $line\""
    );
    shell.args(["-c", &command]);
    shell.env("ZOOKEEPER_CONNECT", server.connect_string());
    let mut shell = in_terminal(shell);
    shell.exp_string("inside").expect("it runs");
    server.kill().expect("killed");
    shell.exp_string("the lock was lost").expect("it is told");
    shell.exp_string("code:74").expect("the exit code");
    shell.send_line("on").expect("sent");
    shell.exp_string("then on").expect("the shell reads on");
}

#[test]
fn program_stopped_beyond_its_lease_does_not_continue() {
    let path = fresh_path("stopped-long");
    let mut shell = shell();
    let zoolock = env!("CARGO_BIN_EXE_zoolock");
    let program = "echo inside; while read line; do echo \"read:$line\"; done";
    let command = format!("{zoolock} run --session-timeout 6 {path} sh -c '{program}'");
    shell.send_line(&command).expect("sent");
    shell.exp_string("\ninside").expect("it runs");
    shell.send_control('z').expect("sent");
    shell.exp_string("Stopped").expect("the shell has noticed");
    let rival = client();
    let rival = lock_of(&rival, &path).acquire().expect("locked");
    shell.send_line("fg").expect("sent");
    shell.send_line("too late").expect("sent");
    let said = shell.exp_string("the lock was lost").expect("it is told");
    assert!(!said.contains("read:too late"), "{said:?}");
    rival.release().expect("released");
    shell.send_line("exit 0").expect("sent");
    assert_eq!(code_of(&shell), 0);
}
