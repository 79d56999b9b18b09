//! What goes wrong in a run, and how everything is well again.

use super::client::{Around, Client};
use super::network::Way;
use super::stage::{Event, NEVER, Stage, Time};
use super::world::{ClockFaults, Fault};

/// Up to twice the session timeout, mostly much less.
fn some_while(stage: &mut Stage) -> Time {
    let timeout = stage.world.timeout;
    let most = [timeout / 10, timeout / 2, timeout * 2][stage.rng.below(3) as usize];
    stage.some(most)
}

/// When that is over, which all is at the end of the faults.
fn until(stage: &mut Stage) -> Time {
    (stage.now + some_while(stage)).min(stage.world.length)
}

impl Client {
    pub(super) fn fault(&mut self, around: &mut Around<'_>) {
        let stage = &mut *around.stage;
        if stage.healed {
            return;
        }
        let next = stage.some(stage.world.pace * 2);
        stage.after(next, Event::Fault);
        if stage.world.faults.is_empty() {
            return;
        }
        let index = stage.rng.below(stage.world.faults.len() as u64) as usize;
        let fault = stage.world.faults[index];
        stage.note(|| format!("-- {fault:?}"));
        match fault {
            Fault::Cut | Fault::HalfOpenHere | Fault::HalfOpenThere | Fault::Hole => {
                around.hurt_connection(self.link, fault);
            }
            Fault::CutOff => around.cut_off(),
            Fault::Depose => around.depose(),
            Fault::Down => around.all_down(),
            Fault::Restore => {
                if !around.ensemble.restored && around.stage.now > around.stage.world.length / 2 {
                    around.all_down();
                    around.ensemble.restore(around.stage);
                }
            }
            Fault::Restart => around.restart(),
            Fault::Freeze => {
                let (server, until) = (around.any_server(), until(around.stage));
                around.ensemble.servers[server].frozen_until = until;
            }
            Fault::Hush => {
                let server = around.any_server();
                around.ensemble.servers[server].hush = true;
            }
            Fault::Confuse => {
                if let Some(conn) = self.link {
                    let server = around.network.conns[conn].server;
                    around.ensemble.servers[server].confuse = true;
                }
            }
            Fault::Behind => {
                let (server, lag) = (around.any_server(), some_while(around.stage));
                around.ensemble.servers[server].lag = lag;
            }
            Fault::Isolate => {
                let until = until(stage).max(until(stage));
                around.ensemble.isolated_until = until;
                if let Some(conn) = self.link {
                    around.network.dig(conn, Way::Up, NEVER);
                    around.network.dig(conn, Way::Down, NEVER);
                }
            }
            Fault::Stall => {
                stage.figures.stalls += 1;
                self.stopped_until = self.stopped_until.max(until(stage));
            }
            Fault::Clock => self.clock_fault(around.stage),
        }
    }

    fn clock_fault(&mut self, stage: &mut Stage) {
        match stage.world.clock {
            ClockFaults::None => {}
            ClockFaults::Jumps => {
                self.now(stage);
                let by = some_while(stage) as i64;
                let by = if stage.chance(0.7) { by } else { -by };
                self.clocks.set(by);
                if stage.chance(0.6) {
                    let soon = stage.some(stage.world.timeout / 4);
                    stage.after(soon, Event::SetClock(-by));
                }
                stage.figures.jumps += 1;
                // Seen, perhaps, before it is set back.
                stage.after(1, Event::Look);
            }
            ClockFaults::Suspends => {
                self.now(stage);
                let until = until(stage);
                if self.stopped_until <= stage.now {
                    self.clocks.sleep(until);
                    self.stopped_until = until;
                    stage.figures.suspends += 1;
                }
            }
        }
    }

    /// No more faults; what is broken for ever stays so, and is to be found out.
    pub(super) fn heal(&mut self, around: &mut Around<'_>) {
        let stage = &mut *around.stage;
        stage.healed = true;
        stage.note(|| "-- all is well".into());
        let hop = stage.world.hop;
        for server in &mut around.ensemble.servers {
            server.lag = server.lag.min(hop);
            (server.hush, server.confuse) = (false, false);
        }
        for server in 0..around.ensemble.servers.len() {
            if !around.ensemble.servers[server].up {
                around.stage.after(0, Event::Start { server });
            }
        }
        around.stage.after(1, Event::Elect);
    }
}

