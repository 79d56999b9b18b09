//! Credentials: where they come from, and which processes must not receive them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Instant;

use common::secured::{ANN as ANNS, BOB, Secured};

use crate::util::*;

const ANN: &str = "digest:ann:a:b";

fn with(auth: &str, mut command: Command) -> Command {
    command.env("ZOOKEEPER_AUTH", auth);
    command
}

#[test]
fn credentials_come_from_the_environment_and_refused_ones_give_77_at_once() {
    let (path, begun) = (fresh_path("credentials"), Instant::now());
    let mut holding = Beside::start(with(ANN, run(&[], &path, UNTIL_TOLD)));
    holding.is_inside();
    for (auth, arguments, wanted) in [
        (ANN, &["list", &path][..], 0),
        (ANN, &["run", "-n", &path, "true"], 1),
        ("digest:bob:a:b", &["list", &path], 77),
        ("", &["run", "-n", &path, "true"], 77),
        ("secret", &["list", &path], 64),
        ("no-such-scheme:secret", &["run", "-w", "1m", &path, "true"], 77),
        ("no-such-scheme:secret", &["lead", &path, "true"], 77),
    ] {
        let (code, said, errors) = ends(with(auth, zoolock(arguments)));
        assert_eq!(code, Some(wanted), "{auth:?} {arguments:?}");
        assert!(!(said + &errors).contains("secret"));
    }
    assert!(begun.elapsed() < SOON);
    assert_eq!(let_end(&mut holding), Some(0));
}

/// The program, its child, and a process in another group each print the credentials that they have received.
const TELLS: &str = "echo auth ${ZOOKEEPER_AUTH-none}; sh -c 'echo child ${ZOOKEEPER_AUTH-none}'; \
     timeout 1000 sh -c 'echo apart ${ZOOKEEPER_AUTH-none}'; echo inside $$; cat > /dev/null";

#[test]
fn program_gets_no_credentials_unless_configured() {
    for (options, told) in [(&[][..], "none"), (&["--keep-auth"], ANN)] {
        let path = fresh_path("kept-from");
        let mut running = Beside::start(with(ANN, run(options, &path, TELLS)));
        for who in ["auth ", "child ", "apart "] {
            assert_eq!(running.says(who), told, "{who}{options:?}");
        }
        running.is_inside();
        // The supervisor's environment is the one that the program receives.
        let supervisor = supervisor_of(running.id());
        let environment = fs::read(format!("/proc/{supervisor}/environ")).expect("its environment");
        let environment = String::from_utf8_lossy(&environment);
        assert!(environment.contains("ZOOKEEPER_CONNECT"), "{environment}");
        assert_eq!(environment.contains("ZOOKEEPER_AUTH"), told == ANN, "{environment}");
        assert_eq!(let_end(&mut running), Some(0));
    }
}

#[test]
fn command_connects_by_sasl_and_tls_and_prints_no_secret() {
    let secured = Secured::start();
    let (hosts, path) = (secured.hosts(), fresh_path("secured"));
    let file = |name| secured.file(name).into_os_string().into_string().expect("a plain name");
    let (ca, cert, key) = (file("ca.pem"), file("cert.pem"), file("key.pem"));
    let (bob, ann) = (format!("sasl:bob:{BOB}"), format!("sasl:ann:{ANNS}"));
    let options = ["--tls", "--cacert", &ca, "--cert", &cert, "--key", &key];
    let text =
        format!("connect = {hosts:?}\nauth = '{bob}'\ncacert = 'ca.pem'\ncert = 'cert.pem'\n");
    secured.write("zoolock.toml", &text);
    let config = file("zoolock.toml");
    fs::copy(&key, file("open.pem")).expect("copied");
    fs::set_permissions(file("open.pem"), fs::Permissions::from_mode(0o644)).expect("chmod");
    let open = file("open.pem");

    let mut start = zoolock_at(&hosts, &["run", "-v"]);
    start.args(options).args([&path, "sh", "-c", TELLS]).env("ZOOKEEPER_AUTH", &bob);
    let mut holding = Beside::start(start);
    assert_eq!(holding.says("auth "), "none");
    holding.is_inside();
    let mut all = fs::read_to_string(format!("/proc/{}/cmdline", holding.id())).expect("a process");
    for (auth, hosts, arguments, wanted) in [
        (&*bob, &*hosts, &["run", "-n", "-E", "9"][..], 9),
        // The certificate alone grants access.
        (&ann, &hosts, &["list"], 0),
        (&format!("sasl:bob:{ANNS}"), &hosts, &["list"], 77),
        ("sasl:bob", &hosts, &["list"], 64),
        // If a server requires credentials, it says so in the answer to the first request.
        ("", &hosts, &["list"], 77),
        ("", "", &["list", "--config", &config], 0),
        (&ann, "", &["run", "-n", "-E", "9", "--config", &config], 9),
        (&bob, &hosts, &["list", "--key", &open], 64),
        (&bob, &hosts, &["list", "--config", &key], 64),
    ] {
        let mut other = zoolock_at(hosts, arguments);
        let rest = if arguments.contains(&"--key") { &options[..5] } else { &options[..] };
        other.args(rest).arg(&path).env("ZOOKEEPER_AUTH", auth);
        if arguments[0] == "run" {
            other.arg("true");
        }
        let (code, said, errors) = ends(other);
        assert_eq!(code, Some(wanted), "{arguments:?}");
        all += &(said + &errors);
    }
    // On a system without root certificates, the client's certificate is not the cause.
    let mut rootless = zoolock_at(&hosts, &["list", "--cert", &cert, "--key", &key, &path]);
    rootless.envs(["SSL_CERT_FILE", "SSL_CERT_DIR"].map(|name| (name, "/no/such")));
    let (code, _, errors) = ends(rootless);
    assert_eq!(code, Some(64), "{errors}");
    assert!(errors.contains("no root certificates") && !errors.contains("--cert"), "{errors}");
    // Without any TLS option, the connection is plain TCP.
    let mut plain = zoolock_at(&hosts, &["list", "--session-timeout", "6", &path]);
    plain.env("ZOOKEEPER_AUTH", &bob);
    assert_eq!(ends(plain).0, Some(69));
    assert_eq!(let_end(&mut holding), Some(0));
    all += &holding.said().join("\n");
    assert!(all.contains("the server refused the SASL user \"bob\""), "{all}");
    assert!(all.contains("is accessible to all users"), "{all}");
    let found = secured.secrets_in(&all);
    assert!(found.is_empty(), "{found:?}");
}
