//! One client without threads and a server out of its mind, for one input.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::super::clock::Moment;
use super::super::connection::{Call, Credential, Effect, Share};
use super::super::frames::Frames;
use super::super::message::OpCode;
#[cfg(feature = "sasl")]
use super::super::sasl::User;
use super::super::session::{Core, Output};
use super::super::watches::{Listen, WatchKind};
use super::super::wire::Malformed;
use super::Rng;
use super::corpus::{self, EVENTS};
use super::mutate;
use super::texts::Tally;
use crate::acl::Acl;
use crate::batch::{Batch, Op, OpResult};
use crate::error::{Error, ErrorKind, Result};
use crate::names::Names;
use crate::pending::{Answered, Pending};
use crate::types::{CreateMode, Stat, State};
use crate::{EventType, Watcher};

const ROOT: &str = "/root";
const TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const LONGEST: usize = 4096;
/// What the frames may keep beside what came: the space for a read.
const SPACE: usize = 128 * 1024;

/// As many as most answers of the corpus are about.
const OPS: &[Op<'_>] = &[Op::Check("/m", None); 4];
const WATCHED: &[&str] = &["/persistent", "/missing"];

/// What is asked for, and how its answer is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Create,
    CreateContainer,
    CreateTtl,
    Delete,
    DeleteEventually,
    Exists,
    GetData,
    GetChildren,
    SetWatches,
    SetData,
    GetAcl,
    SetAcl,
    Sync,
    WhoAmI,
    Multi,
    Auth,
    Close,
}

impl Kind {
    const ALL: &[Kind] = &[
        Kind::Create,
        Kind::CreateContainer,
        Kind::CreateTtl,
        Kind::Delete,
        Kind::DeleteEventually,
        Kind::Exists,
        Kind::GetData,
        Kind::GetChildren,
        Kind::SetWatches,
        Kind::SetData,
        Kind::GetAcl,
        Kind::SetAcl,
        Kind::Sync,
        Kind::WhoAmI,
        Kind::Multi,
        Kind::Auth,
    ];
}

/// The requests as they are sent, made once.
pub(super) struct Asked {
    frames: Vec<(OpCode, Vec<u8>, Option<Share>)>,
}

impl Asked {
    pub(super) fn new() -> Asked {
        let (watcher, acl) = (Watcher::new(|_| {}), Acl::open());
        let watcher = Some(&watcher);
        let ask = |kind: &Kind| {
            let mut batch = batch();
            let create =
                |batch: &mut Batch<'_>, mode| drop(batch.create("/new", b"data", &acl, mode));
            match kind {
                Kind::Create => {
                    let mode = CreateMode::Persistent;
                    drop(batch.shared_create("/new", b"data", &acl, mode));
                }
                Kind::CreateContainer => create(&mut batch, CreateMode::Container),
                Kind::CreateTtl => create(&mut batch, CreateMode::PersistentWithTtl(TIMEOUT)),
                Kind::Delete => drop(batch.shared_delete("/below")),
                Kind::DeleteEventually => drop(batch.delete_eventually("/below")),
                Kind::Exists => drop(batch.exists("/missing", watcher)),
                Kind::GetData => drop(batch.get_data("/persistent", watcher)),
                Kind::GetChildren => drop(batch.get_children("/", watcher)),
                Kind::SetWatches => drop(batch.set_watches(0, WATCHED, &Watcher::new(|_| {}))),
                Kind::SetData => drop(batch.set_data("/persistent", b"", None)),
                Kind::GetAcl => drop(batch.get_acl("/persistent")),
                Kind::SetAcl => drop(batch.set_acl("/persistent", &acl, None)),
                Kind::Sync => drop(batch.sync("/")),
                Kind::WhoAmI => drop(batch.who_am_i()),
                Kind::Multi => drop(batch.shared_multi(OPS)),
                Kind::Auth | Kind::Close => drop(batch.auth("digest", b"user:secret")),
            }
            let call = batch.calls.pop().expect("a request");
            (call.code, call.frame, call.share)
        };
        Asked { frames: Kind::ALL.iter().map(ask).collect() }
    }
}

