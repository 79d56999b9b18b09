//! Several watches in one request, of which some are over before its answer.

use zoolock_zookeeper::{Acl, ErrorKind, EventType, Permissions, Watcher};

use super::{event, heard};
use crate::util::{client, kind, make, root, said};

#[test]
fn unsendable_or_unreadable_paths_are_told_apart() {
    let (client, root) = (client(), root("unreadable"));
    let (watcher, events) = Watcher::channel();
    let (refused, text) = said(client.set_watches(0, &["/a", "b/"], &watcher));
    assert_eq!(refused, ErrorKind::BadArguments);
    assert!(text.contains("failed to watch `b/`"), "{text}");
    let many = vec![format!("/{}", "p".repeat(1000)); 1100];
    assert_eq!(kind(client.set_watches(0, &many, &watcher)), ErrorKind::BadArguments);
    // Servers send no later event of a node that may not be read, and old ones send all.
    let hidden = make(&client, &format!("{root}/hidden"), b"");
    let no_read = [Acl::new(Permissions::WRITE | Permissions::DELETE, "world", "anyone")];
    client.set_acl(&hidden, &no_read, None).unwrap();
    client.set_watches(i64::MAX, &[&hidden], &watcher).unwrap();
    assert_eq!(heard(&client, &events), []);
    client.delete(&hidden, None).unwrap();
    println!("of a hidden node: {:?}", heard(&client, &events));
    client.set_watches(i64::MAX, &[&hidden], &watcher).unwrap();
    assert_eq!(heard(&client, &events), [event(EventType::NodeDeleted, &hidden)]);
}
