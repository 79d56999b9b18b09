//! One run: a world, and all that happens in it.

use super::calls::WATCHED;
use super::chance::Rng;
use super::client::{Around, Client};
use super::codec::NOBODY;
use super::ensemble::Ensemble;
use super::network::Network;
use super::stage::{Event, Property, Stage};
use super::tree::{Write, WriteKind};
use super::world::{Fault, World};

/// More than any run needs.
const MOST: u64 = 200_000;

/// See the head of this file.
pub(super) fn run(mut rng: Rng, world: World, traced: bool) -> Stage {
    let closes = world.close;
    rng.fraction();
    let mut stage = Stage::new(rng, world, traced);
    let world = traced.then(|| format!("{:?}", stage.world));
    stage.note(|| world.unwrap_or_default());
    let mut network = Network::default();
    let mut ensemble = Ensemble::new(&mut stage);
    let mut client = Client::new(&mut stage);
    let (timeout, length) = (stage.world.timeout, stage.world.length);
    // The slowest way back: silence, a session that is over, and rounds of servers in between; for
    // servers that have forgotten it, two lives of the session and the time until they are asked.
    let slowest = if stage.world.faults.contains(&Fault::Restore) { 7 } else { 4 };
    let calm = length + timeout * slowest + 5_000_000;
    let end = calm + timeout * 4;
    for (at, event) in [
        (0, Event::Call),
        (0, Event::Other),
        (stage.world.pace, Event::Fault),
        (length, Event::Heal),
        (calm, Event::Calm),
        (calm + timeout * 2, Event::LastCalls),
    ] {
        stage.at(at, event);
    }
    if let Some(at) = closes {
        stage.at(at, Event::Close);
    }
    while let Some(event) = stage.next() {
        if stage.now > end || stage.failure.is_some() {
            break;
        }
        if stage.steps() > MOST {
            stage.fail(Property::Liveness, || "it never ends".into());
        }
        let mut around =
            Around { stage: &mut stage, network: &mut network, ensemble: &mut ensemble };
        step(&mut around, &mut client, event);
    }
    let mut around = Around { stage: &mut stage, network: &mut network, ensemble: &mut ensemble };
    client.check_calls(&mut around);
    stage.figures.calls += client.calls.len() as u64;
    stage
}

fn step(around: &mut Around<'_>, client: &mut Client, event: Event) {
    let stage = &mut *around.stage;
    let own = matches!(
        event,
        Event::Down(_)
            | Event::Tick(_)
            | Event::Round
            | Event::Dial
            | Event::Dialed { .. }
            | Event::Woken(_)
            | Event::Call
            | Event::Close
    );
    if own && client.is_stopped(stage, &event) {
        return;
    }
    match event {
        Event::Down(conn) => client.come(around, conn),
        Event::Tick(alarm) => client.tick(around, alarm),
        Event::Round => client.begin_round(stage),
        Event::Dial => client.dial(around),
        Event::Dialed { server, accepted } => client.dialed(around, server, accepted),
        Event::Woken(conn) => client.woken(around, conn),
        Event::Call => {
            if stage.last_calls {
                return;
            }
            let next = stage.some(stage.world.calls * 2);
            stage.after(next, Event::Call);
            client.call(around);
        }
        Event::LastCalls => stage.last_calls = true,
        Event::Close => client.close(around),
        Event::SetClock(by) => {
            client.now(stage);
            client.clocks.set(by);
        }
        Event::Look => client.look(stage, around.ensemble),
        Event::Fault => client.fault(around),
        Event::Heal => client.heal(around),
        Event::Calm => {
            stage.calm = true;
            client.story.kept_since =
                client.story.kept_since.max(stage.now - stage.world.timeout * 2);
            client.check_calm(stage);
        }
        Event::Expiry { reign, session } => {
            around.ensemble.expiry(stage, reign, session);
            client.look(stage, around.ensemble);
        }
        other => serve(around, other),
    }
}

/// What happens to the servers.
fn serve(around: &mut Around<'_>, event: Event) {
    let Around { stage, network, ensemble } = around;
    if let Event::Applied { server, reign, .. }
    | Event::Pinged { server, reign }
    | Event::Heard { server, reign, .. }
    | Event::Forwarded { server, reign, .. }
    | Event::Revalidate { server, reign, .. }
    | Event::Revalidated { server, reign, .. } = event
        && !ensemble.hears(stage, server, reign, &event)
    {
        return;
    }
    match event {
        Event::Up(conn) => ensemble.come(stage, network, conn),
        Event::Applied { server, upto, .. } => ensemble.apply(stage, network, server, upto),
        Event::Pinged { server, reign } => ensemble.pinged(stage, server, reign),
        Event::Heard { server, reign, touched } => ensemble.heard(stage, server, reign, touched),
        Event::Forwarded { reign, write, .. } => ensemble.prepare(stage, reign, *write),
        Event::Revalidate { server, reign, conn } => {
            let lives = ensemble.revalidate(stage, network, reign, conn);
            let at = ensemble.link(stage, server, false);
            stage.at(at, Event::Revalidated { server, reign, conn, lives });
        }
        Event::Revalidated { conn, lives, .. } => ensemble.resume(stage, network, conn, lives),
        Event::Commit { reign } => ensemble.commit(stage, network, reign),
        Event::Leave { server, reign } => ensemble.leave(stage, network, server, reign),
        Event::Join { server } => ensemble.try_to_join(stage, server),
        Event::Start { server } => ensemble.start(stage, network, server),
        Event::Elect => ensemble.elect_if_possible(stage, network),
        Event::Other => somebody_writes(stage, ensemble),
        _ => {}
    }
}

fn somebody_writes(stage: &mut Stage, ensemble: &mut Ensemble) {
    let next = stage.some(stage.world.calls * 2);
    stage.after(next, Event::Other);
    let Some(reign) = ensemble.ruling() else {
        return;
    };
    let node = format!("/w{}{}", stage.rng.below(WATCHED), stage.world.suffix);
    let (path, kind) = match stage.rng.below(6) {
        0 | 1 => (node, WriteKind::Create { ephemeral: false }),
        2 => (node, WriteKind::Delete),
        3 => (node, WriteKind::Set { version: -1 }),
        4 => (format!("{node}/other"), WriteKind::Create { ephemeral: false }),
        _ => (format!("{node}/other"), WriteKind::Delete),
    };
    let write = Write { origin: None, session: 0, kind, path, tag: NOBODY };
    ensemble.prepare(stage, reign, write);
}
