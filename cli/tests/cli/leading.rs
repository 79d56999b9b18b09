//! `lead` runs a program while its zoolock leads, and again in each later term.

use crate::util::*;

/// Waits for a term to begin. Returns its token, and the process id of its program.
#[track_caller]
fn begins(leader: &Beside) -> (u64, u32) {
    let token = leader.says("token ").parse().expect("a token");
    (token, leader.is_inside())
}

#[test]
fn second_candidate_leads_when_the_first_is_revoked_or_ends() {
    let path = fresh_path("lead");
    let mut first = lead(&[], &path, LISTENS);
    let mut term = begins(&first);
    let mut second = lead(&[], &path, LISTENS);
    await_nodes(&path, 2);
    first.signal(Signal::SIGHUP);
    first.says("caught HUP");
    assert_eq!(second.said(), [""; 0], "it stands by");
    let mut is_next = |leader: &Beside| {
        let next = begins(leader);
        assert!(is_gone(term.1) && next.0 > term.0, "two at once");
        term = next;
    };
    for (leader, next) in [(&first, &second), (&second, &first)] {
        prints(&["revoke", &path]);
        is_next(next);
        leader.says("stepped down because another client requested the release of the lock");
        await_nodes(&path, 2);
    }
    first.signal(Signal::SIGTERM);
    first.says("caught TERM");
    is_next(&second);
    assert_eq!(first.code(), Some(0));
    assert_eq!(end_by(Signal::SIGTERM, &mut second), Some(0));
    await_nodes(&path, 0);
}

#[test]
fn ended_program_yields_and_restarts_with_growing_pauses() {
    let (rival, path) = (client(), fresh_path("lead-again"));
    let mut first = lead(&[], &path, "echo inside $$; exit 3");
    first.is_inside();
    let mut second = lead(&[], &path, UNTIL_TOLD);
    first.says("the program ended with exit code 3; contending again in 1s");
    second.is_inside();
    await_nodes(&path, 2);
    second.let_go();
    second.says("the program ended with exit code 0; contending again in 1s");
    first.says("the program ended with exit code 3; contending again in 2s");
    assert_eq!(end_by(Signal::SIGTERM, &mut second), Some(0), "it waits");
    let rival = lock_of(&rival, &path);
    first.says("the program ended with exit code 3; contending again in 4s");
    // After each term, zoolock reaps the supervisor.
    wait_until("no child is left", SOON, || children_of(first.id()).is_empty());
    assert!(rival.try_lock().expect("asked"), "nobody has it while it rests");
    rival.unlock().expect("unlocked");
    assert_eq!(end_by(Signal::SIGINT, &mut first), Some(0), "it waits");
}

#[test]
fn ctrl_c_ends_the_program_and_the_leader() {
    let path = fresh_path("lead-ctrl-c");
    let arguments = ["lead", &path, "sh", "-c", "'echo inside; exec sleep 1000'"];
    let mut leader = Terminal::of(80, 24, &arguments);
    leader.shows("inside");
    leader.presses('c');
    assert_eq!(leader.code(), 0);
    await_nodes(&path, 0);
}

/// logrotate, for example, sends HUP to services. Here, the program has no handler for it.
#[test]
fn signal_without_a_terminal_ends_the_program_and_no_leader() {
    let path = fresh_path("lead-hup");
    for (script, code) in [("echo inside $$; sleep 1000", 129), ("echo inside $$; exit 130", 130)] {
        let mut leader = lead(&[], &path, script);
        leader.is_inside();
        if code == 129 {
            leader.signal(Signal::SIGHUP);
        }
        leader.says(&format!("{path}: the program ended with exit code {code}; contending again"));
        assert_eq!(end_by(Signal::SIGTERM, &mut leader), Some(0));
    }
}
