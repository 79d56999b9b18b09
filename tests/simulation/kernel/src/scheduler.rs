//! Decides which thread runs, and when. A single loop on the real thread runs all threads.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use fastrand::Rng;

use crate::machine::{Fate, Machine, Process, process};
use crate::net::Sockets;
use crate::trace::Trace;

/// The size of stacks. Debug builds have large stack frames, and pages that are never touched use no memory.
const STACK: usize = 512 * 1024;
/// On average, a thread gives way at one in this many locks, receives and reads.
const PREEMPTED: u32 = 8;
/// The longest time that a thread takes between two waits, in nanoseconds.
const STEP: u64 = 20_000;

/// On a busy machine, a thread is on average late in one of `DELAYED` cases, by at most `DELAY` nanoseconds.
const DELAYED: u32 = 64;
const DELAY: u64 = 4_000_000;

type Fiber = Coroutine<(), (), (), DefaultStack>;
/// An action that runs at a given time, and not on any thread.
type Happening = Box<dyn FnOnce()>;

#[derive(Clone, Copy)]
enum State {
    Ready,
    Waits { what: &'static str, deadline: Option<u64>, ready: Option<*const dyn Fn() -> bool> },
}

pub(crate) struct Task {
    fiber: Option<Fiber>,
    yielder: *const Yielder<(), ()>,
    state: State,
    /// The thread does not run before this time, even if its wait is over.
    stands_until: u64,
    /// Whether the last wait ended because its condition was met, and not because of its deadline.
    is_met: bool,
    pub(crate) name: Arc<str>,
    pub(crate) process: Process,
    pub(crate) has_token: bool,
    pub(crate) never_waits: bool,
    pub(crate) panic: Option<Box<dyn Any + Send>>,
    /// The mutexes that the thread holds: their addresses, and where they were locked.
    held: Vec<(usize, &'static Location<'static>)>,
}

/// The state of one run.
#[derive(Default)]
pub(crate) struct Kernel {
    pub(crate) now: u64,
    pub(crate) tasks: Vec<Task>,
    pub(crate) machines: Vec<Machine>,
    /// The threads that have not ended yet.
    live: Vec<usize>,
    pub(crate) current: Option<usize>,
    pub(crate) choices: Rng,
    /// Scheduled actions, by their time and a number that keeps them in order.
    happenings: BTreeMap<(u64, u64), Happening>,
    next: u64,
    has_stopped: bool,
    has_panicked: Vec<Arc<str>>,
    /// The process whose state [`peek`] is reading. While it is, no thread gives way.
    pub(crate) looks_at: Option<Process>,
    stacks: Vec<DefaultStack>,
    pub(crate) sockets: Sockets,
    pub(crate) trace: Trace,
    /// The factor by which the waits of fallback timers are multiplied.
    patience: u32,
    shortcuts: bool,
    nestings: BTreeSet<Nesting>,
}

/// What a thread did while it held a mutex: it locked another mutex, or it began to wait.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nesting {
    /// Where the outer mutex was locked.
    pub outer: &'static Location<'static>,
    /// Where the other mutex was locked, or what the thread waited for.
    pub inner: Result<&'static Location<'static>, &'static str>,
}

