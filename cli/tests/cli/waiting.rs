//! Waiting for the lock: the position in the queue, and ways to leave the queue.

use std::path::Path;

use crate::util::*;

#[test]
fn terminal_shows_the_moving_position_on_one_line_and_a_pipe_gets_each_change() {
    let path = fresh_path("place");
    let held_by = |who: &Beside| {
        let host = nix::unistd::gethostname().expect("a name");
        format!("held by {}/{} for", host.to_string_lossy(), who.id())
    };
    let mut first = started(&[], &path, UNTIL_TOLD);
    let mut second = runs(&["-v"], &path, UNTIL_TOLD);
    second.says(&format!("{path}: 2nd, {}", held_by(&first)));
    let mut third = Terminal::with(run(&["-v"], &path, "echo inside"));
    let place = format!("{path}: 3rd, {}", held_by(&first));
    third.shows(&place);
    // The position is shown again after a few seconds.
    let again = third.shows(&place);
    assert!(again.contains("\r\x1b[K") && !again.contains('\n'), "{again:?}");
    let mut fourth = runs(&["-v"], &path, "echo inside");
    fourth.says("4th, held by");
    first.let_go();
    third.shows(&format!("2nd, {} 0 s", held_by(&second)));
    fourth.says(&format!("3rd, {}", held_by(&second)));
    second.let_go();
    third.shows("acquired after");
    third.shows("inside");
    assert_eq!(third.code(), 0);
    fourth.says("acquired after");
    assert_eq!(fourth.code(), Some(0));
    for said in [second.said(), fourth.said()] {
        assert!(!said.iter().any(|line| line.contains('\x1b')), "{said:?}");
    }
}

#[test]
fn waiter_and_holder_report_an_outage() {
    let server = Server::builder().property("maxSessionTimeout", "60000");
    let server = server.start().expect("a server");
    let proxy = FaultProxy::start(server.address()).expect("proxy");
    let hosts = proxy.connect_string();
    let start =
        |timeout| runs(&["-v", "-c", &hosts, "--session-timeout", timeout], "/outage", UNTIL_TOLD);
    // The session of the holder is not affected.
    let mut holding = start("60");
    holding.is_inside();
    let waiting = start("10");
    waiting.says("2nd, held by");
    proxy.cut_off();
    holding.says("/outage: disconnected, trying to resume");
    waiting.says("/outage: disconnected, trying to resume");
    waiting.says("/outage: the session has expired or may have expired");
    proxy.refuse(false);
    holding.says("/outage: connected");
    waiting.says("/outage: connected");
    assert_eq!(let_end(&mut holding), Some(0));
    waiting.is_inside();
}

#[test]
fn semaphore_waiter_reports_that_it_is_next() {
    let path = fresh_path("place-permits");
    let mut first = started(&["--semaphore=1"], &path, UNTIL_TOLD);
    let next = runs(&["--semaphore=1", "-v"], &path, "true");
    next.says("1st, all permits are taken");
    let last = runs(&["--semaphore=1", "-v"], &path, "true");
    let next_is = last.says("2nd, the next permits go to ");
    assert!(next_is.contains(&format!("/{}", next.id())), "{next_is}");
    first.let_go();
    next.says("acquired");
    last.says("acquired");
}

#[test]
fn ctrl_c_leaves_the_queue_at_once() {
    let (path, (_folder, file)) = (fresh_path("ctrl-c"), scratch());
    let held = held(&path);
    let mut waiting = Terminal::with(run(&["-v"], &path, &format!("echo started > {file}")));
    waiting.shows("2nd, held by");
    waiting.presses('c');
    assert_eq!(waiting.code(), 128 + Signal::SIGINT as i32);
    // The node is deleted now, and not later when the session ends.
    assert_eq!(contenders(&path).len(), 1, "its node is still there");
    let rest = waiting.rest();
    assert!(rest.ends_with("\r\x1b[K"), "the line is not clear: {rest:?}");
    held.release().expect("released");
    assert!(!Path::new(&file).exists(), "the program was started");
}

#[test]
fn every_signal_and_two_at_once_end_the_wait_and_leave_nothing_in_the_queue() {
    use Signal::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    let path = fresh_path("signals");
    let _held = held(&path);
    let pairs = [&[SIGTERM, SIGINT, SIGCONT][..]; 5];
    let alone = [SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];
    for signals in alone.iter().map(std::slice::from_ref).chain(pairs) {
        let mut waiting = runs(&[], &path, "echo not to be seen");
        await_nodes(&path, 2);
        // When it is resumed, all signals are pending, as with timeout(1).
        if signals.len() > 1 {
            waiting.stop();
        }
        signals.iter().for_each(|signal| waiting.signal(*signal));
        let code = waiting.code();
        assert!(signals.iter().any(|signal| code == Some(128 + *signal as i32)), "{code:?}");
        assert_eq!(contenders(&path).len(), 1, "its node is still there");
        assert_eq!(waiting.said(), [""; 0]);
    }
}

#[test]
fn program_does_not_start_after_a_signal() {
    let path = fresh_path("late");
    let held = held(&path);
    let mut waiting = runs(&[], &path, "echo not to be seen");
    await_nodes(&path, 2);
    // When it is resumed, the grant and the signal are both pending.
    waiting.stop();
    held.release().expect("released");
    waiting.signal(Signal::SIGTERM);
    waiting.signal(Signal::SIGCONT);
    assert_eq!(waiting.code(), Some(128 + Signal::SIGTERM as i32));
    assert_eq!(waiting.said(), [""; 0]);
    await_nodes(&path, 0);
}

#[test]
fn ignored_signals_stay_ignored_as_under_nohup() {
    let path = fresh_path("nohup");
    let held = held(&path);
    let inner = "sh -c 'kill -HUP $$; echo still here'";
    let command = in_shell("nohup sh", &format!("exec {ZOOLOCK} run {path} {inner}"));
    let mut waiting = Beside::start(command);
    await_nodes(&path, 2);
    waiting.signal(Signal::SIGHUP);
    held.release().expect("released");
    waiting.says("still here");
    assert_eq!(waiting.code(), Some(0));
}
