//! `man`: writes a page for each subcommand, generated from its help.

use std::fs;
use std::iter::once;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::Arguments;
use crate::exit::{Failed, SYSTEM};

/// Writes all pages into a folder, and creates it if it is missing.
pub(crate) fn write(folder: &Path) -> Result<u8, Failed> {
    let failed = |file: &Path, error| {
        Failed::new(SYSTEM, format!("failed to write '{}': {error}", file.display()))
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    for each in once(&command).chain(command.get_subcommands()) {
        let usage = each.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").to_owned();
        let page = Man::new(each.clone().override_usage(usage).mut_args(with_aliases));
        let page = page.source(format!("zoolock {}", env!("CARGO_PKG_VERSION")));
        let file = folder.join(page.get_filename());
        let written = render(&page, each).and_then(|text| fs::write(&file, text));
        written.map_err(|error| failed(&file, error))?;
    }
    Ok(0)
}

/// Adds the aliases of an option to its help, since `clap_mangen` does not show them.
fn with_aliases(arg: Arg) -> Arg {
    let (Some(aliases), Some(help)) = (arg.get_visible_aliases(), arg.get_help()) else {
        return arg;
    };
    let help = format!("{help} (also: --{})", aliases.join(", --"));
    arg.help(help)
}

/// Renders a page. The help below the options is prose first, then headings with entries.
fn render(page: &Man, command: &Command) -> std::io::Result<Vec<u8>> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines: Vec<_> = help.lines().collect();
    let sections = (0..lines.len()).find(|line| heading(&lines, *line).is_some());
    let (prose, sections) = lines.split_at(sections.unwrap_or(lines.len()));

    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    lay_out(prose).to_writer(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    let mut below = lay_out(sections);
    below.control("SH", ["SEE ALSO"]);
    if !command.has_subcommands() {
        below.text([bold("zoolock"), roman("(1),")]);
    }
    below.text([bold("flock"), roman("(1)")]);
    below.to_writer(&mut text)?;
    Ok(text)
}

/// Returns the heading, if this line ends with a colon and an entry follows.
fn heading<'a>(lines: &[&'a str], line: usize) -> Option<&'a str> {
    let below = lines.get(line + 1)?;
    lines[line].strip_suffix(':').filter(|_| below.starts_with("  "))
}

fn lay_out(lines: &[&str]) -> Roff {
    let mut roff = Roff::new();
    roff.control("PP", []);
    let mut is_item = false;
    for (number, line) in lines.iter().enumerate() {
        // The further lines of an item of a list are not entries.
        is_item = line.starts_with("- ") || is_item && line.starts_with("  ");
        let entry = line.strip_prefix("  ").filter(|entry| !is_item && !entry.starts_with(' '));
        match (entry, heading(lines, number)) {
            (Some(entry), _) => match entry.split_once("  ") {
                Some((term, meaning)) => {
                    roff.control("TP", []);
                    roff.text([bold(term)]).text([roman(meaning.trim_start())]);
                }
                None => {
                    roff.control("PP", []);
                    roff.text([bold(entry)]);
                }
            },
            (None, Some(heading)) => {
                roff.control("SH", [heading.to_uppercase().as_str()]);
            }
            (None, None) if line.is_empty() => {
                roff.control("PP", []);
            }
            (None, None) => {
                if line.starts_with("- ") {
                    roff.control("PP", []);
                }
                roff.text([roman(line.trim_start())]);
            }
        }
    }
    roff
}
