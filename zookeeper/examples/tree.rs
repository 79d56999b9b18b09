//! Prints the nodes of a ZooKeeper server as a tree: `tree [SERVERS[/ROOT]] [--watch]`. With
//! `--watch` it prints the tree again whenever a node is created, deleted or changed.

use std::time::Duration;

use crossbeam_channel::Receiver;
use zoolock_zookeeper::{ErrorKind, Result, WatchedEvent, Watcher, ZooKeeper};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (flags, servers): (Vec<_>, Vec<_>) = arguments.iter().partition(|word| *word == "--watch");
    let servers = servers.first().map_or("localhost:2181", |servers| servers);
    let zk = ZooKeeper::connect(servers, Duration::from_secs(10))?;
    loop {
        let (watcher, events): (Watcher, Receiver<WatchedEvent>) = Watcher::channel();
        print(&zk, "/", 0, &watcher)?;
        if flags.is_empty() {
            return zk.close();
        }
        // Dropping the watcher ends the watches, so each tree has its own.
        let Ok(event) = events.recv() else {
            return Ok(());
        };
        println!("\n{:?} at {}", event.event_type, event.path);
    }
}

fn print(zk: &ZooKeeper, path: &str, depth: usize, watcher: &Watcher) -> Result<()> {
    let read = zk
        .get_data_w(path, watcher)
        .and_then(|(_, stat)| Ok((stat, zk.get_children_w(path, watcher)?.0)));
    let (stat, children) = match read {
        Ok(read) => read,
        // The node was deleted while its parent was printed.
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NoAuth => {
            println!("{:indent$}{path}  (permission denied)", "", indent = depth * 2);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let name = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("/");
    let owner = if stat.ephemeral_owner == 0 { "" } else { ", ephemeral" };
    println!("{:indent$}{name}  {} bytes{owner}", "", stat.data_length, indent = depth * 2);
    let mut children: Vec<&str> = children.iter().collect();
    children.sort_unstable();
    children.iter().try_for_each(|child| {
        let path = format!("{}/{child}", path.trim_end_matches('/'));
        print(zk, &path, depth + 1, watcher)
    })
}
