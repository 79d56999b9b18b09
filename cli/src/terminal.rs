//! Moves the terminal between process groups. Only the group in the foreground may read from it.

use std::fs::File;
use std::io::{self, IsTerminal};

use nix::sys::signal::{SIGTSTP, killpg};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

use crate::signals;

/// The terminal that controls this process.
pub(crate) struct Terminal {
    terminal: File,
    /// Whether standard input is the terminal. If not, other processes of zoolock's group, such as
    /// those of a pipeline, may read from the terminal.
    pub(crate) is_input: bool,
    own: Pid,
    child: Pid,
}

impl Terminal {
    /// Moves the foreground to the child's group, if zoolock's group has it and standard input is the
    /// terminal. The foreground moves back when the result is dropped, for the shell that started
    /// zoolock. Returns `None` if there is no terminal.
    pub(crate) fn share_with(child: Pid) -> Option<Terminal> {
        let terminal = File::options().read(true).write(true).open("/dev/tty");
        let terminal = Terminal {
            terminal: terminal.ok()?,
            is_input: io::stdin().is_terminal(),
            own: getpgrp(),
            child,
        };
        terminal.go_on();
        Some(terminal)
    }

    /// Gives the terminal to a child that is about to continue.
    pub(crate) fn go_on(&self) {
        if self.is_input {
            self.hand_over();
        }
    }

    /// Gives the terminal to a child that wants to use it. Returns false if zoolock is not in the
    /// foreground.
    pub(crate) fn hand_over(&self) -> bool {
        self.move_foreground(self.own, self.child)
    }

    /// Takes the terminal back, when the child's group has ended.
    pub(crate) fn take_back(&self) {
        self.move_foreground(self.child, self.own);
    }

    /// Stops zoolock's group after the child was stopped, so that the shell is notified and takes the
    /// terminal back. Returns when the shell continues the group, or at once if the group cannot be
    /// stopped.
    pub(crate) fn stop_with_child(&self) {
        signals::stop(|| killpg(self.own, SIGTSTP));
    }

    fn move_foreground(&self, from: Pid, to: Pid) -> bool {
        tcgetpgrp(&self.terminal) == Ok(from) && tcsetpgrp(&self.terminal, to).is_ok()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}
