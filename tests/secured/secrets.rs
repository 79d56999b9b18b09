//! Checks that nothing that a client of any kind logs or prints contains a secret.

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};
use zoolock::{Acl, ClientBuilder, DistributedLock};

use common::secured::{ANN, BOB, Secured};
use common::*;

static LOGGED: Everything = Everything(Mutex::new(String::new()));

/// A logger that keeps the lines of all targets and levels.
struct Everything(Mutex<String>);

impl Log for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(all, "{} {} {}", record.level(), record.target(), record.args());
    }

    fn flush(&self) {}
}

#[test]
fn logs_debug_output_and_errors_contain_no_secret() {
    log::set_logger(&LOGGED).expect("no other logger");
    log::set_max_level(LevelFilter::Trace);
    let secured = Secured::start();
    let proxy = FaultProxy::start(secured.server.secure_address()).unwrap();
    let file = |name| secured.file(name).into_os_string();
    let mut shown = String::new();
    let digest = format!("digest:ann:{ANN}");
    let sasl = [format!("sasl:bob:{BOB}"), format!("sasl:ann:{BOB}"), format!("sasl:{ANN}")];
    let wrong = [BOB.to_owned(), format!("nonsense:{BOB}"), digest.clone()];
    for auth in sasl.iter().chain(&wrong) {
        let builder = ClientBuilder::from_vars(|name| match name {
            "ZOOKEEPER_CONNECT" => Some(proxy.connect_string().into()),
            "ZOOKEEPER_AUTH" => Some(auth.into()),
            "ZOOKEEPER_CACERT" => Some(file("ca.pem")),
            "ZOOKEEPER_CERT" => Some(file("cert.pem")),
            "ZOOKEEPER_KEY" => Some(file("key.pem")),
            _ => None,
        });
        let _ = writeln!(shown, "{builder:?}");
        let Ok(builder) = builder else { continue };
        let builder = builder.connect_timeout(SOON).acl(Acl::creator());
        let client = builder.auth("digest", format!("ann:{ANN}")).connect();
        let _ = writeln!(shown, "{client:?}");
        let Ok(client) = client.inspect_err(|error| shown += &error.to_string()) else { continue };
        let lock = DistributedLock::new(&client, fresh_path("secrets")).unwrap();
        let held = lock.lock();
        let before = client.stats().resumed;
        proxy.cut();
        if held.is_ok() {
            await_resumed(&client, before + 1);
        }
        let ends = (&held, lock.unlock(), client.contenders(lock.path()), client.close());
        let _ = writeln!(shown, "{lock:?} {ends:?} {:?}", client.stats());
    }
    // Secrets as the value of each variable that names a file, and as a part of a malformed value.
    let other = secured.write("other.pem", &format!("sasl:bob:{BOB}\n")).into_os_string();
    for name in ["ZOOKEEPER_CACERT", "ZOOKEEPER_CERT", "ZOOKEEPER_KEY"] {
        for file in [file("key.pem"), other.clone()] {
            let builder = ClientBuilder::from_vars(|asked| match asked {
                "ZOOKEEPER_CONNECT" => Some(secured.hosts().into()),
                "ZOOKEEPER_CERT" | "ZOOKEEPER_KEY" if name == "ZOOKEEPER_CACERT" => None,
                "ZOOKEEPER_CERT" | "ZOOKEEPER_KEY" => Some(file.clone()),
                asked => (asked == name).then(|| file.clone()),
            });
            let _ = writeln!(shown, "{builder:?}");
            let client = builder.and_then(ClientBuilder::connect);
            let _ = writeln!(shown, "{client:?}");
            client.map(drop).unwrap_err();
        }
    }
    let logged = || LOGGED.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    println!("{shown}");
    // Each client logs its lines in order, but asynchronously.
    wait_until("a resume and a refusal are logged", SOON, || {
        let logged = logged();
        logged.contains("Resumed") && logged.contains("refused the SASL user \"ann\"")
    });
    let logged = logged();
    println!("{logged}");
    let all = shown + &logged;
    for said in ["Resumed", "refused the SASL user \"ann\"", "what: \"ZOOKEEPER_CACERT\""] {
        assert!(all.contains(said), "the log lacks {said:?}");
    }
    let found = secured.secrets_in(&all);
    assert!(found.is_empty(), "{found:?}");
}