thread_local! {
    static KERNEL: RefCell<Option<Kernel>> = const { RefCell::new(None) };
    /// Stacks of earlier runs, to be reused.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Accesses the kernel. `act` must not access it again or give way.
pub(crate) fn with<T>(act: impl FnOnce(&mut Kernel) -> T) -> T {
    KERNEL.with_borrow_mut(|kernel| act(kernel.as_mut().expect("a simulation runs")))
}

/// Returns whether a simulation runs on this real thread.
pub fn is_running() -> bool {
    KERNEL.with_borrow(|kernel| kernel.is_some())
}

/// Runs a simulation until all threads have ended. `main` is its first thread, in its own process. `finish` may inspect
/// the world after that. It receives an error that lists all waits if no thread could continue, or if the run took too
/// many steps.
pub fn run<T>(
    seed: u64,
    is_traced: bool,
    most_steps: u64,
    main: impl FnOnce() + 'static,
    finish: impl FnOnce(Result<(), String>) -> T,
) -> T {
    let mut choices = Rng::with_seed(seed);
    let kernel = Kernel {
        stacks: STACKS.take(),
        patience: 1,
        shortcuts: true,
        trace: Trace::new(is_traced),
        choices: choices.fork(),
        ..Kernel::default()
    };
    let before = KERNEL.replace(Some(kernel));
    assert!(before.is_none(), "one simulation at a time");
    let world = process();
    start(world, "world", main);
    let end = go(most_steps);
    let finished = finish(end);
    let mut kernel = KERNEL.take().expect("it is the one from above");
    for task in &mut kernel.tasks {
        if let Some(mut fiber) = task.fiber.take()
            && fiber.started()
        {
            // The values on the coroutine's stack are leaked, as in a program that is killed.
            // SAFETY: nothing refers to values on its stack. No task runs any more, and the conditions of waiting
            unsafe { fiber.force_reset() };
            kernel.stacks.push(fiber.into_stack());
        }
    }
    STACKS.set(std::mem::take(&mut kernel.stacks));
    finished
}

fn go(most_steps: u64) -> Result<(), String> {
    for _ in 0..most_steps {
        if with(|kernel| kernel.has_stopped) {
            return Ok(());
        }
        while let Some(happening) = with(Kernel::due) {
            happening();
        }
        let next = choose();
        match next {
            Some(task) if with(|kernel| kernel.has_to_wait(task)) => {}
            Some(task) => resume(task),
            None => match with(Kernel::jump) {
                true => {}
                false if with(|kernel| kernel.is_all_done()) => return Ok(()),
                false => return Err(format!("all wait: {}", with(Kernel::who_waits))),
            },
        }
    }
    Err(format!("no end: {}", with(Kernel::who_waits)))
}

fn choose() -> Option<usize> {
    let (count, first) = with(|kernel| {
        let count = kernel.live.len();
        (count, if count == 0 { 0 } else { kernel.choices.usize(..count) })
    });
    for offset in 0..count {
        let (task, ready) = with(|kernel| {
            let task = kernel.live[(first + offset) % count];
            (task, kernel.is_due(task))
        });
        match ready {
            Due::Now => return Some(task),
            Due::Never => {}
            Due::If(ready) => {
                // SAFETY: the condition is on the stack of the task that waits for it, and this task does not run.
                if unsafe { (*ready)() } {
                    with(|kernel| kernel.tasks[task].is_met = true);
                    return Some(task);
                }
            }
        }
    }
    None
}

enum Due {
    Now,
    Never,
    If(*const dyn Fn() -> bool),
}

fn resume(task: usize) {
    let mut fiber = with(|kernel| {
        kernel.now += kernel.choices.u64(..STEP);
        kernel.current = Some(task);
        let now = kernel.now;
        kernel.trace.mix(now ^ (task as u64) << 48);
        let task = &mut kernel.tasks[task];
        task.state = State::Ready;
        task.fiber.take().expect("a task that is ready has one")
    });
    let result = fiber.resume(());
    with(|kernel| {
        kernel.current = None;
        match result {
            CoroutineResult::Yield(()) => kernel.tasks[task].fiber = Some(fiber),
            CoroutineResult::Return(()) => {
                kernel.live.retain(|&one| one != task);
                kernel.stacks.push(fiber.into_stack());
            }
        }
    });
}

impl Kernel {
    /// Returns the running thread, but none while [`peek`] reads the state of a process.
    pub(crate) fn running(&self) -> Option<usize> {
        self.current.filter(|_| self.looks_at.is_none())
    }

    /// Records which mutex a thread locks, or what it waits for, while it holds another mutex.
    fn nests(&mut self, task: usize, inner: Result<&'static Location<'static>, &'static str>) {
        let held = self.tasks[task].held.iter();
        self.nestings.extend(held.map(|(_, outer)| Nesting { outer, inner }));
    }

    /// Returns whether the thread is delayed because its machine is busy, although it could run.
    fn has_to_wait(&mut self, task: usize) -> bool {
        let is_busy = self.machines[self.tasks[task].process.0].is_busy;
        let waits = is_busy && self.choices.u32(..DELAYED) == 0;
        if waits {
            self.tasks[task].stands_until = self.now + self.choices.u64(..DELAY);
        }
        waits
    }

    fn due(&mut self) -> Option<Happening> {
        let first = self.happenings.first_entry()?;
        (first.key().0 <= self.now).then(|| first.remove())
    }

    fn is_due(&mut self, task: usize) -> Due {
        let now = self.now;
        let Task { state, process, stands_until, .. } = &self.tasks[task];
        if *stands_until > now {
            return Due::Never;
        }
        match self.machines[process.0].fate {
            Fate::Dead => return Due::Never,
            Fate::Frozen(until) if until > now => return Due::Never,
            Fate::Frozen(_) => self.machines[process.0].fate = Fate::Runs,
            Fate::Runs => {}
        }
        let asleep = self.machines[process.0].asleep;
        match *state {
            State::Ready => Due::Now,
            State::Waits { deadline: Some(deadline), .. } if deadline + asleep <= now => {
                self.tasks[task].is_met = false;
                Due::Now
            }
            State::Waits { ready: Some(ready), .. } => Due::If(ready),
            State::Waits { ready: None, .. } => Due::Never,
        }
    }

    /// Advances the clock to the next event. Returns false if there is none.
    fn jump(&mut self) -> bool {
        let mut first = self.happenings.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
        for &task in &self.live {
            let Task { state, process, stands_until, .. } = &self.tasks[task];
            let machine = &self.machines[process.0];
            let thaws = match machine.fate {
                Fate::Dead => continue,
                Fate::Frozen(until) => until.max(*stands_until),
                Fate::Runs => *stands_until,
            };
            let due = match *state {
                // If the wait is over by then, the thread can run at that time.
                _ if thaws > self.now => thaws,
                State::Waits { deadline: Some(deadline), .. } => deadline + machine.asleep,
                _ => continue,
            };
            first = first.min(due);
        }
        self.now = self.now.max(first.min(u64::MAX - 1));
        first < u64::MAX
    }

    fn is_all_done(&self) -> bool {
        let is_dead = |task: &usize| self.machines[self.tasks[*task].process.0].fate == Fate::Dead;
        self.live.iter().all(is_dead)
    }

    fn who_waits(&mut self) -> String {
        let all = self.live.iter().map(|&task| {
            let Task { name, process, state, .. } = &self.tasks[task];
            let what = match state {
                State::Ready => "runs".to_owned(),
                State::Waits { what, deadline: None, .. } => format!("waits in {what}"),
                State::Waits { what, deadline: Some(at), .. } => {
                    format!("waits in {what} until {:?}", Duration::from_nanos(*at))
                }
            };
            format!("process {}, {name}: {what}", process.0)
        });
        all.collect::<Vec<_>>().join("; ")
    }
}

// ---- called by threads

pub(crate) fn start(process: Process, name: &str, body: impl FnOnce() + 'static) -> usize {
    let stack = with(|kernel| kernel.stacks.pop());
    let stack = stack.unwrap_or_else(|| DefaultStack::new(STACK).expect("memory for a stack"));
    let number = with(|kernel| kernel.tasks.len());
    let fiber = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
        with(|kernel| kernel.tasks[number].yielder = yielder);
        let panicked = catch_unwind(AssertUnwindSafe(body));
        if let Err(payload) = panicked {
            with(|kernel| {
                kernel.has_panicked.push(Arc::clone(&kernel.tasks[number].name));
                kernel.tasks[number].panic = Some(payload);
            });
        }
    });
    with(|kernel| {
        kernel.tasks.push(Task {
            fiber: Some(fiber),
            yielder: std::ptr::null(),
            state: State::Ready,
            stands_until: 0,
            is_met: false,
            name: name.into(),
            process,
            has_token: false,
            never_waits: false,
            panic: None,
            held: Vec::new(),
        });
        kernel.live.push(number);
    });
    number
}

