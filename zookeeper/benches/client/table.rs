//! The tables.

use std::fmt::Write;

use clap::ValueEnum;

use crate::Workload;
use crate::clients::Contestant;

/// All rounds with so many threads: operations per second, of each contestant in each round.
pub(crate) struct Case {
    threads: usize,
    rates: Vec<(Contestant, Vec<f64>)>,
}

impl Case {
    pub(crate) fn new(threads: usize, contestants: impl Iterator<Item = Contestant>) -> Case {
        Case { threads, rates: contestants.map(|contestant| (contestant, Vec::new())).collect() }
    }

    pub(crate) fn add(&mut self, place: usize, rate: f64) {
        self.rates[place].1.push(rate);
    }

    /// The median of the rounds' ratios to the classic crate, which was measured in the same
    /// rounds.
    fn ratio(&self, rates: &[f64]) -> String {
        let mut all = self.rates.iter();
        let Some((_, classic)) = all.find(|(contestant, _)| *contestant == Contestant::Classic)
        else {
            return String::new();
        };
        let ratios = rates.iter().zip(classic).map(|(rate, classic)| rate / classic);
        format!("{:.2}", median(&ratios.collect::<Vec<_>>()))
    }
}

pub(crate) fn name(workload: Workload) -> String {
    let value = workload.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

pub(crate) fn table(workload: Workload, cases: &[Case]) -> String {
    let value = workload.to_possible_value();
    let about = value.and_then(|value| value.get_help().map(ToString::to_string));
    let mut text = format!("## {}\n\n{}.\n\n", name(workload), about.unwrap_or_default());
    text += "| threads | client | operations/s | least | most | × zookeeper |\n";
    text += "|---:|---|---:|---:|---:|---:|\n";
    for case in cases {
        for (contestant, rates) in &case.rates {
            let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
            let most = rates.iter().copied().fold(0.0, f64::max);
            let (threads, median, ratio) = (case.threads, median(rates), case.ratio(rates));
            let _ = writeln!(
                text,
                "| {threads} | {contestant} | {median:.0} | {least:.0} | {most:.0} | {ratio} |"
            );
        }
    }
    text
}

fn median(samples: &[f64]) -> f64 {
    let mut samples = samples.to_vec();
    samples.sort_by(f64::total_cmp);
    f64::midpoint(samples[(samples.len() - 1) / 2], samples[samples.len() / 2])
}
