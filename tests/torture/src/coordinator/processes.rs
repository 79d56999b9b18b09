//! The client processes: copies of this program. They start again when they die.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command as Program, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use zoolock::crossbeam_channel::{Receiver, Sender, bounded};
use zoolock_judge::Doubt;

use crate::clock::{Nanos, now};
use crate::coordinator::recorder::Recorder;
use crate::kinds::Kinds;
use crate::protocol::{Command, Incarnation, send};

/// The start of the clients.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) seed: u64,
    pub(crate) folder: PathBuf,
    pub(crate) kinds: Kinds,
    pub(crate) threads: usize,
    /// One connect string per process.
    pub(crate) connect: Vec<String>,
}

pub(crate) struct Processes {
    launch: Launch,
    all: Vec<Mutex<ClientProcess>>,
    recorder: Arc<Recorder>,
}

struct ClientProcess {
    incarnation: u32,
    child: Child,
    input: ChildStdin,
}

impl Processes {
    /// Starts all processes. The receiver disconnects when all are gone, after [`Recorder::finish`].
    pub(crate) fn start(
        launch: Launch,
        recorder: &Arc<Recorder>,
        gone: Receiver<Incarnation>,
    ) -> io::Result<(Arc<Processes>, Receiver<()>)> {
        let all = (0..launch.connect.len()).map(|process| launch.start(process, 0));
        let processes = Arc::new(Processes {
            all: all.map(|client| client.map(Mutex::new)).collect::<io::Result<_>>()?,
            launch,
            recorder: Arc::clone(recorder),
        });
        let (sender, all_gone) = bounded(0);
        let keeper = Arc::clone(&processes);
        thread::spawn(move || keeper.keep(gone, sender));
        Ok((processes, all_gone))
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Ignores a missing process, which is noticed elsewhere.
    pub(crate) fn tell(&self, process: usize, command: &Command) {
        let _ = send(&mut self.client(process).input, command);
    }

    pub(crate) fn tell_all(&self, command: &Command) {
        (0..self.len()).for_each(|process| self.tell(process, command));
    }

    /// Sends SIGKILL. The process starts again.
    pub(crate) fn kill(&self, process: usize) -> io::Result<()> {
        let mut client = self.client(process);
        let mut state = self.recorder.state();
        state.history.died((process, client.incarnation), now());
        drop(state);
        client.child.kill()
    }

    /// Sends SIGSTOP. Returns when no thread of the process runs any more.
    pub(crate) fn stop(&self, process: usize) -> io::Result<()> {
        let doubt = Doubt { process, path: None, begun: now(), over: Nanos::MAX };
        self.recorder.state().history.doubts.push(doubt);
        let client = self.client(process);
        let pid = Pid::from_child(&client.child);
        kill_process(pid, Signal::STOP)?;
        let change = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), change)?;
        Ok(())
    }

    /// Sends SIGCONT.
    pub(crate) fn resume(&self, process: usize) -> io::Result<()> {
        let client = self.client(process);
        kill_process(Pid::from_child(&client.child), Signal::CONT)?;
        drop(client);
        let mut state = self.recorder.state();
        let its = |doubt: &&mut Doubt| doubt.process == process && doubt.over == Nanos::MAX;
        if let Some(doubt) = state.history.doubts.iter_mut().rev().find(its) {
            doubt.over = now();
        }
        Ok(())
    }

    /// Kills the processes that have not ended, and returns their number.
    pub(crate) fn dismiss(&self, all_gone: &Receiver<()>, within: Duration) -> usize {
        // It never carries a message: this waits for its end.
        let _ = all_gone.recv_timeout(within);
        let kill = |process: &usize| {
            let mut client = self.client(*process);
            matches!(client.child.try_wait(), Ok(None)) && client.child.kill().is_ok()
        };
        (0..self.len()).filter(kill).count()
    }

    fn keep(&self, gone: Receiver<Incarnation>, _alive: Sender<()>) {
        let mut ended = 0;
        for (process, incarnation) in gone {
            let mut client = self.client(process);
            let status = client.child.wait();
            // One of them may have reported the process's end.
            self.recorder.wait_for_all_of((process, incarnation));
            let mut state = self.recorder.state();
            let expected = match status {
                Ok(status) if state.finishing => status.success(),
                _ => state.history.deaths.contains_key(&(process, incarnation)),
            };
            if !expected {
                let text = format!("process p{process}.{incarnation} ended by itself: {status:?}");
                state.history.unexpected.push(text);
                state.history.died((process, incarnation), now());
            }
            if state.finishing {
                ended += 1;
                if ended == self.len() {
                    return;
                }
                continue;
            }
            drop(state);
            match self.launch.start(process, incarnation + 1) {
                Ok(successor) => *client = successor,
                Err(error) => {
                    let text = format!("process p{process} cannot be started again: {error}");
                    self.recorder.state().history.unexpected.push(text);
                }
            }
        }
    }

    fn client(&self, process: usize) -> MutexGuard<'_, ClientProcess> {
        let client = self.all[process].lock();
        client.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Launch {
    fn start(&self, process: usize, incarnation: u32) -> io::Result<ClientProcess> {
        let mut program = Program::new(env::current_exe()?);
        program.args(["client", "--process", &process.to_string()]);
        program.args(["--incarnation", &incarnation.to_string()]);
        program.args(["--threads", &self.threads.to_string()]);
        program.args(["--seed", &self.seed.to_string()]);
        program.args(["--connect", &self.connect[process]]);
        program.arg("--folder").arg(&self.folder);
        program.args(["--kinds", &self.kinds.names()]);
        // The coordinator gets the terminal's interrupt, and ends the others with itself.
        program.process_group(0);
        program.stdin(Stdio::piped());
        let mut child = program.spawn()?;
        let input = child.stdin.take();
        let input = input.ok_or_else(|| io::Error::other("a pipe is missing"))?;
        Ok(ClientProcess { incarnation, child, input })
    }
}
