use std::env;

use zoolock::{Client, DistributedLock, Result};
use zoolock_test_support::fresh_path;

use common::secured::{ANN, BOB, Secured};
use common::{OWN_PROCESS, alone};

/// What a client with these settings is told.
fn taken(client: &Client, path: &str) -> Result<String> {
    let lock = DistributedLock::new(client, path)?;
    Ok(format!("{:?}, taken: {}", client.session_timeout(), lock.try_lock()?))
}

#[test]
fn environment_overrides_the_settings_file() {
    if let Ok(path) = env::var(OWN_PROCESS) {
        match Client::from_env().and_then(|client| taken(&client, &path)) {
            Ok(taken) => println!("{taken}"),
            Err(error) => println!("{error}"),
        }
        return;
    }
    let secured = Secured::start();
    let path = fresh_path("from-env");
    let text = format!(
        "connect = '{}'\nsession_timeout = 7\nauth = 'sasl:bob:{BOB}'\n\
         cacert = 'ca.pem'\ncert = 'cert.pem'\nkey = 'key.pem'\n",
        secured.hosts()
    );
    let file = secured.write("zookeeper.toml", &text);
    let [cert, key] =
        ["cert.pem", "key.pem"].map(|name| secured.file(name).to_str().unwrap().to_owned());
    let name = "settings::environment_overrides_the_settings_file";
    for (variables, said) in [
        (&[][..], "7s, taken: true"),
        (&[("ZOOKEEPER_SESSION_TIMEOUT", "5.5")], "5.5s, taken: true"),
        // Ann has the same certificate, which owns the node as well.
        (&[("ZOOKEEPER_AUTH", &*format!("sasl:ann:{ANN}"))], "7s, taken: true"),
        (&[("ZOOKEEPER_AUTH", "sasl:ann:wrong")], "the server refused the SASL user"),
        (&[("ZOOKEEPER_AUTH", "digest:ann:x")], "it wants authentication by SASL first"),
        (&[("ZOOKEEPER_TLS", "false")], "the server hung up"),
        (&[("ZOOKEEPER_KEY", "/no/such/file")], "invalid ZOOKEEPER_KEY"),
        (
            &[("ZOOKEEPER_CACERT", &key)],
            &format!("invalid ZOOKEEPER_CACERT: {key:?}: the TLS roots"),
        ),
        (&[("ZOOKEEPER_CERT", &key)], &format!("invalid ZOOKEEPER_CERT: {key:?} with ")),
        // The certificate is not the cause.
        (
            &[
                ("ZOOKEEPER_CONFIG", ""),
                ("ZOOKEEPER_CONNECT", &secured.hosts()),
                ("ZOOKEEPER_CERT", &cert),
                ("ZOOKEEPER_KEY", &key),
                ("SSL_CERT_FILE", "/no/such/file"),
                ("SSL_CERT_DIR", "/no/such/folder"),
            ],
            "invalid TLS: the system has no root certificates",
        ),
    ] {
        let mut command = alone(name, OWN_PROCESS, &path);
        command.env("ZOOKEEPER_CONFIG", &file).env_remove("ZOOKEEPER_CONNECT");
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let all = [output.stdout, output.stderr].concat();
        let all = String::from_utf8_lossy(&all);
        println!("{variables:?}: {all}");
        assert!(all.contains(said), "{variables:?}: no {said:?} in {all}");
        assert!(secured.secrets_in(&all).is_empty(), "{all}");
    }
}
