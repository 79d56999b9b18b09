//! Who may read from the terminal: of all process groups, the one in the foreground.

use std::io::{self, IsTerminal};

use nix::sys::signal::{SIGTSTP, killpg};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// Standard input, if it is a terminal.
pub(crate) struct Terminal {
    own: Pid,
    child: Pid,
}

impl Terminal {
    /// Hands the foreground over to the child's group, if it is ours. Taken back when the result is
    /// dropped: whoever has started us may go on to read. None if there is no terminal.
    pub(crate) fn share_with(child: Pid) -> Option<Terminal> {
        let own = getpgrp();
        let terminal = io::stdin().is_terminal().then_some(Terminal { own, child });
        terminal.inspect(|terminal| {
            terminal.hand_over();
        })
    }

    /// False if we are not in the foreground ourselves.
    pub(crate) fn hand_over(&self) -> bool {
        self.move_foreground(self.own, self.child)
    }

    /// The child was stopped. Whoever has started us sees that we are, too, and takes the terminal
    /// back; SIGCONT comes when it wants us to go on.
    pub(crate) fn stop_with_child(&self) {
        let _ = killpg(self.own, SIGTSTP);
    }

    fn move_foreground(&self, from: Pid, to: Pid) -> bool {
        let input = io::stdin();
        tcgetpgrp(&input) == Ok(from) && tcsetpgrp(&input, to).is_ok()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.move_foreground(self.child, self.own);
    }
}
