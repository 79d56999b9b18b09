//! While the program runs: signals, the terminal, its environment, and nested locks.

use crate::util::*;

#[test]
fn run_forwards_signals_and_holds_until_the_program_ends() {
    let path = fresh_path("handed-on");
    let mut running = runs(&[], &path, LISTENS);
    let inside = running.is_inside();
    for signal in ["INT", "HUP", "QUIT", "USR1", "USR2"] {
        running.signal(format!("SIG{signal}").parse().expect("a signal"));
        running.says(&format!("caught {signal}"));
        assert!(!is_gone(inside));
        await_nodes(&path, 1);
    }
    running.signal(Signal::SIGTERM);
    running.says("caught TERM");
    assert_eq!(running.code(), Some(7));
    await_nodes(&path, 0);
}

#[test]
fn terminal_serves_the_program_and_then_the_shell() {
    let path = fresh_path("terminal");
    let reads = "read line < /dev/tty; echo \"it read $line\"";
    // An interactive shell puts its pipeline in the terminal's foreground. Other shells stay there themselves.
    for (shell, input) in [("sh", ""), ("bash --norc --noprofile -i", "echo piped | ")] {
        let command = format!("{input}{ZOOLOCK} run {path} sh -c '{reads}'");
        let script = format!("{command}; read line; echo \"then $line\"");
        let mut shell = Terminal::with(in_shell(shell, &script));
        shell.types("hello", "it read hello");
        shell.types("there", "then there");
        assert_eq!(shell.code(), 0);
    }
}

#[test]
fn program_knows_its_lock() {
    let path = fresh_path("environment");
    let script = format!(
        "echo path $ZOOLOCK_PATH; echo token $ZOOLOCK_TOKEN; echo node $ZOOLOCK_NODE; {UNTIL_TOLD}"
    );
    let mut running = runs(&[], &path, &script);
    assert_eq!(running.says("path "), path);
    let (token, node) = (running.says("token "), running.says("node "));
    running.is_inside();
    let stat = stat(&format!("{path}/{node}"));
    assert_eq!(token, stat.czxid.to_string());
    let hexadecimal = format!("{:#x}", stat.czxid);
    for (asked, wanted) in [(token.as_str(), 0), (&hexadecimal, 0), ("1", 1), ("0x1", 1)] {
        assert_eq!(output(&["verify", &path, asked]).0, Some(wanted), "{asked}");
    }
    assert_eq!(let_end(&mut running), Some(0));
    assert_eq!(output(&["verify", &path, &token]).0, Some(1), "released");
}

#[test]
fn nested_run_holds_both_locks_and_forwards_signals() {
    let (outer, inner) = (fresh_path("outer"), fresh_path("inner"));
    let nested = |script| {
        let inner = format!("exec {ZOOLOCK} run {inner} sh -c \"$0\"");
        let mut command = run(&[], &outer, &inner);
        command.arg(script);
        command
    };
    let mut running = Beside::start(nested(LISTENS));
    running.is_inside();
    for path in [&outer, &inner] {
        assert!(is_taken(path), "{path} is not held");
    }
    running.signal(Signal::SIGUSR1);
    running.says("caught USR1");
    assert_eq!(end_by(Signal::SIGTERM, &mut running), Some(7));
    await_nodes(&inner, 0);
    await_nodes(&outer, 0);

    // Both commands share the terminal.
    let reads = "read line; echo \"it read $line\"; exec sleep 1000";
    let mut running = Terminal::with(nested(reads));
    running.types("hello", "it read hello");
    running.presses('c');
    assert_eq!(running.code(), 128 + Signal::SIGINT as i32);
    await_nodes(&inner, 0);
    await_nodes(&outer, 0);
}
