//! SASL on a connection, between the handshake and all other requests.
//!
//! The client asks for a challenge, answers it, and checks the server's proof. It sends nothing
//! else before that, because a server that requires SASL accepts nothing else.

use super::{Core, after};
use crate::core::clock::Moment;
use crate::core::connection::{Challenged, Granted, Login};
use crate::core::message::{self, OpCode};
use crate::core::sasl::{Challenge, User};
use crate::core::watches::Listen;
use crate::core::wire::{Malformed, Put, Reader};

impl<S, W: Listen> Core<S, W> {
    /// Sets the SASL user, from the next connection on.
    pub(crate) fn be(&mut self, user: Option<User>) {
        self.settings.user = user;
    }

    pub(super) fn log_in(&mut self, user: User, granted: Granted, now: Moment) {
        self.send_token("", Login { user, granted, xid: 0, answer: None }, now);
    }

    pub(super) fn go_on_logging_in(
        &mut self,
        login: Login,
        frame: &[u8],
        now: Moment,
    ) -> Result<(), Malformed> {
        let Login { user, granted, xid, answer } = login;
        let mut reader = Reader(frame);
        let header = message::header(&mut reader)?;
        if header.xid != xid {
            let text =
                format!("an answer to request {} before that to SASL request {xid}", header.xid);
            return Err(Malformed(text));
        }
        // A refusal may come with or without a token.
        let token = match header.code {
            0 => reader.string().and_then(|token| reader.end().map(|()| token))?,
            _ => "",
        };
        match (answer, header.code) {
            (None, 0) if token.is_empty() => {
                self.refused("the server does not support SASL: does it have a JAAS configuration?");
            }
            (None, 0) => {
                let challenge = Challenge::read(token)?;
                let (token, proof) = challenge.respond(&user);
                let answer = Some(Challenged { realm: challenge.realm, proof });
                self.send_token(&token, Login { user, granted, xid, answer }, now);
            }
            (None, code) => self.refused(&format!(
                "the server refused SASL with DIGEST-MD5 (code {code}): is it in FIPS mode?"
            )),
            // If a server is configured to keep refused clients connected, it sends them an empty
            // token.
            (Some(Challenged { realm, .. }), code) if token.is_empty() => {
                let (name, realm) = (user.name(), realm.unwrap_or_default());
                self.refused(&format!(
                    "the server refused the SASL user {name:?} in its realm {realm:?} (code {code}): \
                     is the user in its JAAS configuration, with this password?"
                ));
            }
            (Some(Challenged { proof, .. }), _) => match proof.is_in(token)? {
                true => self.open(granted, now),
                false => self.refused(
                    "the server does not know the password of the SASL user: is it the right server?",
                ),
            },
        }
        Ok(())
    }

    fn send_token(&mut self, token: &str, mut login: Login, now: Moment) {
        self.outbox.xid = after(self.outbox.xid);
        login.xid = self.outbox.xid;
        let mut frame = message::request(OpCode::Sasl, |out| out.put_buffer(token.as_bytes()));
        message::number(&mut frame, self.outbox.xid);
        self.outbox.bytes.extend_from_slice(&frame);
        self.outbox.counts.requests += 1;
        self.touch(now);
        let until = now.monotonic + self.patience(now);
        if let Some(connection) = &mut self.connection {
            connection.greeting.iter_mut().for_each(|greeting| greeting.until = until);
            connection.login = Some(login);
        }
    }

    fn refused(&mut self, reason: &str) {
        self.outage.is_refused = true;
        self.doom(reason);
    }
}
