//! Reads seeds of the simulation, one per line, and runs each of them. Answers with a line: the seed, the numbers of
//! the mutants that it reached, and after `|`, what was violated. Ends after the first violation.

use std::io::{self, BufRead, Write};

use zoolock_simulation::{Plan, run};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let seed = line?.parse().map_err(io::Error::other)?;
        let outcome = run(&Plan::of(seed), false);
        write!(out, "{seed}")?;
        for number in mutants::take_reached() {
            write!(out, " {number}")?;
        }
        if let Some(violation) = outcome.violations.first() {
            return writeln!(out, "|{}", violation.replace('\n', " "));
        }
        writeln!(out)?;
    }
    Ok(())
}
