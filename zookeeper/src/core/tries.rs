//! Decides when the client may send the next handshake, and how long a connection may be useless.
//! Pure: requests, answers and the time are inputs.
//!
//! A handshake alone renews the session at the servers. If only handshakes get through, a client
//! that keeps trying would keep its session alive and block all other clients, although its own lease
//! has run out. Therefore a connection is called useful only when a server has accepted a request on
//! it. If all attempts of a whole session timeout were useless, the client leaves the session alone for
//! longer than the session can live. This covers all servers, because a handshake at any of them renews
//! the session.
//!
//! A server that hangs up without an answer has not renewed the session. It is not serving, or its
//! data are older than those that this client has received. Because it may be back at any moment,
//! the client does not pause for it.

use std::time::{Duration, Instant};

/// The longest time between two handshakes, except while the session is left alone.
const APART: Duration = Duration::from_secs(1);
/// Between the handshakes of useful connections, that time is at most the session timeout divided by
/// this number, so that a lease outlives it.
const SHARE: u32 = 8;
/// Without useful connections, the time between two handshakes grows: it is the time since the last
/// useful connection, divided by this number.
const PART: u32 = 16;
/// How many useful connections in a row may end soon before the next handshake is delayed.
const FREE: u32 = 16;
/// The first of these delays, counted from one handshake to the next. The delay doubles with each
/// further connection that ends soon.
const FIRST: Duration = Duration::from_millis(50);

/// The attempts since the last useful connection.
#[derive(Debug)]
pub(crate) struct Tries {
    /// When a server last accepted a request. Before the first request, when the client was
    /// created.
    used: Instant,
    /// When these attempts began: when a server last accepted a request, with a new session, or with
    /// the first handshake after a pause.
    since: Instant,
    /// When a server may last have received a handshake of the session, in these attempts.
    touched: Option<Instant>,
    greeted: Option<Instant>,
    /// How many useful connections in a row have ended within a quarter of the session timeout after
    /// their handshakes, and when the handshake of the last one was sent. A server that hangs up
    /// without an answer does not count, because it may be back at any moment.
    quick: (u32, Option<Instant>),
    has_rested: bool,
}

impl Tries {
    pub(crate) fn new(now: Instant) -> Tries {
        Tries {
            used: now,
            since: now,
            touched: None,
            greeted: None,
            quick: (0, None),
            has_rested: false,
        }
    }

    /// Notes that a server accepted a request.
    pub(crate) fn used(&mut self, now: Instant) {
        *self = Tries { greeted: self.greeted, quick: self.quick, ..Tries::new(now) };
    }

    /// Notes that a new session begins. No earlier attempt has kept this session alive.
    pub(crate) fn began(&mut self, now: Instant) {
        self.since = now;
    }

    /// Notes that a request that names the session may reach a server now.
    pub(crate) fn touched(&mut self, now: Instant) {
        self.touched = Some(now);
    }

    /// Notes that there is no session that the attempts could keep alive.
    pub(crate) fn untouched(&mut self) {
        self.touched = None;
    }

    /// Notes that a handshake is sent.
    pub(crate) fn greeted(&mut self, now: Instant, timeout: Duration) {
        // A late handshake that does not follow a pause still belongs to the current attempts.
        let is_behind_a_rest = |touched: Instant| now >= touched + timeout + timeout / 2;
        if now >= self.since + timeout && self.touched.is_none_or(is_behind_a_rest) {
            self.has_rested |= self.touched.take().is_some();
            self.since = now;
        }
        if let Some(before) = self.greeted.filter(|before| self.used >= *before) {
            let is_quick = now < before + timeout / 4;
            self.quick = (if is_quick { self.quick.0 + 1 } else { 0 }, Some(before));
        }
        self.greeted = Some(now);
    }

    /// Returns when the next handshake may be sent: now, or later.
    pub(crate) fn next(&self, now: Instant, timeout: Duration) -> Instant {
        let mut next = now;
        // If many useful connections in a row were short, the next handshake is delayed.
        let last = self.greeted.filter(|greeted| self.used >= *greeted).or(self.quick.1);
        if let (Some(more), Some(last)) = (self.quick.0.checked_sub(FREE), last) {
            let longest = APART.min(timeout / SHARE);
            next = next.max(last + longest.min(FIRST * 2_u32.pow(more.min(8))));
        }
        if let Some(greeted) = self.greeted.filter(|_| now >= self.used + timeout) {
            let apart = match self.has_rested {
                true => APART,
                false => APART.min(greeted.saturating_duration_since(self.used) / PART),
            };
            next = next.max(greeted + apart);
        }
        match self.touched {
            Some(touched) if next >= self.since + timeout => {
                next.max(touched + timeout + timeout / 2)
            }
            _ => next,
        }
    }

    /// Returns whether there is time to try the same server again.
    pub(crate) fn are_young(&self, now: Instant, timeout: Duration) -> bool {
        now < self.since + timeout / 2
    }

    /// Returns when a connection must end unless it has become useful. A connection that begins late
    /// has a quarter of the session timeout.
    pub(crate) fn end(&self, timeout: Duration) -> Instant {
        self.since + timeout + timeout / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(10);

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// Tries that begin at `start`, from which all times below are counted.
    struct Story {
        start: Instant,
        tries: Tries,
    }

    impl Story {
        fn new() -> Story {
            let start = Instant::now();
            Story { start, tries: Tries::new(start) }
        }

        fn next(&self, now: Duration) -> Duration {
            self.tries.next(self.start + now, T) - self.start
        }

        fn greet(&mut self, now: Duration) {
            assert!(self.next(now) <= now, "at {now:?}, and not before {:?}", self.next(now));
            self.tries.greeted(self.start + now, T);
        }
    }

    #[test]
    fn handshakes_of_connections_that_are_of_use_for_a_moment_slow_down() {
        let mut story = Story::new();
        let (mut now, mut greeted) = (ms(0), Vec::new());
        while now < T * 3 {
            story.greet(now);
            greeted.push(now);
            story.tries.used(story.start + now + ms(1));
            now = story.next(now + ms(2));
        }
        println!("{} handshakes", greeted.len());
        assert_eq!(greeted[FREE as usize - 1], ms(2) * (FREE - 1), "the first ones are free");
        assert!(greeted.len() < 60);
        let later = now + T / 4;
        story.greet(later);
        assert_eq!(story.next(later), later, "it begins anew");

        // Even a short lease is not used up by the pauses.
        let (short, mut tries, mut now) = (ms(200), Tries::new(story.start), story.start);
        for _ in 0..FREE * 4 {
            tries.greeted(now, short);
            tries.used(now + ms(1));
            let next = tries.next(now + ms(2), short);
            assert!(next <= now + short / SHARE, "{:?}", next - now);
            now = next;
        }
    }
}
