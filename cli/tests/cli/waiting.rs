//! Waits for the lock: the position in the queue, and ways to leave it.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use zoolock_test_support::{FaultProxy, Server, fresh_path};

use crate::util::{
    Beside, SOON, Scratch, UNTIL_TOLD, await_nodes, client, code_of, in_terminal, lock_of, run,
    zoolock_at,
};

/// Far below the session timeout of 10 s, after which the servers would delete the node.
const AT_ONCE: Duration = Duration::from_secs(5);

fn host() -> String {
    let host = nix::unistd::gethostname().expect("a name");
    host.to_string_lossy().into_owned()
}

#[test]
fn terminal_shows_the_moving_position_on_one_line() {
    let path = fresh_path("place");
    let mut first = Beside::start(run(&[], &path, UNTIL_TOLD));
    first.is_inside();
    let mut second = Beside::start(run(&[], &path, UNTIL_TOLD));
    await_nodes(&path, 2);
    let mut third = in_terminal(run(&["-v"], &path, "echo inside"));
    let place = format!("{path}: 3rd, held by {}/{} for", host(), first.id());
    third.exp_string(&place).expect(&place);
    // The position is shown again as the seconds pass.
    let again = third.exp_string(&place).expect(&place);
    println!("between: {again:?}");
    assert!(again.contains("\r\x1b[K") && !again.contains('\n'), "{again:?}");
    first.let_go();
    let begun = Instant::now();
    let place = format!("2nd, held by {}/{} for 0 s", host(), second.id());
    third.exp_string(&place).expect(&place);
    println!("moved up after {:?}", begun.elapsed());
    second.let_go();
    third.exp_string("acquired after").expect("got it");
    third.exp_string("inside").expect("inside");
    assert_eq!(code_of(&third), 0);
}

#[test]
fn pipe_gets_one_line_for_each_change_of_position() {
    let path = fresh_path("place-lines");
    let mut first = Beside::start(run(&[], &path, UNTIL_TOLD));
    first.is_inside();
    let mut second = Beside::start(run(&["-v"], &path, UNTIL_TOLD));
    second.says("2nd, held by");
    let mut third = Beside::start(run(&["-v"], &path, "echo inside"));
    third.says("3rd, held by");
    first.let_go();
    second.is_inside();
    third.says(&format!("2nd, held by {}/{} for", host(), second.id()));
    second.let_go();
    third.says("acquired after");
    assert_eq!(third.code(), Some(0));
    let said = third.said();
    assert!(!said.iter().any(|line| line.contains('\x1b')), "{said:?}");
}

#[test]
fn waiter_and_holder_report_an_outage() {
    let server = Server::builder().property("maxSessionTimeout", "60000");
    let server = server.start().expect("a server");
    let proxy = FaultProxy::start(server.address()).expect("proxy");
    let run = |timeout| {
        let mut command = zoolock_at(&proxy.connect_string(), &["run", "-v", "--session-timeout"]);
        command.args([timeout, "/outage", "sh", "-c", UNTIL_TOLD]);
        Beside::start(command)
    };
    // The holder keeps its session.
    let mut holding = run("60");
    holding.is_inside();
    let waiting = run("10");
    waiting.says("2nd, held by");
    proxy.cut_off();
    holding.says("/outage: disconnected, trying to resume");
    waiting.says("/outage: disconnected, trying to resume");
    waiting.says("/outage: the session has expired, or may have");
    proxy.refuse(false);
    holding.says("/outage: connected");
    waiting.says("/outage: connected");
    holding.let_go();
    assert_eq!(holding.code(), Some(0));
    waiting.is_inside();
}

#[test]
fn semaphore_waiter_reports_that_it_is_next() {
    let path = fresh_path("place-permits");
    let mut first = Beside::start(run(&["--semaphore=1"], &path, UNTIL_TOLD));
    first.is_inside();
    let next = Beside::start(run(&["--semaphore=1", "-v"], &path, "true"));
    next.says("1st, all permits are taken");
    let last = Beside::start(run(&["--semaphore=1", "-v"], &path, "true"));
    last.says(&format!("2nd, the next permits are for {}/{}", host(), next.id()));
    first.let_go();
    next.says("acquired");
    last.says("acquired");
}

