//! SASL by DIGEST-MD5 (RFC 2831), as in Java's ZooKeeper. The client and the server prove to each
//! other that they know a password. Pure, and independent of requests.

use std::fmt;

use md5::{Digest, Md5};

use super::wire::Malformed;

/// The name of the service that Java's clients use for every server.
const URI: &str = "zookeeper/zk-sasl-md5";
/// The length of the longest server token that the RFC allows.
const LONGEST: usize = 2048;
const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// A name and a password. The password is never printed.
#[derive(Clone)]
pub(crate) struct User {
    name: String,
    password: String,
    /// Random numbers that a server cannot predict.
    random: fn() -> u64,
}

impl User {
    pub(crate) fn new(name: &str, password: &str, random: fn() -> u64) -> User {
        User { name: name.to_owned(), password: password.to_owned(), random }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:..", self.name)
    }
}

/// The first token of a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Challenge {
    /// The first realm that the server offers, if any.
    pub(super) realm: Option<String>,
    nonce: String,
}

/// The token that the server must send in the end. Only a server that knows the password can
/// compute it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerProof(String);

impl Challenge {
    pub(super) fn read(token: &str) -> Result<Challenge, Malformed> {
        let all = directives(token)?;
        let one = |name: &str| all.iter().find(|known| known.0 == name).map(|known| &*known.1);
        let qop = one("qop").unwrap_or("auth");
        if one("algorithm") != Some("md5-sess")
            || one("charset") != Some("utf-8")
            || !qop.split(',').any(|qop| qop.trim_matches(SPACE) == "auth")
        {
            return Err(Malformed("a challenge without md5-sess, utf-8 and auth".to_owned()));
        }
        let nonce = one("nonce").filter(|nonce| !nonce.is_empty());
        let no_nonce = || Malformed("a challenge without a nonce".to_owned());
        Ok(Challenge {
            realm: one("realm").map(str::to_owned),
            nonce: nonce.ok_or_else(no_nonce)?.to_owned(),
        })
    }

    /// Returns the client's answer, and the proof that the server must answer with.
    pub(super) fn respond(&self, user: &User) -> (String, ServerProof) {
        let cnonce = format!("{:016x}{:016x}", (user.random)(), (user.random)());
        let (name, nonce) = (quoted(&user.name), quoted(&self.nonce));
        let realm = self.realm.as_deref().map(quoted);
        let realm = realm.map_or(String::new(), |realm| format!("realm={realm},"));
        let response = self.digest(user, &cnonce, "AUTHENTICATE", URI);
        let token = format!(
            "charset=utf-8,username={name},{realm}nonce={nonce},nc=00000001,cnonce=\"{cnonce}\",\
             digest-uri=\"{URI}\",response={response},qop=auth"
        );
        (token, ServerProof(self.digest(user, &cnonce, "", URI)))
    }

    /// Computes section 2.1.2.1 of the RFC, with its names.
    fn digest(&self, user: &User, cnonce: &str, method: &str, uri: &str) -> String {
        let realm = self.realm.as_deref().unwrap_or_default();
        let secret = [&*user.name, realm, &*user.password].map(latin_1).join(&b':');
        let nonces = format!(":{}:{cnonce}", self.nonce);
        let a1 = [&Md5::digest(secret)[..], nonces.as_bytes()].concat();
        let a2 = format!("{method}:{uri}");
        let (a1, a2) = (hex_md5(&a1), hex_md5(a2.as_bytes()));
        hex_md5(format!("{a1}:{}:00000001:{cnonce}:auth:{a2}", self.nonce).as_bytes())
    }
}

impl ServerProof {
    /// Comparing in variable time reveals nothing: an impostor has one guess for each connection,
    /// and the token differs each time.
    pub(super) fn is_in(&self, token: &str) -> Result<bool, Malformed> {
        let all = directives(token)?;
        Ok(all.iter().any(|(name, value)| name == "rspauth" && *value == self.0))
    }
}

