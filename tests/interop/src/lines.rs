//! What a peer in Rust reads.

use std::sync::mpsc::{Receiver, channel};
use std::{io, process, thread};

/// The lines of the standard input as they come; the process ends with them, whatever it waits for.
#[must_use]
pub fn read_lines() -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
        process::exit(0);
    });
    lines
}