pub(crate) const MUTEX: &str = "a mutex";

/// Waits until `ready` returns true, or until this instant on the process's own clock. Returns whether the condition
/// was met. No other thread runs between the check of the condition and the return.
pub fn block(what: &'static str, deadline: Option<u64>, ready: Option<&dyn Fn() -> bool>) -> bool {
    if with(|kernel| kernel.looks_at.is_some()) {
        // The panic hook must not be called, because this is not a bug.
        std::panic::resume_unwind(Box::new(InTheWay));
    }
    let yielder = with(|kernel| {
        let task = kernel.current.expect("only a thread of the simulation waits");
        let ready: Option<*const (dyn Fn() -> bool + '_)> = ready.map(|ready| ready as *const _);
        // SAFETY: the task does not return from here before it is resumed, and its state is `Ready` by that time.
        let ready: Option<*const (dyn Fn() -> bool + 'static)> =
            unsafe { std::mem::transmute(ready) };
        if what != MUTEX {
            kernel.nests(task, Err(what));
        }
        kernel.tasks[task].state = State::Waits { what, deadline, ready };
        kernel.tasks[task].yielder
    });
    // SAFETY: the yielder belongs to this coroutine, which runs.
    unsafe { (*yielder).suspend(()) };
    with(|kernel| kernel.tasks[kernel.current.expect("this one")].is_met)
}

pub(crate) fn will_lock(place: &'static Location<'static>) {
    with(|kernel| {
        if let Some(task) = kernel.running() {
            kernel.nests(task, Ok(place));
        }
    });
}

pub(crate) fn has_locked(address: usize, place: &'static Location<'static>) {
    with(|kernel| {
        if let Some(task) = kernel.running() {
            kernel.tasks[task].held.push((address, place));
        }
    });
}

pub(crate) fn has_unlocked(address: usize) {
    with(|kernel| {
        if let Some(task) = kernel.current {
            let held = &mut kernel.tasks[task].held;
            let at = held.iter().rposition(|(other, _)| *other == address);
            at.map(|at| held.remove(at));
        }
    });
}

/// Returns where the running thread locked this mutex. If `new` is set, the thread has locked the mutex again there.
pub(crate) fn taken_at(
    address: usize,
    new: Option<&'static Location<'static>>,
) -> Option<&'static Location<'static>> {
    with(|kernel| {
        let held = &mut kernel.tasks[kernel.current?].held;
        let (_, place) = held.iter_mut().find(|(other, _)| *other == address)?;
        let before = *place;
        *place = new.unwrap_or(before);
        Some(before)
    })
}

/// Returns which mutexes were locked, and which waits began, while a thread held another mutex.
pub fn nestings() -> Vec<Nesting> {
    with(|kernel| kernel.nestings.iter().cloned().collect())
}

/// Lets other threads run.
pub(crate) fn give_way() {
    let yielder = with(|kernel| kernel.current.map(|task| kernel.tasks[task].yielder));
    if let Some(yielder) = yielder {
        // SAFETY: as above.
        unsafe { (*yielder).suspend(()) };
    }
}

/// Lets other threads run in some cases.
pub(crate) fn may_give_way() {
    if with(|kernel| kernel.running().is_some() && kernel.choices.u32(..PREEMPTED) == 0) {
        give_way();
    }
}

pub(crate) fn has_ended(task: usize) -> bool {
    with(|kernel| !kernel.live.contains(&task))
}

/// Returns the process of the running thread, or, if no thread runs, the world's process.
pub fn own_process() -> Process {
    with(|kernel| {
        let running = kernel.current.map_or(Process(0), |task| kernel.tasks[task].process);
        kernel.looks_at.unwrap_or(running)
    })
}

/// The panic payload with which a wait within [`peek`] fails.
struct InTheWay;

/// Calls `look` with the clocks of this process, while no other thread runs. Returns `None` if `look` would have to
/// wait for a mutex.
pub fn peek<T>(process: Process, look: impl FnOnce() -> T) -> Option<T> {
    let before = with(|kernel| kernel.looks_at.replace(process));
    let seen = catch_unwind(AssertUnwindSafe(look));
    with(|kernel| kernel.looks_at = before);
    match seen {
        Ok(seen) => Some(seen),
        Err(payload) if payload.is::<InTheWay>() => None,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// Returns the names of the threads that have panicked.
pub fn panicked() -> Vec<Arc<str>> {
    with(|kernel| kernel.has_panicked.clone())
}

/// Returns the process and the name of the running thread.
pub fn whoami() -> (Process, Arc<str>) {
    with(|kernel| match kernel.current {
        Some(task) => (kernel.tasks[task].process, Arc::clone(&kernel.tasks[task].name)),
        None => (Process(0), "world".into()),
    })
}

// ---- called by the world

/// Schedules `happening` after this delay.
pub fn after(delay: Duration, happening: impl FnOnce() + 'static) {
    with(|kernel| {
        let at = kernel.now.saturating_add(delay.as_nanos() as u64);
        let number = kernel.next;
        kernel.next += 1;
        kernel.happenings.insert((at, number), Box::new(happening));
    });
}

/// Returns the true time since the run began.
pub fn elapsed() -> Duration {
    Duration::from_nanos(with(|kernel| kernel.now))
}

/// Multiplies the waits of fallback timers by `patience`, so that a run shows whether anything depends on these timers.
/// If `shortcuts` is false, the library lists the contenders before every grant.
pub fn configure(patience: u32, shortcuts: bool) {
    with(|kernel| (kernel.patience, kernel.shortcuts) = (patience, shortcuts));
}

/// Returns `times`, multiplied by the `patience` of [`configure`].
pub fn fallback(times: u32) -> u32 {
    times * with(|kernel| kernel.patience)
}

/// Returns whether the library may take shortcuts.
pub fn shortcuts() -> bool {
    with(|kernel| kernel.shortcuts)
}

/// Ends the run.
pub fn stop() {
    with(|kernel| kernel.has_stopped = true);
}

/// Pauses one of a process's threads for this time.
pub fn stall(process: Process, time: Duration) {
    with(|kernel| {
        let is_own = |task: &usize| kernel.tasks[*task].process == process;
        let own: Vec<usize> = kernel.live.iter().copied().filter(is_own).collect();
        if !own.is_empty() {
            let task = own[kernel.choices.usize(..own.len())];
            kernel.tasks[task].stands_until = kernel.now + time.as_nanos() as u64;
        }
    });
}

/// Returns the names of the threads of a process that have not ended.
pub fn tasks(process: Process) -> Vec<Arc<str>> {
    with(|kernel| {
        let own = kernel.live.iter().map(|&task| &kernel.tasks[task]);
        own.filter(|task| task.process == process).map(|task| Arc::clone(&task.name)).collect()
    })
}

/// Draws with the random numbers of the world.
pub fn with_random<T>(draw: impl FnOnce(&mut Rng) -> T) -> T {
    let mut random = with(|kernel| kernel.choices.fork());
    draw(&mut random)
}
