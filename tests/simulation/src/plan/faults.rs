//! Draws the faults of a run. Each theme has more of those faults that matter most for it.

use std::time::Duration;

use fastrand::Rng;

use super::{Fault, FaultKind, FrameFault, Meddling, Of, Place, Plant, Theme, ms};

/// What the faults of a run may affect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Targets<'a> {
    pub theme: Theme,
    pub clients: usize,
    pub servers: usize,
    pub places: &'a [Place],
    pub timeout: Duration,
}

pub(super) fn draw_odd(random: &mut Rng, client: usize, places: &[Place], time: Duration) -> Fault {
    let place = places[random.usize(..places.len())];
    let what = match random.u8(..6) {
        0 | 1 => FaultKind::Full { client, time },
        2 | 3 => draw_ban(random, place, time),
        4 => FaultKind::Plant { place, what: Plant::Past, time },
        _ => return FaultKind::NoThreads { client, time }.at(Duration::ZERO),
    };
    what.at(ms(random, 10, 10_000))
}

/// Draws faults in which servers move and their names sometimes cannot be resolved.
pub(crate) fn draw_moves(random: &mut Rng, servers: usize) -> Vec<Fault> {
    let mut faults = Vec::new();
    for _ in 0..random.usize(1..5) {
        let (server, when) = (random.usize(..servers), ms(random, 50, 8_000));
        let (time, hangs) = (ms(random, 20, 3_000), random.bool());
        if random.u8(..3) > 0 {
            faults.push(FaultKind::NoName { server, time, hangs }.at(when));
        }
        let when = when + time.mul_f64(random.f64() / 2.0);
        faults.push(FaultKind::Move { server }.at(when));
    }
    faults
}

fn draw_ban(random: &mut Rng, place: Place, time: Duration) -> FaultKind {
    let below = ["", "/locks", "/leases", "/leases"][random.usize(..4)];
    FaultKind::Forbid { place, below, time }
}