#[test]
fn ctrl_c_leaves_the_queue_at_once() {
    let (client, path, scratch) = (client(), fresh_path("ctrl-c"), Scratch::new());
    let lock = lock_of(&client, &path);
    lock.lock().expect("locked");
    let script = format!("echo started > {}", scratch.name());
    let mut waiting = in_terminal(run(&["-v"], &path, &script));
    waiting.exp_string("2nd, held by").expect("it waits");
    let begun = Instant::now();
    waiting.send_control('c').expect("sent");
    assert_eq!(code_of(&waiting), 128 + Signal::SIGINT as i32);
    let took = begun.elapsed();
    let rest = waiting.exp_eof().expect("all that it said");
    assert!(rest.ends_with("\r\x1b[K"), "the line is not clear: {rest:?}");
    let nodes = lock.contenders().expect("contenders").len();
    println!("gone after {took:?}, {nodes} node left");
    assert_eq!(nodes, 1, "its node is still there");
    assert!(took < AT_ONCE, "{took:?}");
    lock.unlock().expect("unlocked");
    assert!(!scratch.file.exists(), "the program was started");
}

#[test]
fn every_ending_signal_ends_the_wait() {
    let (client, path) = (client(), fresh_path("signals"));
    let lock = lock_of(&client, &path);
    lock.lock().expect("locked");
    for signal in
        [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2]
    {
        let mut waiting = Beside::start(run(&[], &path, "echo not to be seen"));
        await_nodes(&path, 2);
        waiting.signal(signal);
        assert_eq!(waiting.code(), Some(128 + signal as i32), "{signal}");
        let nodes = lock.contenders().expect("contenders").len();
        assert_eq!(nodes, 1, "{signal}: its node is still there");
        assert!(waiting.said().is_empty());
    }
    lock.unlock().expect("unlocked");
}

#[test]
fn two_signals_at_once_leave_nothing_in_the_queue() {
    let (client, path) = (client(), fresh_path("in-twos"));
    let lock = lock_of(&client, &path);
    lock.lock().expect("locked");
    for _ in 0..5 {
        let mut waiting = Beside::start(run(&[], &path, "echo not to be seen"));
        await_nodes(&path, 2);
        // All signals are pending when it continues, as with timeout(1).
        waiting.stop();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGCONT] {
            waiting.signal(signal);
        }
        let code = waiting.code();
        assert!(matches!(code, Some(130 | 143)), "{code:?}");
        let nodes = lock.contenders().expect("contenders").len();
        assert_eq!(nodes, 1, "its node is still there");
    }
    lock.unlock().expect("unlocked");
}

#[test]
fn program_does_not_start_after_a_signal() {
    let (client, path) = (client(), fresh_path("late"));
    let lock = lock_of(&client, &path);
    lock.lock().expect("locked");
    let mut waiting = Beside::start(run(&[], &path, "echo not to be seen"));
    await_nodes(&path, 2);
    // Both are pending when it continues.
    waiting.stop();
    lock.unlock().expect("unlocked");
    waiting.signal(Signal::SIGTERM);
    waiting.signal(Signal::SIGCONT);
    assert_eq!(waiting.code(), Some(128 + Signal::SIGTERM as i32));
    assert_eq!(waiting.said(), [""; 0]);
    await_nodes(&path, 0);
}

#[test]
fn signal_during_the_connect_ends_the_command() {
    // It accepts connections and stays silent.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let hosts = silent.local_addr().expect("bound").to_string();
    let arguments = ["run", "--session-timeout", "60", "/path", "true"];
    let mut connecting = Beside::start(zoolock_at(&hosts, &arguments));
    let _connection = silent.accept().expect("it connects");
    let begun = Instant::now();
    connecting.signal(Signal::SIGINT);
    assert_eq!(connecting.code(), Some(128 + Signal::SIGINT as i32));
    println!("ended after {:?}", begun.elapsed());
    assert!(begun.elapsed() < SOON / 2);
}

#[test]
fn ignored_signals_stay_ignored_as_under_nohup() {
    let (client, path) = (client(), fresh_path("nohup"));
    let lock = lock_of(&client, &path);
    lock.lock().expect("locked");
    let mut command = std::process::Command::new("nohup");
    let inner = run(&[], &path, "kill -HUP $$; echo still here");
    command.arg(inner.get_program()).args(inner.get_args());
    command.env("ZOOKEEPER_CONNECT", zoolock_test_support::connect_string());
    let mut waiting = Beside::start(command);
    await_nodes(&path, 2);
    waiting.signal(Signal::SIGHUP);
    lock.unlock().expect("unlocked");
    waiting.says("still here");
    assert_eq!(waiting.code(), Some(0));
}
