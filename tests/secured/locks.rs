//! Locks over TLS and SASL. They survive broken connections, and clients that are refused receive the reason.

use std::fs;
use std::time::Duration;

use zoolock::{
    Acl, Client, ClientBuilder, ConnectFailure, DistributedLock, Error, HoldState, LossReason,
    Permissions, Tls,
};

use common::secured::{ANN, BOB, Secured};
use common::*;

fn builder(secured: &Secured, hosts: &str, user: &str, password: &str) -> ClientBuilder {
    let pem = |name| fs::read(secured.file(name)).unwrap();
    let tls = Tls::new().roots_pem(&pem("ca.pem"));
    let tls = tls.client_cert_pem(&pem("cert.pem"), &pem("key.pem"));
    Client::builder(hosts).connect_timeout(SOON).tls(tls).sasl(user, password)
}

#[test]
fn secured_lock_survives_a_cut_and_is_lost_in_time() {
    let secured = Secured::start();
    let proxy = FaultProxy::start(secured.server.secure_address()).unwrap();
    // Ann may contend as well. Any other user is denied, whatever its certificate.
    let acl = Acl::none().and("sasl", "bob", Permissions::ALL);
    let acl = acl.and("sasl", "ann", Permissions::CONTEND);
    let bob = builder(&secured, &proxy.connect_string(), "bob", BOB).acl(acl.clone());
    let bob = bob.session_timeout(Duration::from_secs(10)).connect().unwrap();
    let ann = builder(&secured, &secured.hosts(), "ann", ANN).acl(acl).connect().unwrap();
    let path = fresh_path("secured");
    let [bobs, anns] = [&bob, &ann].map(|client| DistributedLock::new(client, &path).unwrap());

    let guard = bobs.acquire().unwrap();
    let token = guard.fencing_token();
    assert!(!anns.try_lock().unwrap());
    for times in 1..=3 {
        proxy.reset();
        await_resumed(&bob, times);
        wait_until("it is held again", SOON, || guard.state() == HoldState::Held);
        assert_eq!(guard.fencing_token(), token);
        assert!(!anns.try_lock().unwrap());
    }
    assert!(ann.verify_token(&path, token).unwrap());

    proxy.cut_off();
    println!("lost after {:?}", await_lost(&guard));
    anns.lock().unwrap();
    assert!(!guard.is_held());
    proxy.restore();
    assert_lost(&guard.release(), &path, LossReason::LeaseExpired);
    anns.unlock().unwrap();
    bobs.lock().unwrap();
    bobs.unlock().unwrap();
}

#[test]
fn refused_client_learns_why() {
    let secured = Secured::start();
    let why = |user, password| {
        let connected = builder(&secured, &secured.hosts(), user, password).connect();
        connected.map(drop).unwrap_err()
    };
    let refused = why("bob", "wrong");
    let said = refused.to_string();
    assert!(
        matches!(refused, Error::Connect { failure: ConnectFailure::Credentials, .. }),
        "{said}"
    );
    assert!(said.contains("the server refused the SASL user \"bob\""), "{said}");
    assert!(why("", "x").to_string().contains("invalid SASL user"));
}
