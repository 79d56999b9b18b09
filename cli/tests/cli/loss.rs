//! The lock is lost while the program runs. The program has ended before the next grant.

use std::time::Instant;

use crate::util::*;

/// Reports TERM, but does not end.
const STUBBORN: &str = "trap 'echo caught TERM' TERM; echo inside $$; while :; do sleep 0.05; done";
/// Ends on TERM, after it has cleaned up.
const ORDERLY: &str = "trap 'echo caught TERM; sleep 0.1; echo tidied up; exit 3' TERM; echo inside $$; \
     while :; do sleep 0.05; done";

/// Starts a script under a lock, with a session that will soon expire when the proxy is cut off.
fn under(proxy: &FaultProxy, path: &str, script: &str) -> Beside {
    runs(&["-c", &proxy.connect_string(), "--session-timeout", "10"], path, script)
}

#[test]
fn black_hole_kills_a_stubborn_program_before_the_next_grant() {
    let (proxy, path) = (shared_proxy(), fresh_path("black-hole"));
    let mut running = under(&proxy, &path, STUBBORN);
    let inside = running.is_inside();
    let next = path.clone();
    let rival = Task::spawn(move || (held(&next), is_gone(inside)));
    await_nodes(&path, 2);
    proxy.black_hole(Direction::Both);
    running.says("caught TERM");
    await_gone(inside);
    let (_guard, was_gone) = rival.result("the rival");
    assert!(was_gone, "the program was still there when the rival was let in");
    assert_eq!(running.code(), Some(74));
}

#[test]
fn outage_leaves_the_program_time_to_end_even_if_it_is_stopped() {
    for is_stopped in [false, true] {
        let proxy = shared_proxy();
        let mut running = under(&proxy, &fresh_path("outage"), ORDERLY);
        let inside = running.is_inside();
        if is_stopped {
            send(inside, Signal::SIGSTOP);
        }
        proxy.cut_off();
        running.says("caught TERM");
        running.says("tidied up");
        running.says("the lock was lost while the program ran: no server answered");
        assert_eq!(running.code(), Some(74));
        assert!(is_gone(inside));
    }
}

#[test]
fn silent_server_does_not_delay_the_exit() {
    let (proxy, path) = (shared_proxy(), fresh_path("silent-end"));
    let behind_it = || runs(&["-c", &proxy.connect_string()], &path, UNTIL_TOLD);
    let mut holding = behind_it();
    holding.is_inside();
    let mut waiting = behind_it();
    await_nodes(&path, 2);
    proxy.black_hole(Direction::Both);
    let begun = Instant::now();
    assert_eq!(end_by(Signal::SIGINT, &mut waiting), Some(128 + Signal::SIGINT as i32));
    assert_eq!(let_end(&mut holding), Some(0));
    assert!(begun.elapsed() < SOON / 4, "{:?}", begun.elapsed());
}

#[test]
fn loss_in_a_terminal_is_reported_and_takes_the_terminal_back() {
    let (proxy, path) = (shared_proxy(), fresh_path("terminal"));
    let run = format!("{ZOOLOCK} run --session-timeout 10 -c {} {path}", proxy.connect_string());
    let script =
        format!("{run} sh -c 'echo inside; sleep 1000'; echo code:$?; read line; echo $line");
    let mut shell = Terminal::with(in_shell("sh", &script));
    shell.shows("inside");
    proxy.cut_off();
    shell.shows("the lock was lost");
    shell.shows("code:74");
    shell.types("the shell reads on", "\nthe shell reads on");
}

#[test]
fn program_stopped_beyond_its_lease_does_not_continue() {
    let (path, mut shell) = (fresh_path("stopped-long"), Terminal::shell());
    let program = "echo inside; while read line; do echo \"read:$line\"; done";
    let command = format!("{ZOOLOCK} run --session-timeout 6 {path} sh -c '{program}'");
    shell.types(&command, "\ninside");
    shell.presses('z');
    shell.shows("Stopped");
    let _rival = held(&path);
    shell.types("fg", "zoolock run");
    let said = shell.types("too late", "the lock was lost");
    assert!(!said.contains("read:too late"), "{said:?}");
}
