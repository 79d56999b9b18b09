//! What runs have seen: a fault that never happens proves nothing.

macro_rules! figures {
    ($($name:ident),* $(,)?) => {
        /// Sums over runs.
        #[derive(Debug, Clone, Default)]
        pub(super) struct Figures {
            $(pub(super) $name: u64,)*
            /// From a lease's end to its session's, as a share of the timeout; none where none was seen.
            pub(super) least_spare: Option<f64>,
        }

        impl Figures {
            pub(super) fn add(&mut self, other: &Figures) {
                $(self.$name += other.$name;)*
                self.spare(other.least_spare);
            }

            pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

figures! {
    calls, losses, lost_answers, timeouts, no_connections, of_expired, of_closed, throttled, secrets,
    connects, resumes, resumed_at_deposed, refused_as_behind, expired, expired_by_leader, misjudged,
    moved, hushed, confused, set_again, missed_events, half_told, told, silences, looks, lease_ends, lease_renewals, closes,
    cuts, holes, cut_off, depositions, downs, restarts, restores, stalls, suspends, jumps, asked,
}

impl Figures {
    pub(super) fn spare(&mut self, spare: Option<f64>) {
        let both = self.least_spare.zip(spare).map(|(known, spare)| known.min(spare));
        self.least_spare = both.or(self.least_spare).or(spare);
    }

    /// What has never happened.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let never = self.counts().into_iter().filter(|count| count.1 == 0);
        never.map(|count| count.0).collect()
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, count) in self.counts() {
            write!(f, "{} {count}, ", name.replace('_', " "))?;
        }
        write!(f, "least spare {:.4} T", self.least_spare.unwrap_or(f64::NAN))
    }
}
