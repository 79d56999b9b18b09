//! A lock object half way between its two levels, for calls that take or release several at once.

use std::sync::Arc;

use super::site::Site;
use crate::error::Result;
use crate::inner::{Claim, Grant};
use crate::observer::Call;
use crate::wait::{Until, Wait};

/// A call that has the first level of a lock object, and is on its way to the second.
pub(crate) struct Begun<'a> {
    pub(super) site: &'a Site,
    pub(super) claim: Claim,
    pub(super) until: Until,
    pub(super) call: Option<Call>,
}

/// Keeps both levels. If it is dropped, the first goes to the next thread.
pub(crate) type Keep<'a> = Box<dyn FnOnce(Arc<Grant>) + 'a>;

/// A lock object that was unlocked, except for its nodes.
pub(crate) enum Unlocked<'a> {
    /// There are none to delete.
    Done(Result<()>),
    /// The last hold. The first level goes to the next thread when the other is dropped.
    Last(Arc<Grant>, Keep<'a>),
}

impl<'a> Begun<'a> {
    pub(super) fn new(site: &'a Site, claim: Claim, wait: Wait, object: u64) -> Begun<'a> {
        let until = site.inner().until(object, wait);
        let call = site.begin_call(claim.kind, until.is_some());
        let until = until.unwrap_or_else(|| Until::within(site.requests().patience()));
        Begun { site, call, claim, until }
    }
}