fn hex_md5(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes to hash: in ISO 8859-1 if possible, whatever encoding is sent.
fn latin_1(text: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = text.chars().map(|char| u8::try_from(char).ok()).collect();
    bytes.unwrap_or_else(|| text.as_bytes().to_vec())
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the names, in lower case, and the values of `name=value,name="value",..`.
fn directives(token: &str) -> Result<Vec<(String, String)>, Malformed> {
    let wrong =
        || Malformed("a SASL token that is too long, or is not a list of directives".to_owned());
    let (mut all, mut rest) = (Vec::new(), token);
    if token.len() >= LONGEST {
        return Err(wrong());
    }
    loop {
        rest = rest.trim_start_matches(|char| char == ',' || SPACE.contains(&char));
        if rest.is_empty() {
            return Ok(all);
        }
        let (name, value) = rest.split_once('=').ok_or_else(wrong)?;
        let (value, behind) = value_of(value.trim_start_matches(SPACE)).ok_or_else(wrong)?;
        all.push((name.trim_end_matches(SPACE).to_ascii_lowercase(), value));
        rest = behind.trim_start_matches(SPACE);
        if !rest.is_empty() && !rest.starts_with(',') {
            return Err(wrong());
        }
    }
}

/// Returns the first value and the rest.
fn value_of(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|char| char == ',' || SPACE.contains(&char));
        let (value, rest) = text.split_at(end.unwrap_or(text.len()));
        return Some((value.to_owned(), rest));
    };
    let (mut value, mut chars) = (String::new(), quoted.chars());
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => value.push(chars.next()?),
            char => value.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, password: &str) -> User {
        User::new(name, password, || 4)
    }

    fn challenge(realm: &str, nonce: &str) -> Challenge {
        Challenge { realm: Some(realm.to_owned()), nonce: nonce.to_owned() }
    }

    #[test]
    fn digest_matches_the_example_of_the_rfc() {
        let token = r#"realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8"#;
        let challenge = Challenge::read(token).expect("a challenge");
        assert_eq!(challenge, self::challenge("elwood.innosoft.com", "OA6MG9tEQGm2hh"));
        let digest = |method| {
            let uri = "imap/elwood.innosoft.com";
            challenge.digest(&user("chris", "secret"), "OA6MHXh6VqTrRk", method, uri)
        };
        assert_eq!(digest("AUTHENTICATE"), "d388dad90d4bbd760a152321f2143af7");
        assert_eq!(digest(""), "ea40f60335c427b5527b84dbabcdfffd");
    }

    #[test]
    fn missing_realm_is_not_sent() {
        let bare = Challenge::read("nonce=n,algorithm=md5-sess,charset=utf-8").expect("one");
        assert_eq!(bare, Challenge { realm: None, nonce: "n".to_owned() });
        assert!(!bare.respond(&user("u", "p")).0.contains("realm"));
    }

    #[test]
    fn first_of_several_realms_is_used() {
        let token = r#" ,realm="one" , Realm = "two",nonce="n", QOP="auth-int , auth",algorithm=md5-sess,charset=utf-8, "#;
        assert_eq!(Challenge::read(token), Ok(challenge("one", "n")));
    }

    #[test]
    fn nonsensical_challenge_is_malformed() {
        let good = r#"realm="r",nonce="n",charset=utf-8,algorithm=md5-sess"#;
        assert_eq!(Challenge::read(good), Ok(challenge("r", "n")));
        for (from, to) in [
            ("\"n\"", "\"\""),
            ("nonce=\"n\",", ""),
            ("md5-sess", "md5"),
            (",algorithm=md5-sess", ""),
            ("utf-8", "latin"),
            (",alg", ",qop=\"auth-conf\",alg"),
            ("\"n\"", "\"n"),
            ("\"n\"", "\"n\"x"),
            ("\"n\"", "a b"),
            ("md5-sess", "md5-sess,\\"),
            ("=md5-sess", "=\"md5-sess\\"),
            ("\"r\"", &format!("\"{}\"", "r".repeat(LONGEST))),
        ] {
            let token = good.replace(from, to);
            let seen = Challenge::read(&token).expect_err(&token);
            println!("{seen}: {token:.80}");
        }
        // Cuts the challenge at every position, and replaces every byte by every other value.
        for at in 0..good.len() {
            drop(Challenge::read(&good[..at]));
            for byte in 0..=u8::MAX {
                let mut token = good.as_bytes().to_vec();
                token[at] = byte;
                drop(Challenge::read(&String::from_utf8_lossy(&token)));
            }
        }
    }
}
