//! What can be wrong, by the text that says so, and how often it was.

use std::fmt;

use crate::error::ErrorKind;

/// Parts of all texts that may end a connection; the first that fits counts. Each has to be
/// reached.
const TEXTS: &[&str] = &[
    // wire.rs
    "a number of ",
    "a truth value of ",
    "a buffer of -",
    "a buffer of ",
    " as a truth value",
    "a text that is not UTF-8: ",
    "a list that cannot be in the ",
    " bytes too many",
    // frames.rs
    "the server speaks TLS at this port",
    "this is no ZooKeeper server",
    "a frame of ",
    // message.rs
    "an event of the type ",
    "the result of an operation ",
    // batch.rs
    "more than ",
    " results of ",
    "failed operations without a cause",
    // connection.rs
    "an answer to a ping that was not sent",
    "an answer to credentials that were not sent",
    "where none was due",
    " was due",
    // sasl.rs and session/login.rs
    #[cfg(feature = "sasl")]
    "a challenge without md5-sess, utf-8 and auth",
    #[cfg(feature = "sasl")]
    "a challenge without a nonce",
    #[cfg(feature = "sasl")]
    "a token of SASL that is too long, or no list of directives",
    #[cfg(feature = "sasl")]
    " before that to SASL's ",
    #[cfg(feature = "sasl")]
    "the server has no SASL: ",
    #[cfg(feature = "sasl")]
    "the server refused SASL by DIGEST-MD5 (code ",
    #[cfg(feature = "sasl")]
    "the server refused the SASL user \"user\"",
    #[cfg(feature = "sasl")]
    "the server does not know the password of the SASL user",
    // session.rs, of what came
    "no session where a new one was asked for",
    "this is no ZooKeeper, perhaps ",
    "a session timeout of ",
    "a write has zxid ",
    "the session has expired",
    "the server only takes reads",
    "the session lives, but the server is behind what it has seen",
    "the server refused the credentials",
    "the server refused a request with the code ",
    // session.rs, of what did not come
    "no answer to the handshake in ",
    "the server was silent for ",
    "the server did not renew the lease ",
    // this test
    "cut",
];
/// How often those files make such a text; one more there is one more above.
const PLACES: &[(&str, usize)] = &[
    (include_str!("../wire.rs"), 6),
    (include_str!("../frames.rs"), 1),
    (include_str!("../message.rs"), 3),
    (include_str!("../../batch.rs"), 3),
    (include_str!("../connection.rs"), 3),
    (include_str!("../session/answers.rs"), 4),
    (include_str!("../sasl.rs"), 3),
    (include_str!("../session/login.rs"), 1),
];

/// How often connections ended with which text.
#[derive(Debug)]
pub(super) struct Tally {
    counts: [u64; TEXTS.len()],
    /// Credentials that were refused with a code that is not the usual one.
    odd_refusals: u64,
    pub(super) answers: u64,
    pub(super) events: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { counts: [0; TEXTS.len()], odd_refusals: 0, answers: 0, events: 0 }
    }
}

impl Tally {
    pub(super) fn ended(&mut self, reason: &str) {
        match TEXTS.iter().position(|text| reason.contains(text)) {
            Some(index) => self.counts[index] += 1,
            // Silence mostly comes before it.
            None if reason.starts_with("no request was accepted in ") => {}
            None => {
                let is_refusal = reason.starts_with("the server answered with the code ")
                    || (-130..0).any(|code| ErrorKind::of_code(code).to_string() == reason);
                assert!(is_refusal, "a text that is not known here: {reason}");
                self.odd_refusals += 1;
            }
        }
    }

    pub(super) fn missed(&self) -> Vec<&str> {
        let counts = TEXTS.iter().zip(self.counts);
        counts.filter(|(_, count)| *count == 0).map(|(text, _)| *text).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { answers, events, .. } = self;
        writeln!(f, "{answers} answers, {events} events; connections ended:")?;
        for (text, count) in TEXTS.iter().zip(self.counts) {
            writeln!(f, "{count:>10}  {text}")?;
        }
        write!(f, "{:>10}  (credentials refused with another code)", self.odd_refusals)
    }
}

#[test]
fn list_of_texts_is_complete() {
    for (source, expected) in PLACES {
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        let made = code.lines().map(|line| line.matches("Malformed(").count());
        // The type itself, and where one is handed on.
        let others = ["struct Malformed(", "Malformed(Malformed)", "Malformed(malformed)"];
        let others = others.iter().map(|other| code.matches(other).count());
        let found = made.sum::<usize>() - others.sum::<usize>();
        let head = source.lines().next().unwrap_or_default();
        println!("{found} texts: {head}");
        assert_eq!(found, *expected, "{head}");
    }
}
