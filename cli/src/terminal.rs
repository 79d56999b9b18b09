//! Who may read from the terminal: of all process groups, the one in the foreground.

use std::fs::File;
use std::io::{self, IsTerminal};

use nix::sys::signal::{SIGTSTP, killpg};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

use crate::signals;

/// The terminal that this process belongs to.
pub(crate) struct Terminal {
    terminal: File,
    /// Is it what the child reads? Else others of our group may want to, in a pipeline.
    is_input: bool,
    own: Pid,
    child: Pid,
}

impl Terminal {
    /// Hands the foreground over to the child's group if it is ours. Taken back when the result is
    /// dropped: whoever has started us may go on to read. None if there is no terminal.
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

    /// The child is about to go on.
    pub(crate) fn go_on(&self) {
        if self.is_input {
            self.hand_over();
        }
    }

    /// The child wants to read or write. False if we are not in the foreground ourselves.
    pub(crate) fn hand_over(&self) -> bool {
        self.move_foreground(self.own, self.child)
    }

    /// Nobody of the child's group is left.
    pub(crate) fn take_back(&self) {
        self.move_foreground(self.child, self.own);
    }

    /// The child was stopped. Whoever has started us sees that we are, too, and takes the terminal
    /// back. Comes back when it wants us to go on, or could not stop us.
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