fn batch() -> Batch<'static> {
    Batch { root: ROOT, timeout: TIMEOUT, session: None, calls: Vec::new() }
}

/// Somebody who listens, unless the number is 0.
#[derive(Debug, Clone, Copy)]
struct Ear(u8);

impl Listen for Ear {
    fn is_live(&self) -> bool {
        self.0 != 0
    }

    fn id(&self) -> usize {
        self.0.into()
    }
}

/// Prints what has come if it leads to a panic.
struct Input {
    seed: u64,
    /// By connection.
    come: Vec<Vec<u8>>,
}

impl Drop for Input {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("ZOOLOCK_FUZZ_SEED={} ZOOLOCK_FUZZ_INPUTS=1", self.seed);
            for (index, bytes) in self.come.iter().enumerate() {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                println!("connection {}: {hex}", index + 1);
            }
        }
    }
}

struct World<'a> {
    asked: &'a Asked,
    core: Core<usize, Ear>,
    frames: Frames,
    /// The bytes of the frames that this connection brought.
    taken: usize,
    now: Moment,
    rng: Rng,
    input: Input,
    /// What was asked for, and how often it was answered.
    told: Vec<(Kind, u32)>,
    watches: usize,
    heard: usize,
    tally: &'a mut Tally,
}

/// Why a connection is over.
type Ended = String;

/// `spare` has nothing in it, and its buffer need not be made again.
pub(super) fn run(asked: &Asked, seed: u64, tally: &mut Tally, spare: &mut Frames) {
    let now = Moment::now();
    let mut world = World {
        asked,
        core: Core::new(TIMEOUT, now),
        frames: std::mem::replace(spare, Frames::new(LONGEST)),
        taken: 0,
        now,
        rng: Rng::new(seed),
        input: Input { seed, come: Vec::new() },
        told: Vec::new(),
        watches: 0,
        heard: 0,
        tally,
    };
    #[cfg(feature = "sasl")]
    if world.rng.one_in(3) {
        world.core.be(Some(User::new("user", "secret", || 4)));
    }
    let connections = 1 + world.rng.below(3);
    for index in 0..connections {
        if world.rng.one_in(8) {
            world.ask();
        }
        if world.core.session_id() != 0 && world.rng.one_in(6) {
            world.be_refused();
        }
        let is_last = index + 1 == connections;
        let reason = world.connection(is_last).err();
        world.ask_too_late();
        world.broke(reason.as_deref().unwrap_or("cut"));
    }
    world.end();
    world.renew_frames();
    std::mem::swap(spare, &mut world.frames);
}

