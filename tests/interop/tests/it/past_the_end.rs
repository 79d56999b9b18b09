//! After 2,147,483,647 turns, the sequences of a directory continue with -2147483648. For
//! comparison, this prints how Apache Curator's mutex then behaves, without asserting it.

use zoolock_interop::{Implementation, Peer, Stage};
use zoolock_test_support::{CountingServer, Probe};

pub(crate) fn mutex(curator: &Implementation) {
    const TURNS: usize = 40;
    let Some(server) = CountingServer::shared() else {
        return;
    };
    let mut theirs: [Peer; 4] = curator.start_at(server);
    let probe = Probe::connect(server.address()).unwrap();
    let mut double = Vec::new();
    for first in [0, i32::MAX - 20] {
        let stage = Stage::new("past-the-end");
        probe.create_all(&stage.path).unwrap();
        server.set_counter(&stage.path, first).unwrap();
        for peer in &mut theirs {
            peer.tell(&stage.run(TURNS, "lock"));
        }
        for peer in &mut theirs {
            if let Err(reason) = peer.result() {
                println!("{}: {reason}", peer.name());
            }
        }
        let (visits, overlaps) = (stage.witness.visits(), stage.witness.overlaps(0));
        println!(
            "from {first}: {} turns, {} of them came in beside somebody else",
            visits.len(),
            overlaps.len()
        );
        double.push(overlaps.len());
    }
    // With ordinary sequences, the same witness finds nothing wrong.
    assert_eq!(double[0], 0);
}
