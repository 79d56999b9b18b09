//! Themes of runs: a theme decides how many clients there are, what they lock, and how.

use std::time::Duration;

use fastrand::Rng;

use super::{Kind, Options, Place, ms};

/// The limits of most plans.
const CLIENTS: usize = 4;
const THREADS: usize = 4;
const OBJECTS: usize = 5;
/// The maximum number of threads per client under contention.
const MOST_THREADS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    /// A mixture of everything.
    Mixed,
    /// Many lost frames, often among the first.
    Frames,
    /// Connections break and are restored; no fault costs a hold.
    Gentle,
    /// Many threads want one lock.
    Contention,
    /// Some clients acquire in quick succession while others hold locks for long.
    Visitors,
    /// Operators delete nodes of holders and waiters.
    Weeding,
    /// A server lags, and connections move between servers.
    Behind,
    /// Outages about as long as a session timeout, with threads that hand the lock over to each other.
    Outages,
    /// Short sessions and long faults.
    Short,
    /// Nodes that clients may not read, so that changes to them are not reported.
    Hidden,
    /// Operators list, revoke, break and cancel.
    Meddlers,
    /// Late requests to release a lock, and lost answers.
    Asked,
    /// Calls with a timeout shorter than a round trip.
    Impatient,
    /// Nodes may be created but not deleted.
    Stuck,
    /// Multi-locks, held for long.
    Groups,
    /// Nearly every acquisition is at a new path.
    Orders,
}

/// The weights of the themes. Themes that find rare bugs have more weight.
const THEMES: [(Theme, usize); 16] = [
    (Theme::Mixed, 8),
    (Theme::Frames, 4),
    (Theme::Gentle, 8),
    (Theme::Contention, 4),
    (Theme::Visitors, 4),
    (Theme::Weeding, 8),
    (Theme::Behind, 3),
    (Theme::Outages, 4),
    (Theme::Short, 2),
    (Theme::Hidden, 2),
    (Theme::Meddlers, 2),
    (Theme::Asked, 6),
    (Theme::Impatient, 2),
    (Theme::Stuck, 4),
    (Theme::Groups, 6),
    (Theme::Orders, 4),
];

impl Theme {
    pub(super) fn draw(random: &mut Rng) -> Theme {
        let all = THEMES.iter().flat_map(|(theme, share)| std::iter::repeat_n(*theme, *share));
        let all: Vec<Theme> = all.collect();
        all[random.usize(..all.len())]
    }

    pub(super) fn clients(self, random: &mut Rng) -> usize {
        match self {
            Theme::Contention => random.usize(1..=2),
            Theme::Visitors => random.usize(1..=3),
            Theme::Behind => random.usize(2..=3),
            Theme::Weeding => random.usize(2..=CLIENTS),
            Theme::Asked | Theme::Groups => random.usize(2..CLIENTS),
            Theme::Impatient | Theme::Stuck => 1 + random.usize(..3) / 2,
            _ => random.usize(1..=CLIENTS),
        }
    }

    pub(super) fn timeout(self, random: &mut Rng) -> Duration {
        let timeouts = [1_000, 2_000, 4_000, 10_000];
        Duration::from_millis(match self {
            Theme::Short | Theme::Hidden | Theme::Weeding | Theme::Stuck | Theme::Groups => 1_000,
            Theme::Impatient => 10_000,
            Theme::Outages => timeouts[random.usize(..2)],
            _ => timeouts[random.usize(..timeouts.len())],
        })
    }

    /// Draws the places of the locks. There are few of them, so that clients compete.
    pub(super) fn places(self, random: &mut Rng) -> Vec<Place> {
        match self {
            Theme::Orders => (Place::SHARED..Place::ALL.len()).map(Place).collect(),
            _ if self.has_one_place() || matches!(self, Theme::Asked | Theme::Impatient) => {
                vec![Place(random.usize(..Place::SHARED))]
            }
            Theme::Groups => vec![Place(0), Place(5)],
            _ => {
                let count = random.usize(1..=if self == Theme::Gentle { 2 } else { 3 });
                (0..count).map(|_| Place(random.usize(..Place::SHARED))).collect()
            }
        }
    }