impl World<'_> {
    /// The life of a connection. Most first ones are sound, so that there is something to resume.
    fn connection(&mut self, is_last: bool) -> Result<(), Ended> {
        self.renew_frames();
        self.input.come.push(Vec::new());
        self.core.dialed(true, self.now);
        self.core.out().clear();
        let greeting = match self.rng.below(24) {
            0 => "connect before 3.4",
            1 => "connect expired",
            2 => "connect read-only",
            _ => "connect",
        };
        let greeting = vec![corpus::frame(greeting).to_vec()];
        let is_sound = !self.rng.one_in(if is_last { 2 } else { 6 });
        self.say(greeting, is_sound)?;
        #[cfg(feature = "sasl")]
        for _ in 0..2 {
            let answers = self.answers();
            let is_sound = !self.rng.one_in(6);
            self.say(answers, is_sound)?;
        }
        self.wait(Duration::from_millis(20))?;
        for _ in 0..1 + self.rng.below(2) {
            self.ask();
            if self.rng.one_in(3) {
                // Long enough for heartbeats, and sometimes for deadlines and silence.
                let longest = self.rng.pick(&[10, 9000, 9000, 30_000]);
                self.wait(Duration::from_millis(longest))?;
            }
            let mut answers = self.answers();
            if self.rng.one_in(2) {
                let event = corpus::frame(self.rng.pick(EVENTS)).to_vec();
                answers.insert(self.rng.below(answers.len() + 1), event);
            }
            let is_sound = !is_last && !self.rng.one_in(4);
            self.say(answers, is_sound)?;
        }
        Ok(())
    }

    /// New ones, unless these can be emptied: to make a buffer takes longer than all the rest.
    fn renew_frames(&mut self) {
        while let Ok(Some(frame)) = self.frames.next() {
            self.taken += 4 + frame.len();
        }
        if self.input.come.last().is_some_and(|come| come.len() != self.taken) {
            self.frames = Frames::new(LONGEST);
        }
        self.taken = 0;
    }

    /// Servers that hang up when they are asked to resume, until one is asked whether there is
    /// anything to resume.
    fn be_refused(&mut self) {
        for _ in 0..6 {
            self.core.dialed(true, self.now);
            self.broke("cut");
        }
        self.now.monotonic += TIMEOUT * 2;
    }

    /// Some requests of all kinds.
    fn ask(&mut self) {
        match self.rng.below(8) {
            0 => self.core.keep_lease(self.now),
            1 => self.core.release_lease(),
            _ => {}
        }
        let mut calls = Vec::new();
        for _ in 0..self.rng.below(10) {
            let slot = self.told.len();
            let kind = self.rng.pick(Kind::ALL);
            self.told.push((kind, 0));
            let (code, frame, share) = self.asked.frames[kind as usize].clone();
            let ear = Ear(self.rng.below(4) as u8);
            let effect = match kind {
                Kind::Exists => Effect::Watch(WatchKind::Data, format!("{ROOT}/missing"), ear),
                Kind::GetData => Effect::Watch(WatchKind::Data, format!("{ROOT}/persistent"), ear),
                Kind::GetChildren => Effect::Watch(WatchKind::Child, ROOT.into(), ear),
                Kind::SetWatches => {
                    let full = |path: &&str| format!("{ROOT}{path}");
                    Effect::WatchEach(WATCHED.iter().map(full).collect(), ear)
                }
                Kind::Auth => Effect::Remember(Credential {
                    scheme: "digest".into(),
                    secret: b"user:secret".to_vec(),
                }),
                _ => Effect::None,
            };
            self.watches += match &effect {
                Effect::Watch(..) => 1,
                Effect::WatchEach(paths, _) => paths.len(),
                _ => 0,
            };
            let repeat = kind == Kind::DeleteEventually;
            let limit = Duration::from_millis(1 + self.rng.below(20_000) as u64);
            let has_deadline = !repeat && self.rng.one_in(2);
            let session = self.rng.one_in(16).then(|| self.core.session_id());
            let call = Call {
                frame,
                code,
                slot: Some(slot),
                effect,
                deadline: has_deadline.then(|| self.now.monotonic + limit),
                repeat,
                was_sent: false,
                session,
                share,
                parts: Vec::new(),
            };
            calls.push(call);
            if self.rng.one_in(2) {
                self.core.submit(calls.drain(..), self.now);
            }
        }
        self.core.submit(calls, self.now);
        if self.rng.one_in(20) {
            let slot = self.rng.one_in(2).then_some(self.told.len());
            self.told.extend(slot.map(|_| (Kind::Close, 0)));
            let deadline = self.now.monotonic + TIMEOUT / 3;
            self.core.close(slot, deadline, self.now);
        }
        self.tell();
    }

    /// Nothing more is sent on a connection that has to end.
    fn ask_too_late(&mut self) {
        let before = self.core.out().len();
        if self.core.is_doomed() && self.rng.one_in(4) {
            self.ask();
            let now = self.core.out().len();
            assert!(now <= before, "{} bytes more to be sent", now - before);
        }
    }

    /// What a sound server would say to what was sent to it.
    fn answers(&mut self) -> Vec<Vec<u8>> {
        let sent = std::mem::take(self.core.out());
        let (mut rest, mut answers) = (&sent[..], Vec::new());
        while let Some((length, more)) = rest.split_first_chunk() {
            let length = u32::from_be_bytes(*length) as usize;
            let (request, more) = more.split_at(length);
            let number = |at: usize| {
                let bytes = request[at..at + 4].try_into();
                i32::from_be_bytes(bytes.expect("four bytes"))
            };
            let known = corpus::answers(number(4));
            #[cfg(feature = "sasl")]
            let known = match number(4) == OpCode::Sasl as i32 && number(8) > 0 {
                true => corpus::PROOFS,
                false => known,
            };
            let answer = self.rng.pick(known);
            let mut answer = corpus::frame(answer).to_vec();
            answer[..4].copy_from_slice(&request[..4]);
            answers.push(answer);
            rest = more;
        }
        assert!(rest.is_empty(), "{} bytes of no frame were sent", rest.len());
        answers
    }

    fn say(&mut self, frames: Vec<Vec<u8>>, is_sound: bool) -> Result<(), Ended> {
        let bytes = match is_sound {
            true => mutate::framed(&frames),
            false => mutate::stream(frames, &mut self.rng),
        };
        let come = self.input.come.last_mut().expect("there is a connection");
        come.extend_from_slice(&bytes);
        // A byte at a time takes its time.
        let most = match self.rng.below(24) {
            0 => self.rng.pick(&[1, 3, 16]),
            1..8 => 100,
            _ => usize::MAX,
        };
        self.hear(&bytes, most)
    }

    /// As the reader does, with so many bytes at a time at the most.
    fn hear(&mut self, mut bytes: &[u8], most: usize) -> Result<(), Ended> {
        let come: usize = self.input.come.iter().map(Vec::len).sum();
        while !bytes.is_empty() {
            let space = self.frames.space();
            assert!(
                (1..=SPACE + 2 * come).contains(&space.len()),
                "space for {} bytes where {come} have come",
                space.len()
            );
            let count = bytes.len().min(space.len()).min(most);
            space[..count].copy_from_slice(&bytes[..count]);
            self.frames.filled(count);
            bytes = &bytes[count..];
            loop {
                let frame = self.frames.next().map_err(|problem| problem.to_string())?;
                let Some(frame) = frame else { break };
                assert!(frame.len() <= LONGEST.min(come), "{} bytes", frame.len());
                self.taken += 4 + frame.len();
                let frame = frame.to_vec();
                self.take(&frame).map_err(|problem| problem.0)?;
                if self.core.is_doomed() {
                    return Err("it was given up".into());
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, frame: &[u8]) -> Result<(), Malformed> {
        let was_open = self.core.is_open();
        let answers = self.core.receive(frame, self.now)?;
        self.tell();
        for answer in answers {
            assert!(was_open, "an answer before the handshake");
            let answered = self.answer(answer.slot, answer.code, &frame[answer.body]);
            if let Err(malformed) = answered {
                self.core.doom(&format!("bad answer: {malformed}"));
            }
        }
        Ok(())
    }

    /// Time passes, at most so much.
    fn wait(&mut self, longest: Duration) -> Result<(), Ended> {
        let passed = Duration::from_micros(self.rng.below(longest.as_micros() as usize) as u64);
        self.now.monotonic += passed;
        self.now.system += passed;
        self.tick();
        match self.core.is_doomed() {
            true => Err("it was given up".into()),
            false => Ok(()),
        }
    }

    fn tick(&mut self) {
        let next = self.core.tick(self.now);
        self.tell();
        let sleeps = self.core.is_over() || next > self.now.monotonic;
        assert!(sleeps, "the timer would not sleep");
    }

    fn broke(&mut self, reason: &str) {
        let is_over = self.core.is_over();
        let reason = self.core.broke(reason, self.now);
        if !is_over {
            self.tally.ended(&reason);
        }
        self.tell();
        assert!(is_over || self.core.out().is_empty(), "something is to be sent still");
        assert!(!self.core.is_open());
        // Nothing that comes late belongs to anything.
        let late = self.core.receive(corpus::frame("get data"), self.now);
        assert!(matches!(&late, Ok(late) if late.is_empty()), "{late:?}");
        // All that is not for the next connection has been told.
        for (kind, told) in &self.told {
            let waits = *kind == Kind::DeleteEventually || !self.core.is_over();
            assert!(*told <= 1 && (*told == 1 || waits), "{kind:?}: {told}");
        }
    }

    /// Closes the client; then everybody has been told, once.
    fn end(&mut self) {
        // Whoever waits for a connection has a deadline, or the end.
        self.now.monotonic += TIMEOUT;
        self.tick();
        self.core.end();
        self.tell();
        assert_eq!(self.core.state(), State::Closed);
        for (slot, (kind, told)) in self.told.iter().enumerate() {
            assert_eq!(*told, 1, "{kind:?}, call {slot}: how often it was answered");
        }
        assert!(self.heard <= self.watches, "{} events for {} watches", self.heard, self.watches);
        let slot = self.told.len();
        self.told.push((Kind::Delete, 0));
        let (code, frame, _) = self.asked.frames[Kind::Delete as usize].clone();
        let call = Call {
            frame,
            code,
            slot: Some(slot),
            effect: Effect::None,
            deadline: None,
            repeat: false,
            was_sent: false,
            session: None,
            share: None,
            parts: Vec::new(),
        };
        self.core.submit([call], self.now);
        self.tell();
        assert_eq!(self.told[slot].1, 1, "a call after the end");
    }

    /// Tells what the core has to tell.
    fn tell(&mut self) {
        for output in self.core.outputs() {
            match output {
                Output::Answer(slot, result) => {
                    let ends = [Kind::Auth, Kind::Close].contains(&self.told[slot].0);
                    assert!(result.is_err() || ends, "done, without an answer");
                    self.settle(slot, result);
                }
                Output::Watched(listeners, event, path) => {
                    let is_known = path.starts_with(ROOT);
                    assert!(is_known, "nobody watched {path:?}");
                    assert!(!listeners.is_empty(), "{event:?} for nobody");
                    let ended = u64::from(event == EventType::WatchEnded);
                    self.tally.events += 1 - ended;
                    self.heard += listeners.len();
                }
                Output::Session(_) => {}
            }
        }
    }

    fn settle(&mut self, slot: usize, result: Result<()>) {
        let told = &mut self.told[slot];
        told.1 += 1;
        assert_eq!(told.1, 1, "{:?} is answered twice", told.0);
        // It goes where the answer would have gone.
        let mut batch = batch();
        let pending = batch.auth("digest", b"user:secret");
        let expected = result.as_ref().err().map(Error::kind);
        slot_of(&mut batch).settle(result.clone());
        assert!(pending.is_done());
        assert_eq!(pending.wait().err().as_ref().map(Error::kind), expected);
    }

    fn answer(&mut self, slot: usize, code: i32, body: &[u8]) -> Result<(), Malformed> {
        let told = &mut self.told[slot];
        told.1 += 1;
        assert_eq!(told.1, 1, "{:?} is answered twice", told.0);
        self.tally.answers += 1;
        let answer = Came { code, body };
        let acl = Acl::open();
        let stat = |_: &Stat| 68;
        let create = |mode| {
            let size = |(path, _): &(String, Stat)| path.len() + 4 + 68;
            answer.decode(|batch| batch.create("/new", b"data", &acl, mode), size)
        };
        match told.0 {
            Kind::Create => {
                // In a shared transaction without a stat.
                let size = |(path, _): &(String, i64)| path.len() + 4;
                let mode = CreateMode::Persistent;
                answer.decode(|batch| batch.shared_create("/new", b"data", &acl, mode), size)
            }
            Kind::CreateContainer => create(CreateMode::Container),
            Kind::CreateTtl => create(CreateMode::PersistentWithTtl(TIMEOUT)),
            Kind::Delete => answer.decode(|batch| batch.delete("/below", None), |()| 0),
            Kind::DeleteEventually => {
                answer.decode(|batch| batch.delete_eventually("/below"), |()| 0)
            }
            Kind::Exists => {
                let size = |stat: &Option<Stat>| stat.map_or(0, |_| 68);
                answer.decode(|batch| batch.exists("/missing", None), size)
            }
            Kind::GetData => {
                let size = |(data, _): &(Vec<u8>, Stat)| data.capacity() + 4 + 68;
                answer.decode(|batch| batch.get_data("/persistent", None), size)
            }
            Kind::GetChildren => {
                // Its text has room for the stat, too.
                let size = |(names, _): &(Names, Stat)| {
                    let (count, bytes) = names.capacity();
                    bytes + 4 * count + 4
                };
                answer.decode(|batch| batch.get_children("/", None), size)
            }
            Kind::SetWatches => {
                let watcher = Watcher::new(|_| {});
                answer.decode(|batch| batch.set_watches(0, WATCHED, &watcher), |()| 0)
            }
            Kind::SetData => answer.decode(|batch| batch.set_data("/persistent", b"", None), stat),
            Kind::GetAcl => {
                // What is not UTF-8 may become three times as long.
                let size = |(acl, _): &(Vec<Acl>, Stat)| {
                    let texts = acl.iter().map(|acl| acl.scheme.len() + acl.id.len());
                    texts.sum::<usize>() / 3 + 12 * acl.capacity() + 4 + 68
                };
                answer.decode(|batch| batch.get_acl("/persistent"), size)
            }
            Kind::SetAcl => answer.decode(|batch| batch.set_acl("/persistent", &acl, None), stat),
            Kind::Sync => answer.decode(|batch| batch.sync("/"), |()| 4),
            Kind::WhoAmI => {
                let size = |all: &Vec<(String, String)>| {
                    let texts = all.iter().map(|(scheme, user)| scheme.len() + user.len());
                    texts.sum::<usize>() / 3 + 8 * all.capacity() + 4
                };
                answer.decode(|batch| batch.who_am_i(), size)
            }
            Kind::Multi => {
                // In a shared transaction without an end of its own.
                let size = |results: &Vec<OpResult>| 9 * results.len();
                answer.decode(|batch| batch.multi(OPS), size)
            }
            Kind::Auth | Kind::Close => panic!("the answer to {:?} has no body", told.0),
        }
    }
}

/// Where the answer to the one request goes.
fn slot_of(batch: &mut Batch<'_>) -> Arc<dyn Answered> {
    let call = batch.calls.pop().expect("a request");
    call.slot.expect("somebody waits")
}

/// An answer.
struct Came<'a> {
    code: i32,
    body: &'a [u8],
}

impl Came<'_> {
    /// Gives it to whoever waits. `size` is the least that the server must have sent for a value.
    fn decode<T: Send + 'static>(
        &self,
        request: impl FnOnce(&mut Batch<'_>) -> Pending<T>,
        size: impl Fn(&T) -> usize,
    ) -> Result<(), Malformed> {
        let mut batch = batch();
        let pending = request(&mut batch);
        let slot = slot_of(&mut batch);
        let decoded = slot.answer(self.code, 0, self.body);
        assert_eq!(pending.is_done(), decoded.is_ok(), "{decoded:?}");
        if let Err(malformed) = &decoded {
            slot.settle(Err(Error::because(ErrorKind::ConnectionLoss, malformed.0.as_str())));
        }
        match pending.wait() {
            Ok(value) => {
                assert!(decoded.is_ok(), "{decoded:?}, and a value");
                let (size, came) = (size(&value), self.body.len());
                let no_node = ErrorKind::of_code(self.code) == ErrorKind::NoNode;
                assert!(size <= came || no_node, "{size} bytes, {came} came");
            }
            Err(error) => {
                let lost = error.kind() == ErrorKind::ConnectionLoss;
                assert_eq!(lost, decoded.is_err(), "{error}");
            }
        }
        decoded
    }
}