impl Targets<'_> {
    fn client(&self, random: &mut Rng) -> usize {
        random.usize(..self.clients)
    }

    fn server(&self, random: &mut Rng) -> usize {
        random.usize(..self.servers)
    }

    pub(crate) fn draw(&self, random: &mut Rng) -> Vec<Fault> {
        let theme = self.theme;
        let count = match random.u8(..4) {
            _ if theme == Theme::Behind => random.usize(8..24),
            _ if matches!(theme, Theme::Outages | Theme::Weeding | Theme::Hidden) => {
                random.usize(4..16)
            }
            0 => 0,
            1 => random.usize(1..3),
            _ if theme == Theme::Visitors => 0,
            _ if theme == Theme::Gentle => random.usize(2..10),
            _ => random.usize(1..12),
        };
        match theme {
            Theme::Asked => return self.draw_meetings(random),
            Theme::Stuck => return self.draw_bans(random),
            Theme::Impatient => return self.draw_stalls(random),
            Theme::Groups if random.bool() => return Vec::new(),
            Theme::Orders if random.bool() => return self.draw_strangers(random),
            _ => {}
        }
        // Actions of operators mask other problems, so most plans have few of them.
        let has_operators = random.u8(..3) == 0;
        let mut faults = Vec::new();
        if theme == Theme::Behind {
            let time = ms(random, 40, 1_600);
            let lag = FaultKind::Lag { server: self.server(random), time };
            faults.push(lag.at(ms(random, 1, 500)));
        }
        let mut when = Duration::ZERO;
        for _ in 0..count {
            // Faults often occur in groups.
            when = match random.u8(..3) {
                0 => when + ms(random, 1, 50),
                _ => ms(random, 10, if theme.has_one_place() { 6_000 } else { 15_000 }),
            };
            faults.extend(self.draw_next(random, when, has_operators));
        }
        faults
    }

    /// Draws a fault at this time, and other faults that accompany it.
    fn draw_next(&self, random: &mut Rng, when: Duration, has_operators: bool) -> Vec<Fault> {
        let Targets { theme, timeout, .. } = *self;
        let (client, server) = (self.client(random), self.server(random));
        let place = self.places[random.usize(..self.places.len())];
        let longest = timeout.as_millis() as u64 * if theme == Theme::Short { 12 } else { 5 } / 2;
        // Times near the session timeout matter most.
        let time = match random.u8(..if theme == Theme::Outages { 4 } else { 12 }) {
            0..3 => timeout.mul_f64(0.2 + random.f64()),
            _ => ms(random, 5, longest),
        };
        if theme == Theme::Outages && random.u8(..8) == 0 {
            let of = [Of::Create, Of::List, Of::Write, Of::Transaction, Of::Any][random.usize(..5)];
            let (nth, what) = (random.u32(1..20), FrameFault::Freezes(time));
            return vec![Fault::Frame { client, is_up: false, of, nth, what }];
        }
        if let Some(what) = theme.draw_fault(random, client, place, time) {
            let soon = when + ms(random, 1, 50) / 10;
            return match (theme, &what) {
                // Some clients are notified of a request only after reconnecting, or while they list contenders.
                (Theme::Gentle, FaultKind::Scribble { .. }) => {
                    let cut = FaultKind::Cut { client };
                    let (first, next) = match random.u8(..3) {
                        0 => (what, what),
                        1 => (what, cut),
                        _ => (cut, what),
                    };
                    vec![first.at(when), next.at(soon)]
                }
                // Some clients are notified of two deletions at the same time.
                (Theme::Weeding, FaultKind::Delete { .. }) if random.u8(..3) == 0 => {
                    let away = FaultKind::Refuse { client, time: ms(random, 20, 400) };
                    vec![away.at(when), what.at(soon)]
                }
                // The session ends while a thread is paused, so the thread continues with outdated information.
                (Theme::Outages, FaultKind::Expire { .. }) => {
                    let later = when + timeout.mul_f64(random.f64() * 0.8);
                    vec![FaultKind::Stall { client, time: timeout }.at(when), what.at(later)]
                }
                _ => vec![what.at(when)],
            };
        }
        if theme == Theme::Groups && random.bool() {
            // The client does not find out whether the nodes of its multi-lock have been created or deleted.
            let what = match random.bool() {
                true => FrameFault::CutBefore,
                false => FrameFault::Away(ms(random, 5, 200)),
            };
            let (is_up, of, nth) = (random.bool(), Of::Transaction, random.u32(1..20));
            return vec![Fault::Frame { client, is_up, of, nth, what }];
        }
        if random.bool() || matches!(theme, Theme::Frames | Theme::Gentle | Theme::Behind) {
            return vec![theme.draw_frame_fault(random, client, time)];
        }
        if theme == Theme::Short && random.u8(..4) == 0 {
            let time = timeout * 6;
            let what = match random.bool() {
                true => FaultKind::Deaf { client, is_up: false, time },
                false => FaultKind::Useless { client, time },
            };
            return vec![what.at(ms(random, 100, 5_000))];
        }
        let what = match random.u8(..if has_operators { 26 } else { 19 }) {
            0 | 1 => FaultKind::Cut { client },
            2 => FaultKind::BlackHole { client, time },
            3 => FaultKind::Deaf { client, is_up: random.bool(), time },
            4 => FaultKind::Refuse { client, time },
            5 => FaultKind::Freeze { client, time },
            6 => FaultKind::Stall { client, time },
            // Either twice the session timeout, or any time.
            7 => {
                let time = if random.bool() { timeout * 2 } else { time };
                let is_paused = random.bool();
                let sleep = FaultKind::Sleep { client, time, is_paused }.at(when);
                if is_paused || !random.bool() {
                    return vec![sleep];
                }
                // Not even the system clock shows how long the machine was suspended.
                let set = FaultKind::ClockStep { client, milliseconds: random.i64(-5_000..0) };
                return vec![set.at(when.saturating_sub(ms(random, 1, 50))), sleep];
            }
            8 => FaultKind::ClockStep { client, milliseconds: random.i64(-5_000..20_000) },
            9 => FaultKind::NoThreads { client, time },
            10 => FaultKind::Kill { client },
            11 | 12 => FaultKind::Crash { server, time },
            13 => FaultKind::FreezeServer { server, time },
            14 => FaultKind::CutOffServer { server, time },
            15 => FaultKind::Lag { server, time },
            16 => FaultKind::Depose,
            17 => FaultKind::Plant { place, what: Plant::Exclusive, time },
            18 => FaultKind::Plant { place, what: Plant::Write, time },
            19 => FaultKind::Expire { client },
            20 | 21 => FaultKind::Delete { place, nth: random.usize(..5) },
            22 => FaultKind::Plant { place, what: Plant::Foreign, time },
            23 => FaultKind::Plant { place, what: Plant::Lookalike, time },
            _ => FaultKind::Scribble { place, nth: random.usize(..5), is_request: random.bool() },
        };
        vec![what.at(when)]
    }

    /// Draws delayed requests, requests that others interfere with, and lost answers.
    fn draw_meetings(&self, random: &mut Rng) -> Vec<Fault> {
        let place = self.places[0];
        let longest = self.timeout.as_millis() as u64 / 2;
        let mut faults = Vec::new();
        for _ in 0..random.usize(2..12) {
            let client = self.client(random);
            let time = ms(random, 5, longest);
            if random.u8(..4) == 0 {
                // While another client requests its revocation, a client does not find out whether its node is deleted.
                let (nth, what) = (random.u32(1..10), FrameFault::Away(time));
                let other = (client + 1) % self.clients;
                faults.push(Fault::Frame { client, is_up: false, of: Of::Delete, nth, what });
                let (nth, what) = (random.u32(1..4), FrameFault::Delay(time.mul_f64(random.f64())));
                faults.push(Fault::Frame { client: other, is_up: true, of: Of::Write, nth, what });
                continue;
            }
            let ahead = if random.bool() { Duration::ZERO } else { ms(random, 1, 50) };
            let (late, away) = (FrameFault::Delay(time), FrameFault::Away(time));
            let asks = FrameFault::Meets(Meddling::Asks, ahead);
            let deletes = FrameFault::Meets(Meddling::Deletes, ahead);
            let (is_up, of, what) = match random.u8(..18) {
                0 | 1 => (true, Of::Create, away),
                2..5 => (false, Of::Create, away),
                5 | 6 => (false, Of::Delete, away),
                7..10 => (true, Of::Write, late),
                10 => (true, Of::Write, deletes),
                11 => (true, Of::Read, late),
                12..14 => (true, Of::Read, asks),
                14 | 15 => (true, Of::Create, asks),
                16 => (true, Of::Read, deletes),
                _ => {
                    let what = match random.u8(..3) {
                        0 => {
                            FaultKind::Scribble { place, nth: random.usize(..2), is_request: true }
                        }
                        1 => FaultKind::Delete { place, nth: random.usize(..2) },
                        _ => FaultKind::Refuse { client, time: ms(random, 5, longest) },
                    };
                    faults.push(what.at(ms(random, 10, 5_000)));
                    continue;
                }
            };
            let nth = random.u32(1..if of == Of::Write { 5 } else { 10 });
            faults.push(Fault::Frame { client, is_up, of, nth, what });
        }
        faults
    }

    /// Draws changes by strangers in new directories, and lost answers.
    fn draw_strangers(&self, random: &mut Rng) -> Vec<Fault> {
        use Meddling::{Deletes, Furnishes, Joins, Makes};
        let longest = self.timeout.as_millis() as u64 / 2;
        let count = random.usize(1..12);
        let fault = |_| {
            let (client, nth) = (self.client(random), random.u32(1..16));
            let time = ms(random, 1, 50);
            let all = [Of::Create, Of::Delete, Of::Transaction];
            let of = all[usize::from(random.u8(..6).min(2))];
            let all = [Furnishes, Furnishes, Joins, Joins, Makes, Deletes];
            let meddling = all[usize::from(random.u8(..6))];
            let (is_up, what) = match random.u8(..8) {
                0 => (false, FrameFault::CutBefore),
                1 => (true, FrameFault::CutBehind),
                2 => (false, FrameFault::Away(ms(random, 5, longest))),
                3 => (true, FrameFault::Delay(ms(random, 5, longest))),
                _ => (true, FrameFault::Meets(meddling, time)),
            };
            Fault::Frame { client, is_up, of, nth, what }
        };
        (0..count).map(fault).collect()
    }

    /// Draws silences, frozen servers, and broken connections.
    fn draw_stalls(&self, random: &mut Rng) -> Vec<Fault> {
        let count = random.usize(..4);
        let stall = |_| {
            let (client, time) = (self.client(random), ms(random, 200, 6_000));
            let what = match random.u8(..4) {
                0 => FaultKind::BlackHole { client, time },
                1 => FaultKind::Deaf { client, is_up: random.bool(), time },
                2 => FaultKind::FreezeServer { server: self.server(random), time },
                _ => FaultKind::Cut { client },
            };
            what.at(ms(random, 50, 3_000))
        };
        (0..count).map(stall).collect()
    }

    /// Draws either forbidden deletions or an operator's deletions, and no other faults.
    fn draw_bans(&self, random: &mut Rng) -> Vec<Fault> {
        let (place, forbids) = (self.places[0], random.bool());
        let count = random.u32(2..if forbids { 6 } else { 12 });
        let ban = |_| {
            let (time, nth) = (self.timeout * random.u32(2..8), random.usize(..8));
            let what = match forbids {
                true => draw_ban(random, place, time),
                false => FaultKind::Delete { place, nth },
            };
            what.at(ms(random, 10, 2_000))
        };
        (0..count).map(ban).collect()
    }
}

