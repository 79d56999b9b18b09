//! A cut at every place: before a request leaves, within it, before its answer, within that.

use zoolock_test_support::{Rule, RuleBuilder, Then};
use zoolock_zookeeper::{ErrorKind, SessionEventKind};

use crate::util::{CALLS, SESSION, Stage, make_ephemeral, prepare};

type Cut = fn(RuleBuilder<'_>) -> Rule;

/// Where it is cut, and whether the server has got the request then.
const PLACES: [(&str, Cut, bool); 8] = [
    ("before the request", |rule| rule.drop_request(Then::Cut), false),
    ("within the length of the request", |rule| rule.tear_request(2), false),
    ("within the request", |rule| rule.tear_request(13), false),
    ("before the answer", |rule| rule.drop_answer(Then::Cut), true),
    ("within the length of the answer", |rule| rule.tear_answer(3), true),
    ("behind the length of the answer", |rule| rule.tear_answer(4), true),
    ("within the header of the answer", |rule| rule.tear_answer(11), true),
    ("before the last byte of the header of the answer", |rule| rule.tear_answer(19), true),
];

#[test]
fn a_call_that_is_cut_anywhere_says_so_and_the_session_goes_on() {
    let stage = Stage::new("everywhere", SESSION);
    let (id, probe) = (stage.client.session_id(), stage.probe());
    let ephemeral = make_ephemeral(&stage.client, &stage.path("ephemeral"));
    for call in &CALLS {
        for (number, (place, cut, has_request)) in PLACES.into_iter().enumerate() {
            let path = stage.path(&format!("{}-{number}", call.name));
            prepare(&probe, &path);
            let rule = cut(stage.proxy.on(call.op));
            let error = (call.call)(&stage.client, &path).unwrap_err();
            let is_done = call.is_done.map(|is_done| is_done(&probe, &path));
            println!("{} cut {place}: {error}; done: {is_done:?}", call.name);
            assert!(rule.fired());
            assert_eq!(error.kind(), ErrorKind::ConnectionLoss);
            assert!(error.is_maybe_done());
            assert!(is_done.is_none_or(|is_done| is_done == has_request));
            // It is on the user to do it again, and the client does so on the next connection.
            assert!(stage.client.exists(&path).unwrap().is_some());
            assert_eq!(stage.client.session_id(), id);
        }
    }
    let cuts = CALLS.len() * PLACES.len();
    let turn = [SessionEventKind::Suspended, SessionEventKind::Resumed];
    assert_eq!(stage.told.kinds(), turn.repeat(cuts));
    assert_eq!(stage.probe().stat(&ephemeral).unwrap().unwrap().ephemeral_owner, id);
}
