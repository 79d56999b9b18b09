//! The frames of a client by the steps of the script.

use super::relay::{Frame, Relay};

/// A step of the script, and the frames of both sides during it.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) frames: Vec<Frame>,
}

/// Collects the steps of one client.
#[derive(Debug)]
pub(crate) struct Recorder {
    relay: Relay,
    steps: Vec<Step>,
}

impl Recorder {
    pub(crate) fn new(relay: Relay) -> Recorder {
        Recorder { relay, steps: Vec::new() }
    }

    pub(crate) fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Ends a step, which gets all frames since the last one.
    pub(crate) fn done(&mut self, name: &str) {
        let frames = self.relay.take();
        let name = name.to_owned();
        self.steps.push(Step { name, frames });
    }

    pub(crate) fn finish(self) -> Vec<Step> {
        self.steps
    }
}
