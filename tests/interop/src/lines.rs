//! The input of a peer in Rust.

use std::sync::mpsc::{Receiver, channel};
use std::{io, process, thread};

/// Returns the lines of the standard input as they come. Ends the process at the end of the input, whatever it is
/// waiting for.
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