impl Around<'_> {
    fn any_server(&mut self) -> usize {
        self.stage.rng.below(self.ensemble.servers.len() as u64) as usize
    }

    fn hurt_connection(&mut self, link: Option<usize>, fault: Fault) {
        let Some(conn) = link else {
            return;
        };
        self.stage.figures.cuts += 1;
        let server_notices = fault != Fault::HalfOpenThere;
        let client_notices = fault != Fault::HalfOpenHere;
        if fault == Fault::Hole {
            self.stage.figures.holes += 1;
            let until = match self.stage.chance(0.5) {
                true => NEVER,
                false => until(self.stage),
            };
            let which = self.stage.rng.below(3);
            if which != 0 {
                self.network.dig(conn, Way::Up, until);
            }
            if which != 1 {
                self.network.dig(conn, Way::Down, until);
            }
            return;
        }
        match server_notices {
            true => self.network.tear(self.stage, conn, Way::Up),
            // What is on its way arrives, late perhaps, and nothing behind it.
            false => {
                let until = until(self.stage);
                self.network.dig(conn, Way::Up, until);
                self.network.conns[conn].up.seal();
            }
        }
        match client_notices {
            true => self.network.tear(self.stage, conn, Way::Down),
            false => self.network.dig(conn, Way::Down, NEVER),
        }
    }

    /// A follower and what it follows hear nothing of each other.
    fn cut_off(&mut self) {
        let server = self.any_server();
        let Some(reign) = self.ensemble.servers[server].reign else {
            return;
        };
        if self.ensemble.leads(server) {
            return;
        }
        self.stage.figures.cut_off += 1;
        let until = until(self.stage);
        let limit = self.stage.world.sync_limit;
        let known = &mut self.ensemble.servers[server];
        known.cut_until = known.cut_until.max(until);
        let gives_up = self.stage.now + limit / 2 + self.stage.some(limit / 2 + 1);
        if gives_up < until {
            self.stage.at(gives_up, Event::Leave { server, reign });
        }
    }

    /// Another leader has a quorum, and not all know of it.
    fn depose(&mut self) {
        let Some(old) = self.ensemble.ruling() else {
            return;
        };
        let (voters, leader) = (self.stage.world.voters, self.ensemble.reigns[old].leader);
        let up = |server: &usize| self.ensemble.servers[*server].up && *server != leader;
        let others: Vec<usize> = (0..voters).filter(up).collect();
        if others.len() <= voters / 2 {
            return;
        }
        let new = others[self.stage.rng.below(others.len() as u64) as usize];
        let mut stay = vec![leader];
        let follower = others.iter().find(|&&other| other != new);
        if let (true, Some(&follower)) = (voters >= 5 && self.stage.chance(0.7), follower)
            && self.ensemble.servers[follower].reign == Some(old)
        {
            stay.push(follower);
        }
        if let Some(observer) = self.stage.world.observer_index()
            && self.ensemble.servers[observer].reign == Some(old)
            && self.stage.world.observer.is_some_and(|master| stay.contains(&master))
        {
            stay.push(observer);
        }
        self.stage.figures.depositions += 1;
        self.ensemble.elect(self.stage, self.network, new, &stay);
    }

    fn all_down(&mut self) {
        self.stage.figures.downs += 1;
        let up_again = some_while(self.stage) * 2;
        for server in 0..self.ensemble.servers.len() {
            self.ensemble.crash(self.stage, self.network, server);
            let later = up_again + self.stage.some(self.stage.world.tick);
            self.stage.after(later, Event::Start { server });
        }
        self.ensemble.abdicate(self.stage);
    }

    fn restart(&mut self) {
        self.stage.figures.restarts += 1;
        let server = self.any_server();
        let up = (0..self.stage.world.voters).filter(|&voter| self.ensemble.servers[voter].up);
        let voters = up.count()
            - usize::from(server < self.stage.world.voters && self.ensemble.servers[server].up);
        let leads = self.ensemble.leads(server);
        self.ensemble.crash(self.stage, self.network, server);
        let later = some_while(self.stage);
        self.stage.after(later, Event::Start { server });
        if leads || voters <= self.stage.world.voters / 2 {
            self.ensemble.abdicate(self.stage);
            let later = self.stage.some(self.stage.world.tick * 2);
            self.stage.after(later, Event::Elect);
        }
        if self.stage.world.observer == Some(server)
            && let observer = self.stage.world.voters
            && let Some(reign) = self.ensemble.servers[observer].reign
        {
            self.ensemble.leave(self.stage, self.network, observer, reign);
        }
    }
}
