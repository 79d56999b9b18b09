//! `doctor`: what it reports about healthy and faulty servers.

use std::io::Write;
use std::net::TcpListener;
use std::process::Command;

use common::secured::{BOB, Secured};
use serde_json::Value;
use zoolock_zookeeper_testing as testing;

use crate::looks::cells;
use crate::util::*;

fn command(hosts: &str, options: &[&str]) -> Command {
    zoolock_at(hosts, &[&["doctor"], options].concat())
}

/// Returns the output of `doctor`, which must exit with this code.
#[track_caller]
fn doctor(hosts: &str, options: &[&str], wanted: Option<i32>) -> String {
    let (code, said, _) = ends(command(hosts, options));
    assert_eq!(code, wanted);
    said
}

/// Asserts that there is a finding of this level that contains all these parts.
#[track_caller]
fn finds(said: &str, level: &str, parts: &[&str]) {
    let is_it =
        |line: &str| line.starts_with(level) && parts.iter().all(|part| line.contains(part));
    assert!(said.lines().any(is_it), "no {level} with {parts:?}");
}

#[track_caller]
fn row<'a>(said: &'a str, server: &str) -> Vec<&'a str> {
    cells(said.lines().find(|line| line.starts_with(server)).expect("its row"))
}

#[test]
fn healthy_server_has_no_problem_and_keeps_no_node() {
    let server = Server::start().expect("a server");
    let (hosts, probe) =
        (server.connect_string(), Probe::connect(server.address()).expect("probe"));
    let said = doctor(&hosts, &["/locks/a"], Some(0));
    let cells = row(&said, &hosts);
    assert_eq!((cells.len(), cells[2], cells[5]), (7, "standalone", "0"));
    assert!(cells[1].starts_with("3.") && cells[3].ends_with(" ms") && cells[6].starts_with("0x"));
    finds(&said, "ok", &["1 of 1 addresses answer: 1 standalone"]);
    finds(&said, "ok", &["opened a session in", "with a timeout of 40s"]);
    finds(&said, "ok", &["may read, create and delete in / (/locks/a does not exist yet)"]);
    let json: Value = serde_json::from_str(&doctor(&hosts, &["--json"], Some(0))).expect("JSON");
    let server = &json["servers"][0];
    assert_eq!((&server["server"], &server["error"]), (&hosts.as_str().into(), &Value::Null));
    assert!(server["latency_ms"].as_f64().is_some_and(|latency| latency > 0.0));
    assert!(server["connections"].is_u64() && server["mode"] == "standalone");
    let mut findings = json["findings"].as_array().expect("findings").iter();
    assert!(findings.any(|finding| finding["level"] == "ok" && finding["text"].is_string()));
    assert_eq!(probe.children("/").expect("listed"), ["zookeeper"], "nothing is left");

    probe.create_all("/locks/a").expect("made");
    let said = doctor(&hosts, &["/locks/a"], Some(0));
    finds(&said, "ok", &["may read, create and delete in /locks/a"]);
    assert!(probe.children("/locks/a").expect("listed").is_empty(), "nothing is left");

    let missing = format!("{hosts}/no/such");
    for (options, level, wanted) in [(&[][..], "warning", 0), (&["--no-create"], "problem", 1)] {
        let said = doctor(&missing, options, Some(wanted));
        finds(&said, level, &["the chroot \"/no/such\" does not exist"]);
        assert!(!probe.exists("/no").expect("asked"), "it is not created");
    }
}

#[test]
fn held_locks_are_left_alone() {
    let [path, single] = ["doctor-held", "doctor-single"].map(fresh_path);
    let lock = zoolock::EphemeralLock::new(&client(), &single).expect("a path");
    // Contenders' nodes have no children. For these, the directory above is what matters.
    for (path, guard, allowed) in
        [(&path, held(&path), &*path), (&single, lock.acquire().expect("locked"), "/zoolock-test")]
    {
        let said = doctor(&connect_string(), &[path], Some(0));
        finds(&said, "ok", &[&format!("may read, create and delete in {allowed}")]);
        assert!(!said.contains("does not exist") && guard.is_held());
    }
}

#[test]
fn contenders_who_do_not_see_each_other_are_a_problem() {
    let (path, probe) = (fresh_path("doctor-mixed"), probe());
    probe.create_all(&path).expect("made");
    for (name, problems) in [("lock-", 0), ("latch-", 1)] {
        probe.create(&format!("{path}/{name}"), b"someone", true, true).expect("made");
        let said = doctor(&connect_string(), &[&path], Some(problems));
        assert_eq!(said.contains("do not exclude each other"), problems > 0, "{said}");
    }
    // There cannot be a lock at the root.
    doctor(&connect_string(), &["/"], Some(64));
}

#[test]
fn keeper_is_named() {
    let keeper = testing::Server::start_keeper().expect("a server");
    let said = doctor(&keeper.connect_string(), &["/locks"], Some(1));
    finds(&said, "problem", &["ClickHouse Keeper", "locks would not be safe"]);
}

