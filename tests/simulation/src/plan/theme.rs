//! The themes of runs. A theme determines how many clients there are, which locks they acquire, and how.

use std::time::Duration;

use fastrand::Rng;

use super::{Kind, Options, Place, ms};

/// The limits that apply to most plans.
const CLIENTS: usize = 4;
const THREADS: usize = 4;
const OBJECTS: usize = 5;
/// The maximum number of a client's threads for the theme `Contention`.
const MOST_THREADS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    /// A mixture of everything else.
    Mixed,
    /// Many frames are lost, often among the first ones.
    Frames,
    /// Connections break and are restored, but no fault costs a hold.
    Gentle,
    /// Many threads contend for one lock.
    Contention,
    /// Some clients acquire locks in quick succession, while other clients hold locks for a long time.
    Visitors,
    /// Operators delete the nodes of holders and of waiters.
    Weeding,
    /// A server lags, and clients move from server to server.
    Behind,
    /// Outages last about as long as a session timeout, while threads hand over the lock to each other.
    Outages,
    /// Short session timeouts, and long faults.
    Short,
    /// Clients may not read some nodes, so they receive no events for them.
    Hidden,
    /// Operators list contenders, revoke and break holds, and cancel calls.
    Meddlers,
    /// Late revocation requests, and lost answers.
    Asked,
    /// Calls whose timeout is shorter than a round trip.
    Impatient,
    /// Clients may create nodes, but not delete them.
    Stuck,
    /// Multi-locks that are held for a long time.
    Groups,
    /// Nearly every acquisition uses a new path.
    Orders,
}

/// The weights of the themes. Themes that find rare bugs have higher weights.
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

    /// Draws the places of the locks. There are only a few, so that clients contend for them.
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
                // Semaphores are twice as likely, because their calls have the most to wait for.
                vec![kinds[random.usize(..=kinds.len()).min(kinds.len() - 1)]]
            }
            _ => {
                let count = random.usize(1..=4);
                (0..count).map(|_| Kind::ALL[random.usize(..Kind::ALL.len())]).collect()
            }
        }
    }

    /// Draws the options of all objects, if the theme requires that they are the same.
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

    /// Draws how many objects and how many threads a client has.
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
