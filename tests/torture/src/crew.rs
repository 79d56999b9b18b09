//! The client processes: copies of this program, or another library's clients, that are started
//! again when they die.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command as Program, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use zoolock::crossbeam_channel::{Receiver, Sender, bounded};

use crate::clock::now;
use crate::hub::Hub;
use crate::kinds::Kinds;
use crate::message::{Command, Life, send};

/// How the clients are started.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// The program, and arguments before those that all get.
    pub(crate) command: Vec<OsString>,
    pub(crate) seed: u64,
    pub(crate) folder: PathBuf,
    pub(crate) kinds: Kinds,
    pub(crate) threads: usize,
    /// One connect string per process.
    pub(crate) connect: Vec<String>,
}

pub(crate) struct Crew {
    launch: Launch,
    members: Vec<Mutex<Member>>,
    hub: Arc<Hub>,
}

struct Member {
    life: u32,
    child: Child,
    input: ChildStdin,
}

impl Crew {
    /// Starts everybody. The receiver is disconnected when they all are gone, after
    /// [`Hub::finish`].
    pub(crate) fn start(
        launch: Launch,
        hub: &Arc<Hub>,
        gone: Receiver<Life>,
    ) -> io::Result<(Arc<Crew>, Receiver<()>)> {
        let members = (0..launch.connect.len()).map(|process| launch.start(process, 0));
        let crew = Arc::new(Crew {
            members: members.map(|member| member.map(Mutex::new)).collect::<io::Result<_>>()?,
            launch,
            hub: Arc::clone(hub),
        });
        let (sender, all_gone) = bounded(0);
        let keeper = Arc::clone(&crew);
        thread::spawn(move || keeper.keep(gone, sender));
        Ok((crew, all_gone))
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// A process that is gone is noticed elsewhere.
    pub(crate) fn tell(&self, process: usize, command: &Command) {
        let _ = send(&mut self.member(process).input, command);
    }

    pub(crate) fn tell_all(&self, command: &Command) {
        (0..self.len()).for_each(|process| self.tell(process, command));
    }

    /// SIGKILL. It is started again.
    pub(crate) fn kill(&self, process: usize) -> io::Result<()> {
        let mut member = self.member(process);
        let mut state = self.hub.state();
        state.evidence.died(process, member.life, now());
        drop(state);
        member.child.kill()
    }

    /// SIGSTOP. Returns when no thread of the process runs any more.
    pub(crate) fn stop(&self, process: usize) -> io::Result<()> {
        let member = self.member(process);
        let pid = Pid::from_child(&member.child);
        kill_process(pid, Signal::STOP)?;
        let change = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), change)?;
        Ok(())
    }

    /// SIGCONT.
    pub(crate) fn resume(&self, process: usize) -> io::Result<()> {
        let member = self.member(process);
        Ok(kill_process(Pid::from_child(&member.child), Signal::CONT)?)
    }

    /// Ends those that have not ended by themselves, and says how many they were.
    pub(crate) fn dismiss(&self, all_gone: &Receiver<()>, within: Duration) -> usize {
        // It never carries anything: this waits for its end.
        let _ = all_gone.recv_timeout(within);
        let kill = |process: &usize| {
            let mut member = self.member(*process);
            matches!(member.child.try_wait(), Ok(None)) && member.child.kill().is_ok()
        };
        (0..self.len()).filter(kill).count()
    }

    fn keep(&self, gone: Receiver<Life>, _alive: Sender<()>) {
        let mut ended = 0;
        for (process, life) in gone {
            let mut member = self.member(process);
            let status = member.child.wait();
            // One of them may have said that it is the process's end.
            self.hub.hear_out(process, life);
            let mut state = self.hub.state();
            let expected = match status {
                Ok(status) if state.finishing => status.success(),
                _ => state.evidence.deaths.contains_key(&(process, life)),
            };
            if !expected {
                let text = format!("process p{process}.{life} ended by itself: {status:?}");
                state.evidence.wrongs.push(text);
                state.evidence.died(process, life, now());
            }
            if state.finishing {
                ended += 1;
                if ended == self.len() {
                    return;
                }
                continue;
            }
            drop(state);
            match self.launch.start(process, life + 1) {
                Ok(successor) => *member = successor,
                Err(error) => {
                    let text = format!("process p{process} cannot be started again: {error}");
                    self.hub.state().evidence.wrongs.push(text);
                }
            }
        }
    }

    fn member(&self, process: usize) -> MutexGuard<'_, Member> {
        let member = self.members[process].lock();
        member.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Launch {
    fn start(&self, process: usize, life: u32) -> io::Result<Member> {
        let mut program = Program::new(&self.command[0]);
        program.args(&self.command[1..]);
        program.args(["client", "--process", &process.to_string()]);
        program.args(["--life", &life.to_string()]);
        program.args(["--threads", &self.threads.to_string()]);
        program.args(["--seed", &self.seed.to_string()]);
        program.args(["--connect", &self.connect[process]]);
        program.arg("--folder").arg(&self.folder);
        program.args(["--kinds", &self.kinds.names()]);
        // An interrupt from the terminal is the parent's, which ends the others with itself.
        program.process_group(0);
        program.stdin(Stdio::piped());
        let mut child = program.spawn()?;
        let input = child.stdin.take();
        let input = input.ok_or_else(|| io::Error::other("a pipe is missing"))?;
        Ok(Member { life, child, input })
    }
}
