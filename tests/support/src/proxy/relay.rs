//! The threads of a connection: a reader and a writer for each direction.
//!
//! Readers never stop reading, so they detect when one side ends even if frames are held. Only writers wait for delays,
//! holds and black holes.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{self, Builder, Scope};
use std::time::{Duration, Instant};

use super::control::{Control, Verdict};
use super::frame::{Piece, Protocol, Source};
use super::link::{Item, Link, Parcel, Way};
use super::rule::Then;
use crate::lock;
use crate::wait::poll;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// About as long as a follower retries if a leader refuses connections.
const LISTENS_WITHIN: Duration = Duration::from_secs(1);

/// Runs a connection on its own thread until both sides are closed.
pub(crate) fn start(control: Arc<Control>, link: Link, target: SocketAddr) {
    let (link, counted) = (Arc::new(link), Arc::new(()));
    control.add_link(&link, &counted);
    let body = move || {
        run(&control, &link, target);
        control.note(&format!("#{} closed", link.number));
        // The sockets are closed here, before the connection stops being counted.
        drop(link);
        drop(counted);
    };
    // If the thread cannot be started, the connection is closed immediately.
    let _ = Builder::new().name("fault-proxy".into()).spawn(body);
}

fn run(control: &Control, link: &Link, target: SocketAddr) {
    if connect(control, link, target) {
        thread::scope(|scope| {
            for way in [Way::ToServer, Way::ToClient] {
                spawn(scope, link, move || write(control, link, way));
            }
            spawn(scope, link, || read(control, link, Way::ToClient));
            read(control, link, Way::ToServer);
        });
    }
    link.close();
}

fn connect(control: &Control, link: &Link, target: SocketAddr) -> bool {
    // A member of an ensemble accepts one voter at a time, so a silent voter would block the others. In a network that
    // loses everything, that does not happen.
    let (way, peers) = (Way::ToServer, control.protocol != Protocol::Client);
    if peers && !link.pipe(way).wait_passable(control.lane(way)) {
        return false;
    }
    dial(control, link, target).is_some_and(|server| {
        let _ = server.set_nodelay(true);
        link.connected(server)
    })
}

fn dial(control: &Control, link: &Link, target: SocketAddr) -> Option<TcpStream> {
    let once = || TcpStream::connect_timeout(&target, CONNECT_TIMEOUT).ok();
    match control.protocol {
        Protocol::Client | Protocol::Election => once(),
        // Followers may find a new leader before it listens. They retry if the connection is refused, but start another
        // election if it is accepted and then closed.
        Protocol::Quorum => poll(LISTENS_WITHIN, || {
            let server = once();
            (server.is_some() || link.is_closed()).then_some(server)
        })?,
    }
}

fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    link: &'scope Link,
    body: impl FnOnce() + Send + 'scope,
) {
    let builder = Builder::new().name("fault-proxy".into());
    if builder.spawn_scoped(scope, body).is_err() {
        link.close();
    }
}

fn read(control: &Control, link: &Link, way: Way) {
    let Some((socket, _)) = link.sockets(way) else { return };
    let mut source = Source::new(socket, control.protocol, way);
    let mut first = true;
    while let Ok(piece) = source.next() {
        // A socket whose reading side was shut down still returns data that had arrived before.
        if link.is_closed() {
            break;
        }
        let (bytes, verdict) = match piece {
            Piece::Raw(bytes) => (bytes, Verdict::Pass),
            Piece::Frame(bytes) => {
                let verdict = match way {
                    Way::ToServer => control.decide_request(link, &bytes, first),
                    Way::ToClient => control.decide_answer(link, &bytes, first),
                };
                (bytes, verdict)
            }
        };
        first = false;
        deliver(control, link, way, bytes, verdict);
    }
    deliver(control, link, way, Vec::new(), Verdict::Drop(Then::Cut));
}

/// Cuts and silences are queued as well, because earlier frames must still be delivered.
fn deliver(control: &Control, link: &Link, way: Way, bytes: Vec<u8>, verdict: Verdict) {
    let (item, hold) = match verdict {
        Verdict::Pass => (Item::Bytes(bytes), None),
        Verdict::Hold(hold) => (Item::Bytes(bytes), Some(hold)),
        Verdict::Drop(Then::Cut) => (Item::Cut, None),
        Verdict::Drop(Then::Hold) => (Item::Silence, None),
    };
    let due = Instant::now() + *lock(&control.lane(way).delay);
    link.pipe(way).push(Parcel { item, due, hold });
}

fn write(control: &Control, link: &Link, way: Way) {
    let Some((_, mut socket)) = link.sockets(way) else { return };
    let mut broken = false;
    while let Some(item) = link.pipe(way).next(control.lane(way)) {
        match item {
            // If one side accepts no more data, the connection does not end, because the other direction may still
            // deliver data. The reader of that side ends it.
            Item::Bytes(bytes) => broken = broken || socket.write_all(&bytes).is_err(),
            Item::Cut => link.close(),
            Item::Silence => link.silence(),
        }
    }
}