impl Theme {
    /// Draws a fault that is more frequent with this theme, if there is one.
    fn draw_fault(
        self,
        random: &mut Rng,
        client: usize,
        place: Place,
        time: Duration,
    ) -> Option<FaultKind> {
        let nth = random.usize(..4);
        let choice = random.u8(..12);
        Some(match (self, choice) {
            (Theme::Gentle, 0..3) => FaultKind::Cut { client },
            (Theme::Gentle, 3..9) => FaultKind::Scribble { place, nth, is_request: true },
            // The nodes of permits come before turn nodes in the list.
            (Theme::Weeding, 0..6) => FaultKind::Delete { place, nth: nth + random.usize(..8) },
            (Theme::Weeding, 6..9) => {
                // Clients are notified of the deletions one by one, or of all at once.
                let pause = if random.u8(..3) == 0 { ms(random, 1, 20) } else { Duration::ZERO };
                FaultKind::Clear { place, pause }
            }
            (Theme::Hidden, 0..2) => FaultKind::Delete { place, nth },
            (Theme::Hidden, 2..8) => {
                FaultKind::Hide { place, nth, time: time * 3, is_deleted: random.bool() }
            }
            (Theme::Hidden, 8) => FaultKind::HideDirectory { place, time: time * 2 },
            (Theme::Outages, 0 | 1) => FaultKind::Freeze { client, time },
            (Theme::Outages, 2 | 3) => FaultKind::Stall { client, time },
            (Theme::Outages, 4 | 10 | 11) => FaultKind::Expire { client },
            (Theme::Outages, 5 | 6) => FaultKind::Deaf { client, is_up: true, time },
            (Theme::Outages, 8 | 9) => FaultKind::Deaf { client, is_up: true, time: time * 3 },
            (Theme::Outages, 7) => FaultKind::BlackHole { client, time },
            _ => return None,
        })
    }

    /// Draws a fault that affects one of a client's frames.
    fn draw_frame_fault(self, random: &mut Rng, client: usize, time: Duration) -> Fault {
        let what = match random.u8(..if self == Theme::Gentle { 5 } else { 6 }) {
            // The connection is often cut right after the event that makes a waiter the holder.
            _ if self == Theme::Behind => FrameFault::CutBehind,
            0 | 1 => FrameFault::CutBefore,
            2 | 3 => FrameFault::CutBehind,
            4 => FrameFault::Tear,
            _ => FrameFault::Delay(time),
        };
        let (of, nth) = match random.u8(..8) {
            0..4 if self == Theme::Behind => (Of::Event, random.u32(1..12)),
            0 => (Of::Create, random.u32(1..8)),
            1 => (Of::Transaction, random.u32(1..5)),
            _ => (Of::Any, random.u32(1..if self == Theme::Frames { 40 } else { 120 })),
        };
        let is_up = self != Theme::Behind && random.bool();
        Fault::Frame { client, is_up, of, nth, what }
    }
}
