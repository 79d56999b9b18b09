//! Settings from the environment, and their effects on a server.

use std::{env, iter};

use zoolock::{Client, ClientBuilder, DistributedLock, Error, Registration, Result, Tls};

use common::secured::{ANN, BOB, Secured};
use common::*;

/// Returns the client's session timeout, and whether it has acquired the lock at this path.
fn taken(client: &Client, path: &str) -> Result<String> {
    let lock = DistributedLock::new(client, path)?;
    Ok(format!("{:?}, taken: {}", client.session_timeout(), lock.try_lock()?))
}

#[test]
fn settings_of_the_environment_reach_the_servers() {
    if let Ok(path) = env::var(OWN_PROCESS) {
        // On a busy machine, the first answer may arrive late, even later than the session timeout.
        let connect = |builder: ClientBuilder| builder.connect_timeout(SOON).connect();
        let mut tries = iter::repeat_with(|| ClientBuilder::from_env().and_then(connect));
        let is_late = |error: &Error| error.to_string().ends_with("the session has expired");
        let client = tries.find(|client| !client.as_ref().is_err_and(is_late)).unwrap();
        match client.and_then(|client| taken(&client, &path)) {
            Ok(taken) => println!("{taken}"),
            Err(error) => println!("{error}"),
        }
        return;
    }
    let secured = Secured::start();
    let path = fresh_path("from-env");
    let [ca, cert, key] = ["ca.pem", "cert.pem", "key.pem"]
        .map(|name| secured.file(name).to_str().unwrap().to_owned());
    let all = [
        ("ZOOKEEPER_CONNECT", &*secured.hosts()),
        ("ZOOKEEPER_SESSION_TIMEOUT", "7"),
        ("ZOOKEEPER_AUTH", &format!("sasl:bob:{BOB}")),
        ("ZOOKEEPER_CACERT", &ca),
        ("ZOOKEEPER_CERT", &cert),
        ("ZOOKEEPER_KEY", &key),
    ];
    let name = "settings::settings_of_the_environment_reach_the_servers";
    for (variables, said) in [
        (&[][..], "7s, taken: true"),
        (&[("ZOOKEEPER_SESSION_TIMEOUT", "5.5")], "5.5s, taken: true"),
        // Ann has the same certificate as Bob, which also grants access to the node.
        (&[("ZOOKEEPER_AUTH", &*format!("sasl:ann:{ANN}"))], "7s, taken: true"),
        (&[("ZOOKEEPER_AUTH", "sasl:ann:wrong")], "the server refused the SASL user"),
        (&[("ZOOKEEPER_AUTH", "digest:ann:x")], "permission denied at"),
        (&[("ZOOKEEPER_TLS", "false")], "the server hung up"),
        (&[("ZOOKEEPER_KEY", "/no/such/file")], "invalid ZOOKEEPER_KEY"),
        (
            &[("ZOOKEEPER_CACERT", &key)],
            &format!("invalid ZOOKEEPER_CACERT: {key:?}: the TLS roots"),
        ),
        (&[("ZOOKEEPER_CERT", &key)], &format!("invalid ZOOKEEPER_CERT: {key:?} with ")),
        // The error must not be attributed to the certificate.
        (
            &[
                ("ZOOKEEPER_CACERT", ""),
                ("SSL_CERT_FILE", "/no/such/file"),
                ("SSL_CERT_DIR", "/no/such/folder"),
            ],
            "invalid TLS: the system has no root certificates",
        ),
    ] {
        let mut command = alone(name, OWN_PROCESS, &path);
        let output = command.envs(all).envs(variables.iter().copied()).output().unwrap();
        let all = [output.stdout, output.stderr].concat();
        let all = String::from_utf8_lossy(&all);
        println!("{variables:?}: {all}");
        assert!(all.contains(said), "{variables:?}: no {said:?} in {all}");
        assert!(secured.secrets_in(&all).is_empty(), "{all}");
    }
}

#[test]
fn session_is_ended_from_outside_with_the_same_settings() {
    let secured = Secured::start();
    let file = |name| secured.file(name).into_os_string();
    let builder = ClientBuilder::from_vars(|name| match name {
        "ZOOKEEPER_CONNECT" => Some(secured.hosts().into()),
        "ZOOKEEPER_AUTH" => Some(format!("sasl:bob:{BOB}").into()),
        "ZOOKEEPER_CACERT" => Some(file("ca.pem")),
        "ZOOKEEPER_CERT" => Some(file("cert.pem")),
        "ZOOKEEPER_KEY" => Some(file("key.pem")),
        _ => None,
    });
    let client = builder.unwrap().connect_timeout(SOON).connect().unwrap();
    let lock = DistributedLock::new(&client, fresh_path("ended")).unwrap();
    let guard = lock.acquire().unwrap();
    let registration = client.registration().unwrap();
    assert!(secured.secrets_in(&format!("{registration:?}")).is_empty());
    // Another process would use the text in this way. On a busy server, the answer may be late.
    let other = Registration::from_text(&registration.to_text()).unwrap();
    assert_eq!((&other, Some(other.session_id())), (&registration, client.session_id()));
    wait_until("a server has ended the session", SOON, || other.end_session().is_ok());
    println!("lost after {:?}", await_lost(&guard));
    // "/dev/zero" is not read to its end, because it has none.
    let text = registration.to_text();
    let file = text.lines().find(|line| line.starts_with("ZOOKEEPER_CACERT=")).unwrap();
    let endless = text.replace(file, "ZOOKEEPER_CACERT=2f6465762f7a65726f");
    let error = Registration::from_text(&endless).unwrap().end_session().unwrap_err();
    assert!(error.to_string().contains("/dev/zero"), "{error}");

    // Another process cannot use settings that only this program can create, or that cannot be put into variables.
    let builder = || Client::builder(secured.hosts());
    for other in [
        builder().tls(Tls::new()),
        builder().sasl("bob:ann", BOB),
        builder().auth("sasl", format!("bob:{BOB}")),
        builder().auth("digest", "bob"),
        builder().auth("ip:bob", "x"),
    ] {
        let error = other.reaper("/no/such/socket").connect().unwrap_err();
        println!("{error}");
        assert!(matches!(error, Error::InvalidArgument { what: "reaper", .. }));
    }
}
