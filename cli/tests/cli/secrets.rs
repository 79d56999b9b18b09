//! Credentials: where they come from, and whom they are kept from.

use std::fs;
use std::process::Command;

use zoolock_test_support::fresh_path;

use crate::util::{Beside, UNTIL_TOLD, guard_of, run, zoolock};

const ANN: &str = "digest:ann:a:b";

fn with(auth: &str, mut command: Command) -> Command {
    command.env("ZOOKEEPER_AUTH", auth);
    command
}

#[test]
fn credentials_come_from_the_environment() {
    let path = fresh_path("credentials");
    let mut holding = Beside::start(with(ANN, run(&[], &path, UNTIL_TOLD)));
    holding.is_inside();
    for (auth, arguments, wanted) in [
        (ANN, &["list", &path][..], 0),
        (ANN, &["run", "-n", &path, "true"], 1),
        ("digest:bob:a:b", &["list", &path], 69),
        ("", &["run", "-n", &path, "true"], 69),
        ("secret", &["list", &path], 64),
    ] {
        let mut other = Beside::start(with(auth, zoolock(arguments)));
        assert_eq!(other.code(), Some(wanted), "{auth:?} {arguments:?}");
        let said = other.said();
        assert!(!said.iter().any(|line| line.contains("secret")), "{said:?}");
    }
    holding.let_go();
    assert_eq!(holding.code(), Some(0));
}

/// The program, what it starts, and what that starts when the program has ended.
const TELLS: &str = "echo auth ${ZOOKEEPER_AUTH-none}; sh -c 'echo child ${ZOOKEEPER_AUTH-none}'; \
     timeout 1000 sh -c 'echo apart ${ZOOKEEPER_AUTH-none}'; echo inside $$; cat > /dev/null";

#[test]
fn credentials_are_kept_from_the_program_unless_it_is_to_have_them() {
    for (options, told) in [(&[][..], "none"), (&["--keep-auth"], ANN)] {
        let path = fresh_path("kept-from");
        let mut running = Beside::start(with(ANN, run(options, &path, TELLS)));
        for who in ["auth ", "child ", "apart "] {
            assert_eq!(running.says(who), told, "{who}{options:?}");
        }
        running.is_inside();
        // The one that watches over it needs none.
        let guard = guard_of(running.id());
        let environment = fs::read(format!("/proc/{guard}/environ")).expect("its environment");
        let environment = String::from_utf8_lossy(&environment);
        assert!(environment.contains("ZOOKEEPER_CONNECT"), "{environment}");
        assert!(!environment.contains("ZOOKEEPER_AUTH"), "{environment}");
        running.let_go();
        assert_eq!(running.code(), Some(0));
    }
}

#[test]
fn one_inside_another_has_the_credentials_if_it_is_told_so() {
    let (outer, inner) = (fresh_path("outer-auth"), fresh_path("inner-auth"));
    let mut owner = Beside::start(with(ANN, run(&[], &inner, "true")));
    assert_eq!(owner.code(), Some(0), "it has made what only ann may use");
    for (options, wanted) in [(&["--keep-auth"][..], 0), (&[], 69)] {
        let mut nested = zoolock(&["run"]);
        nested.args(options).arg(&outer).args([
            env!("CARGO_BIN_EXE_zoolock"),
            "run",
            &inner,
            "true",
        ]);
        assert_eq!(Beside::start(with(ANN, nested)).code(), Some(wanted), "{options:?}");
    }
}