    pub(super) fn kinds(self, random: &mut Rng) -> Vec<Kind> {
        match self {
            Theme::Visitors => {
                let first = if random.bool() { Kind::Exclusive } else { Kind::Reentrant };
                vec![first, Kind::Write, Kind::Read, Kind::Read]
            }
            Theme::Behind => vec![Kind::Exclusive, Kind::Reentrant],
            Theme::Weeding if random.u8(..4) == 0 => vec![Kind::Semaphore],
            Theme::Weeding | Theme::Outages | Theme::Hidden | Theme::Orders => {
                let kinds = [Kind::Exclusive, Kind::Reentrant, Kind::Write, Kind::Read];
                (0..2).map(|_| kinds[random.usize(..kinds.len())]).collect()
            }
            Theme::Contention if random.u8(..3) == 0 => vec![Kind::Semaphore],
            Theme::Asked if random.u8(..3) == 0 => vec![Kind::Semaphore],
            Theme::Asked => vec![Kind::Single],
            Theme::Groups => vec![Kind::Several, Kind::Exclusive],
            Theme::Stuck if random.u8(..6) == 0 => vec![Kind::Several],
            Theme::Impatient | Theme::Stuck => {
                let kinds = [Kind::Exclusive, Kind::Write, Kind::Single, Kind::Semaphore];
                // The semaphore counts twice, because its calls have the most to wait for.
                vec![kinds[random.usize(..=kinds.len()).min(kinds.len() - 1)]]
            }
            _ => {
                let count = random.usize(1..=4);
                (0..count).map(|_| Kind::ALL[random.usize(..Kind::ALL.len())]).collect()
            }
        }
    }

    /// Draws the options of all objects, if they have the same ones.
    pub(super) fn options(self, random: &mut Rng) -> Options {
        use Theme::{Asked, Groups, Impatient, Orders, Short, Stuck};
        match self {
            Theme::Visitors | Theme::Behind | Theme::Weeding => Options::default(),
            Theme::Outages => Options {
                local_handoffs: random.u32(1..4),
                margin: random.bool().then(|| ms(random, 50, 250)),
                ..Options::default()
            },
            Theme::Contention if random.bool() => {
                Options { local_handoffs: random.u32(1..4), ..Options::default() }
            }
            Asked | Impatient | Stuck | Groups | Orders | Short if random.bool() => {
                Options::default()
            }
            _ => Options::draw(random),
        }
    }

    /// Draws the number of objects and of threads of a client.
    pub(super) fn size(self, random: &mut Rng) -> (usize, usize) {
        match self {
            Theme::Contention => (random.usize(1..=2), random.usize(3..=MOST_THREADS)),
            Theme::Impatient => (1 + random.usize(..3) / 2, random.usize(2..=MOST_THREADS)),
            Theme::Stuck => (random.usize(1..=3), random.usize(1..=3)),
            Theme::Weeding | Theme::Outages => (random.usize(1..=3), random.usize(2..=5)),
            Theme::Visitors => (4, random.usize(1..=2)),
            Theme::Behind => (1, random.usize(1..=2)),
            Theme::Orders => (Place::ALL.len() - Place::SHARED, random.usize(1..=2)),
            _ => (random.usize(1..=OBJECTS), random.usize(1..=THREADS)),
        }
    }

    /// Returns whether all locks have the same path and options.
    pub(super) fn has_one_place(self) -> bool {
        use Theme::{Behind, Contention, Hidden, Outages, Stuck, Visitors, Weeding};
        matches!(self, Contention | Visitors | Weeding | Hidden | Behind | Outages | Stuck)
    }
}
