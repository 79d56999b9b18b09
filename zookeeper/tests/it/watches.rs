//! Watches: their events, their callbacks, and their costs.

mod costs;
mod together;

use crossbeam_channel::Receiver;
use zoolock_test_support::shared_probe;
use zoolock_zookeeper::{EventType, WatchedEvent, Watcher, ZooKeeper};

use crate::util::{client, root};

/// The events of all changes before now, since events precede later answers.
fn heard(client: &ZooKeeper, events: &Receiver<WatchedEvent>) -> Vec<WatchedEvent> {
    client.sync("/").unwrap();
    events.try_iter().collect()
}

fn event(event_type: EventType, path: &str) -> WatchedEvent {
    WatchedEvent { event_type, path: path.to_owned() }
}

#[test]
fn dropped_receiver_harms_nobody() {
    let (client, path, probe) = (client(), root("receiver"), shared_probe().unwrap());
    let (deaf, events) = Watcher::channel();
    let (other, heard_by_other) = Watcher::channel();
    drop(events);
    client.get_data_w(&path, &deaf).unwrap();
    client.get_data_w(&path, &other).unwrap();
    probe.set(&path, b"").unwrap();
    assert_eq!(heard(&client, &heard_by_other).len(), 1);
}

#[test]
fn panicking_callback_does_not_silence_other_watchers() {
    let (client, path, probe) = (client(), root("panics"), shared_probe().unwrap());
    let watchers: Vec<_> = (0..5).map(|_| Watcher::channel()).collect();
    let loud = Watcher::new(|_: &WatchedEvent| panic!("on purpose, in a callback for events"));
    for round in 0..2 {
        for (number, (watcher, _)) in watchers.iter().enumerate() {
            client.get_data_w(&path, watcher).unwrap();
            if number == 2 {
                client.get_data_w(&path, &loud).unwrap();
            }
        }
        probe.set(&path, b"").unwrap();
        client.sync("/").unwrap();
        let told: Vec<_> = watchers.iter().map(|(_, events)| events.try_iter().count()).collect();
        println!("round {round}: {told:?}");
        assert_eq!(told, [1; 5]);
    }
}
