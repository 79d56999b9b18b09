//! Charts as SVG: dark on light, and readable on their own.

use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 58.0;
/// The colour of contestants that are not in the table of colours.
const OTHER: &str = "#444444";

/// The colours, so that a contestant looks the same in every chart. Those of zoolock are bluish.
const COLOURS: &[(&str, &str)] = &[
    ("raw", "#8a8a8a"),
    ("raw-single", "#bdbdbd"),
    ("zoolock", "#0b4fa8"),
    ("zoolock-reentrant", "#3f8ee0"),
    ("zoolock-ephemeral", "#8fc1f2"),
    ("zoolock-handoffs", "#00a5a5"),
    ("zoolock-keep", "#1b2a6b"),
    ("zoolock-background", "#6f7fd8"),
    ("curator", "#d1410c"),
    ("kazoo", "#c79a00"),
    ("zookeeper-client", "#7b3fa0"),
    ("redis", "#c2185b"),
    ("etcd", "#2e8b57"),
];

/// One contestant's points.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart of lines, with logarithmic axes. The number on the x axis at least doubles from point to
/// point.
pub(crate) struct Lines {
    pub(crate) title: &'static str,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    pub(crate) series: Vec<Series>,
}

/// A chart of grouped bars that begin at zero.
pub(crate) struct Bars {
    pub(crate) title: &'static str,
    pub(crate) y: &'static str,
    pub(crate) groups: Vec<(String, Vec<(&'static str, f64)>)>,
}

impl Lines {
    pub(crate) fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let mut sizes: Vec<f64> = points().map(|(x, _)| *x).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        let across =
            Scale::new(sizes[0], sizes[sizes.len() - 1], LEFT + 20.0, WIDTH - RIGHT - 20.0);
        let low = points().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
        let high = points().map(|(_, y)| *y).fold(0.0, f64::max);
        let ticks = decades(low, high);
        let up = Scale::new(ticks[0], ticks[ticks.len() - 1], HEIGHT - BOTTOM, TOP);
        let mut svg = frame(self.title, self.y);
        for tick in ticks {
            grid(&mut svg, up.at(tick), &plain(tick));
        }
        for size in sizes {
            below(&mut svg, across.at(size), &plain(size));
        }
        text(&mut svg, middle(), HEIGHT - 16.0, "middle", self.x);
        for (number, series) in self.series.iter().enumerate() {
            let at: Vec<_> =
                series.points.iter().map(|(x, y)| (across.at(*x), up.at(*y))).collect();
            let path: Vec<_> = at.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let colour = colour(series.name);
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.2\"/>",
                path.join(" ")
            );
            for (x, y) in at {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\" fill=\"{colour}\"/>"
                );
            }
            legend(&mut svg, number, series.name);
        }
        svg + "</svg>\n"
    }
}

impl Bars {
    pub(crate) fn svg(&self) -> String {
        let all = || self.groups.iter().flat_map(|(_, bars)| bars);
        let high = all().map(|(_, value)| *value).fold(1.0, f64::max);
        let step = nice_step(high / 5.0);
        let top = (high / step).ceil() * step;
        let height = |value: f64| (HEIGHT - BOTTOM - TOP) * value / top;
        let mut svg = frame(self.title, self.y);
        let mut tick = 0.0;
        while tick <= top {
            grid(&mut svg, HEIGHT - BOTTOM - height(tick), &plain(tick));
            tick += step;
        }
        let room = (WIDTH - LEFT - RIGHT) / self.groups.len() as f64;
        for (number, (name, bars)) in self.groups.iter().enumerate() {
            let start = LEFT + room * (number as f64 + 0.08);
            let wide = room * 0.84 / bars.len() as f64;
            for (place, (contestant, value)) in bars.iter().enumerate() {
                let (x, tall) = (start + wide * place as f64, height(*value));
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{tall:.1}\" fill=\"{}\"/>",
                    HEIGHT - BOTTOM - tall,
                    wide * 0.9,
                    colour(contestant)
                );
            }
            below(&mut svg, LEFT + room * (number as f64 + 0.5), name);
        }
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in all() {
            if !names.contains(name) {
                legend(&mut svg, names.len(), name);
                names.push(name);
            }
        }
        svg + "</svg>\n"
    }
}

/// A logarithmic axis.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(low: f64, high: f64, from: f64, to: f64) -> Scale {
        let (low, high) = (low.log10(), high.log10());
        Scale { low, high, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        match self.high > self.low {
            true => {
                let share = (value.log10() - self.low) / (self.high - self.low);
                self.from + (self.to - self.from) * share
            }
            false => f64::midpoint(self.from, self.to),
        }
    }
}

/// Returns ticks at 1, 2 and 5 of each power of ten, from one below the values to one above.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let ticks = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)));
    let ticks: Vec<f64> = ticks.collect();
    let first = ticks.iter().rposition(|tick| *tick <= low).unwrap_or(0);
    let last = ticks.iter().position(|tick| *tick >= high);
    ticks[first..=last.unwrap_or(ticks.len() - 1)].to_vec()
}

fn nice_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    steps.into_iter().find(|step| *step >= least).unwrap_or(least)
}

fn colour(name: &str) -> &'static str {
    let known = COLOURS.iter().find(|(known, _)| *known == name);
    known.map_or(OTHER, |(_, colour)| colour)
}

fn middle() -> f64 {
    f64::midpoint(LEFT, WIDTH - RIGHT)
}

fn frame(title: &str, y: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\" \
         fill=\"#222222\">\n<title>{title}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"26\" font-size=\"16\" font-weight=\"bold\">{title}</text>\n"
    );
    let halfway = f64::midpoint(TOP, HEIGHT - BOTTOM);
    let _ = writeln!(
        svg,
        "<text transform=\"translate(20 {halfway}) rotate(-90)\" text-anchor=\"middle\">{y}</text>"
    );
    svg
}

fn grid(svg: &mut String, y: f64, label: &str) {
    let right = WIDTH - RIGHT;
    let _ = writeln!(
        svg,
        "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>"
    );
    text(svg, LEFT - 8.0, y + 4.0, "end", label);
}

fn below(svg: &mut String, x: f64, label: &str) {
    text(svg, x, HEIGHT - BOTTOM + 20.0, "middle", label);
}

fn legend(svg: &mut String, number: usize, name: &str) {
    let (x, y) = (WIDTH - RIGHT + 22.0, TOP + 8.0 + 22.0 * number as f64);
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{:.1}\" width=\"14\" height=\"5\" fill=\"{}\"/>",
        y - 6.0,
        colour(name)
    );
    text(svg, x + 22.0, y, "start", name);
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, label: &str) {
    let _ =
        writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{label}</text>");
}

/// Formats a number as short as possible, to fit beside the axis: `0.05`, `20`, `5000`, `20k`,
/// `1M`.
fn plain(value: f64) -> String {
    let (value, unit) = match value {
        1e6.. => (value / 1e6, "M"),
        1e4.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    format!("{}{unit}", (value * 1e6).round() / 1e6)
}
