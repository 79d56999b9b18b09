//! A peer with the lock of the crate `zookeeper-client`. `src/peer.rs` describes the commands that it accepts.

use std::env;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix, OwnedLockClient};
use zoolock_interop::{Kind, read_lines, visit};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().collect();
    let [_, server, who] = &arguments[..] else {
        return Err("usage: zookeeper_client_peer SERVER NAME".into());
    };
    let lines = read_lines();
    // A worker thread keeps the session alive while this thread waits for a command.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    // Dropping a lock starts a task that deletes its node.
    let _entered = runtime.enter();
    let connecting =
        Client::connector().with_session_timeout(Duration::from_secs(20)).connect(server);
    let client = runtime.block_on(connecting)?;
    println!("ok");
    let mut peer =
        Peer { runtime: runtime.handle().clone(), client, who: who.clone(), taken: None };
    for line in lines {
        match peer.obey(&line) {
            Ok(()) => println!("ok"),
            Err(error) => println!("error {error}"),
        }
    }
    Ok(())
}

struct Peer {
    runtime: Handle,
    client: Client,
    who: String,
    taken: Option<OwnedLockClient>,
}

impl Peer {
    fn obey(&mut self, line: &str) -> Outcome<()> {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["lock", path] => self.lock(path)?,
            ["unlock"] => self.taken = None,
            ["run", times, folder, "lock", path] => {
                for _ in 0..times.parse()? {
                    self.lock(path)?;
                    visit(Path::new(folder), Kind::Lock, &self.who)?;
                    self.taken = None;
                }
            }
            _ => return Err(format!("not a command: {line}").into()),
        }
        Ok(())
    }

    fn lock(&mut self, path: &str) -> Outcome<()> {
        let all = Acls::anyone_all();
        let parents = CreateMode::Persistent.with_acls(all);
        let options = LockOptions::new(all).with_ancestor_options(parents)?;
        let prefix = LockPrefix::new_curator(path, "lock-")?;
        let locking = self.client.lock(prefix, self.who.as_bytes(), options);
        let locked = self.runtime.block_on(locking)?;
        self.taken = Some(locked.into_owned());
        Ok(())
    }
}
