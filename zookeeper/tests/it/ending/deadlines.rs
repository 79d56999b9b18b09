//! Each call comes back by its deadline, whatever servers and networks do.

use std::thread;
use std::time::{Duration, Instant};

use zoolock_test_support::{Direction, Server};
use zoolock_zookeeper::{ErrorKind, SessionEventKind, ZooKeeper};

use crate::util::{BRIEFLY, CALLS, SESSION, Stage, builder, shared_proxy};

/// What a machine that has other things to do may take longer.
const LATE: Duration = Duration::from_secs(10);

/// Makes every call at the same time, each with a second.
fn each_returns_by_its_deadline(what: &str, client: &ZooKeeper, path: &str, wanted: &[ErrorKind]) {
    let hurried = client.with_timeout(BRIEFLY);
    let timed = |name: &str, call: &dyn Fn() -> zoolock_zookeeper::Result<()>| {
        let begun = Instant::now();
        let error = call().unwrap_err();
        let took = begun.elapsed();
        println!("{what}, {name}: {:?} after {took:?}", error.kind());
        assert!(wanted.contains(&error.kind()), "{what}, {name}: {error}");
        assert!(took >= BRIEFLY && took < BRIEFLY + LATE, "{what}, {name}: {took:?}");
    };
    thread::scope(|scope| {
        for call in &CALLS {
            scope.spawn(|| timed(call.name, &|| (call.call)(&hurried, path)));
        }
        scope.spawn(|| timed("add_auth", &|| hurried.add_auth("digest", b"a:b")));
    });
    timed("close", &|| hurried.close());
}

#[test]
fn each_call_returns_by_its_deadline_when_the_server_is_stopped() {
    let server = Server::start().unwrap();
    let stage = Stage::before(&server, "stopped", SESSION);
    server.stop().unwrap();
    stage.told.until(SessionEventKind::Suspended);
    let wanted = [ErrorKind::NoConnection];
    each_returns_by_its_deadline("stopped", &stage.client, &stage.root, &wanted);
}

#[test]
fn each_call_returns_by_its_deadline_in_a_black_hole() {
    for silent in [Direction::Both, Direction::ToServer, Direction::ToClient] {
        let stage = Stage::new("black_hole", SESSION);
        stage.proxy.black_hole(silent);
        let wanted = [ErrorKind::Timeout];
        let what = format!("{silent:?} silent");
        each_returns_by_its_deadline(&what, &stage.client, &stage.root, &wanted);
    }
}

#[test]
fn a_socket_that_takes_no_more_keeps_nobody_waiting_beyond_the_deadline() {
    let server = Server::start().unwrap();
    let stage = Stage::before(&server, "full", SESSION);
    server.pause().unwrap();
    stage.proxy.black_hole(Direction::ToServer);
    // More than all buffers on the way take; the proxy takes it all, the server nothing.
    let data = vec![7; 1_000_000];
    let direct = crate::util::Told::by(&stage.client);
    let hurried = stage.client.with_timeout(BRIEFLY);
    let begun = Instant::now();
    let pending: Vec<_> =
        (0..50).map(|_| hurried.submit(|batch| batch.set_data(&stage.root, &data, None))).collect();
    println!("submitted 50 MB in {:?}", begun.elapsed());
    for pending in pending {
        let kind = pending.wait().unwrap_err().kind();
        assert!([ErrorKind::Timeout, ErrorKind::ConnectionLoss].contains(&kind), "{kind:?}");
    }
    println!("answered after {:?}, {:?}", begun.elapsed(), direct.kinds());
    assert!(begun.elapsed() < BRIEFLY + LATE);
    server.resume().unwrap();
}

#[test]
fn connecting_ends_by_its_deadline_and_says_what_was_tried() {
    let [refuses, silent, hangs_up] = [(); 3].map(|()| shared_proxy());
    refuses.refuse(true);
    let nobody = refuses.connect_string();
    silent.black_hole(Direction::Both);
    hangs_up.accept_and_close(true);
    let cases = [
        ("nobody", nobody.clone()),
        ("silent", silent.connect_string()),
        ("hangs up", hangs_up.connect_string()),
        ("all", format!("{nobody},{},{}", silent.connect_string(), hangs_up.connect_string())),
    ];
    for (what, servers) in cases {
        let begun = Instant::now();
        let error = builder(&servers, SESSION).connect_timeout(BRIEFLY).connect().unwrap_err();
        println!("{what}, after {:?}: {error}", begun.elapsed());
        assert_eq!(error.kind(), ErrorKind::ConnectFailed);
        assert!(!error.is_maybe_done());
        assert!(begun.elapsed() < BRIEFLY + LATE);
        assert!(error.to_string().contains(&servers), "{error}");
    }
}