#[test]
fn ensemble_is_fine_and_its_last_member_does_not_serve() {
    let ensemble = Ensemble::start(3).expect("an ensemble");
    let said = doctor(&ensemble.connect_string(), &[], Some(0));
    finds(&said, "ok", &["3 of 3 addresses answer: 1 leader, 2 follower"]);
    ensemble.server(0).stop().expect("stopped");
    ensemble.server(1).stop().expect("stopped");
    let alone = ensemble.server(2).connect_string();
    wait_until("it has left its leader", SOON, || {
        ensemble.server(2).four_letter("srvr").is_ok_and(|said| said.contains("not currently"))
    });
    let said = doctor(&alone, &["--session-timeout", "5"], Some(1));
    finds(&said, "problem", &[&alone, "it cannot reach a majority of its ensemble"]);
    finds(&said, "problem", &["failed to connect to ZooKeeper"]);
}

#[test]
fn addresses_without_a_zookeeper_are_distinguished() {
    let [refusing, closing, hanging] = [(); 3].map(|()| shared_proxy());
    refusing.refuse(true);
    closing.accept_and_close(true);
    hanging.black_hole(Direction::Both);
    let foreign = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = foreign.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in foreign.incoming().flatten() {
            let _ = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = stream.shutdown(std::net::Shutdown::Write);
            std::io::copy(&mut &stream, &mut std::io::sink()).ok();
        }
    });
    let [refuses, closes, hangs] = [&refusing, &closing, &hanging].map(|it| it.connect_string());
    let hosts = format!("{refuses},{closes},{hangs},{address},no-such-host.invalid");
    let said = doctor(&hosts, &["--session-timeout", "6"], Some(1));
    finds(&said, "problem", &[&refuses, "it refuses connections: check the port"]);
    finds(&said, "problem", &[&closes, "it closes the connection without an answer"]);
    finds(&said, "problem", &[&hangs, "it accepts connections but does not answer"]);
    assert_eq!(row(&said, &hangs)[1..], ["-"; 6]);
    finds(&said, "problem", &["it is not a ZooKeeper server (it answers \"HTTP/1.1 400"]);
    finds(&said, "problem", &["no-such-host.invalid: the name does not resolve"]);
    finds(&said, "problem", &["failed to connect to ZooKeeper at"]);
}

#[test]
fn missing_permissions_are_named() {
    let boss = probe();
    boss.add_auth("digest", b"boss:secret").expect("told");
    // The permissions READ (1), CREATE (4) and DELETE (8) are combined.
    let read = "READ permission in PATH, or in a node there";
    let cases =
        [(13, ""), (12, read), (9, "CREATE permission in PATH"), (5, "DELETE permission in PATH")];
    for (allowed, denied) in cases {
        let path = fresh_path("doctor-acl");
        let acl = [(allowed, "world", "anyone"), (31, "auth", "")];
        boss.create_with_acl(&path, b"", &acl).expect("made");
        let said = doctor(&connect_string(), &[&path], Some(i32::from(!denied.is_empty())));
        let problems = said.lines().filter(|line| line.starts_with("problem")).count();
        assert_eq!(problems, usize::from(!denied.is_empty()));
        if !denied.is_empty() {
            let denied = denied.replace("PATH", &path);
            finds(&said, "problem", &[&format!("does not have {denied} ("), "ACL"]);
        }
        assert!(boss.children(&path).expect("listed").is_empty(), "nothing is left");
    }
}

#[test]
fn password_without_tls_and_session_timeout_that_is_not_granted_are_warnings() {
    let mut command = command(&connect_string(), &["--session-timeout", "90"]);
    let (code, said, _) = ends(command.env("ZOOKEEPER_AUTH", "digest:ann:secret"));
    assert_eq!(code, Some(0));
    finds(&said, "warning", &["with a timeout of 60s instead of 90s: set --session-timeout 60"]);
    finds(&said, "warning", &["digest:ann", "accept any password", "without TLS"]);
    assert!(!said.contains("secret"), "{said}");
}

#[test]
fn servers_are_asked_over_tls() {
    let secured = Secured::start();
    let mut command = command(&secured.hosts(), &["/a"]);
    for (option, file) in [("--cacert", "ca.pem"), ("--cert", "cert.pem"), ("--key", "key.pem")] {
        command.arg(option).arg(secured.file(file));
    }
    let (code, said, _) = ends(command.env("ZOOKEEPER_AUTH", format!("sasl:bob:{BOB}")));
    assert_eq!(code, Some(0));
    finds(&said, "ok", &["the servers have authenticated this client as", "sasl:bob"]);
    finds(&said, "ok", &["this client may read, create and delete in /"]);
    let row = row(&said, &secured.hosts());
    assert!(row[1].starts_with("3.") && row[2] == "standalone" && row[3].ends_with(" ms"));

    let roots = secured.file("ca.pem").to_string_lossy().into_owned();
    let said = doctor(&connect_string(), &["--session-timeout", "6", "--cacert", &roots], Some(1));
    finds(&said, "problem", &["TLS failed", "whether the server expects TLS"]);

    let said = doctor(&secured.hosts(), &["--session-timeout", "6"], Some(1));
    finds(&said, "problem", &[&secured.hosts(), "expects TLS at this port"]);
}
