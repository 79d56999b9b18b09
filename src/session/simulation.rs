//! Random runs of the vital signs with simulated clocks, callers and servers: what is left of a
//! lease when a silent connection is declared dead, whether a lease ever outlives its session at
//! the leader, and what signs of life cost. It knows the pulse and timer threads by heart and
//! uses neither.

mod chance;
mod run;
mod world;

use self::chance::Rng;
use self::run::Run;
use self::world::{Fault, Pattern, World};

const RUNS: u64 = 4000;

/// The least of what the runs give, and the run that gave it.
#[derive(Debug)]
struct Least {
    value: f64,
    run: String,
}

impl Least {
    fn new() -> Least {
        Least { value: f64::MAX, run: String::new() }
    }

    fn take(&mut self, value: f64, seed: u64, run: &Run) {
        if value < self.value {
            let (world, fault, figures) = (&run.world, &run.fault, &run.figures);
            self.value = value;
            self.run = format!("seed {seed}: {world:?}, {fault:?}, {figures:?}");
        }
    }
}

/// What is left at least, as shares of the session timeout.
fn promised(round_trip: f64) -> f64 {
    0.2 - 2.0 * round_trip
}

#[test]
fn enough_is_left_to_reconnect_when_a_holder_notices_silence() {
    let (mut left, mut above, mut refused) = (Least::new(), Least::new(), 0);
    for seed in 0..RUNS {
        let mut rng = Rng::new(seed);
        let world = World::random(&mut rng, 0.05);
        let fault = Fault::silence(&mut rng, world.timeout);
        let run = Run::live(rng, world, fault, 40.0);
        if run.figures.refused {
            refused += 1;
            continue;
        }
        let death = run.figures.death.map(|left| world.share(left));
        let death = death.unwrap_or_else(|| panic!("seed {seed}: never noticed: {world:?}"));
        left.take(death, seed, &run);
        let promised = promised(world.share(world.round_trip));
        above.take(death - promised, seed, &run);
    }
    println!("left at death, in T: {left:#?}, without {refused} runs that ended before");
    println!("above what is promised: {above:#?}");
    assert!(above.value >= 0.0, "{above:#?}");
}

#[test]
fn a_lease_ends_before_the_leader_of_a_cut_off_follower_expires_the_session() {
    let mut margin = Least::new();
    for seed in 0..RUNS {
        let mut rng = Rng::new(seed);
        let world = World::random(&mut rng, 0.05);
        let fault = Fault::cut(&mut rng, world.timeout);
        let run = Run::live(rng, world, fault, 10.0);
        let (end, expiry) = (run.figures.lease_end, run.expiry());
        let after = expiry.as_secs_f64() - end.as_secs_f64();
        margin.take(after / world.timeout.as_secs_f64(), seed, &run);
    }
    println!("from the lease's end to the session's, in T: {margin:#?}");
    assert!(margin.value > 0.0, "{margin:#?}");
}

#[test]
fn a_healthy_connection_is_never_lost_and_costs_at_most_a_heartbeat_a_quarter() {
    const LENGTH: f64 = 20.0;
    let (mut left, mut spare) = (Least::new(), Least::new());
    let mut most_looks = Least::new();
    for seed in 0..RUNS / 2 {
        let mut rng = Rng::new(seed);
        let world = World::random(&mut rng, 0.12);
        let run = Run::live(rng, world, Fault::None, LENGTH);
        let figures = &run.figures;
        let context = || format!("seed {seed}: {world:?}, {figures:?}");
        assert_eq!(figures.death, None, "{}", context());
        assert!(!figures.refused, "a grant found no lease: {}", context());
        if let Some(least) = figures.least_left {
            left.take(world.share(least), seed, &run);
        }
        let allowed = LENGTH * 4.0 + 2.0;
        spare.take(allowed - figures.heartbeats as f64, seed, &run);
        let looks = figures.pulse_looks - figures.grants.min(figures.pulse_looks);
        most_looks.take(-(looks as f64) / LENGTH, seed, &run);
    }
    println!("least left while held, in T: {left:#?}");
    println!("heartbeats below four a T and two: {spare:#?}");
    println!("looks of the pulse a T beside one a grant, negative: {most_looks:#?}");
    assert!(left.value > 0.0, "{left:#?}");
    assert!(spare.value >= 0.0, "{spare:#?}");
    assert!(-most_looks.value <= 40.0, "{most_looks:#?}");
}

#[test]
fn an_idle_client_costs_a_probe_a_quarter() {
    const LENGTH: f64 = 100.0;
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut world = World::random(&mut rng, 0.05);
        world.pattern = Pattern::Nobody;
        let run = Run::live(rng, world, Fault::None, LENGTH);
        let (figures, probes) = (&run.figures, run.figures.probes as f64);
        assert_eq!(figures.heartbeats, 0, "seed {seed}: {world:?}");
        let slowest = LENGTH / (0.25 + world.share(world.round_trip));
        assert!(
            (slowest - 2.0..=LENGTH * 4.0).contains(&probes),
            "seed {seed}: {probes} probes in {LENGTH} T: {world:?}"
        );
        assert!(
            figures.pulse_looks as f64 <= 3.0 * LENGTH * 4.0
                && figures.timer_looks as f64 <= 2.0 * LENGTH * 4.0,
            "seed {seed}: {figures:?}"
        );
        if seed == 0 {
            println!("idle for {LENGTH} T: {figures:?}");
        }
    }
}
