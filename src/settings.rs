//! Settings of a client from the environment. This module turns the settings into a builder, and
//! does not depend on what the builder does with them.

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
#[cfg(feature = "tls")]
use std::fs::{self, File};
#[cfg(feature = "tls")]
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
#[cfg(feature = "tls")]
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::time::Duration;

#[cfg(feature = "tls")]
use rustix::fs::OFlags;

use crate::base::acl::Acl;
use crate::base::error::{Error, Result};
use crate::client::{Client, ClientBuilder};

pub(crate) const CONNECT: &str = "ZOOKEEPER_CONNECT";
const SESSION_TIMEOUT: &str = "ZOOKEEPER_SESSION_TIMEOUT";
pub(crate) const AUTH: &str = "ZOOKEEPER_AUTH";
pub(crate) const TLS: &str = "ZOOKEEPER_TLS";
pub(crate) const CACERT: &str = "ZOOKEEPER_CACERT";
pub(crate) const CERT: &str = "ZOOKEEPER_CERT";
pub(crate) const KEY: &str = "ZOOKEEPER_KEY";

/// The maximum size of a file, in bytes.
#[cfg(feature = "tls")]
const LONGEST_FILE: u64 = 1 << 20;

impl Client {
    /// Connects with the settings of the environment; see [`ClientBuilder::from_env`]. Blocks as
    /// [`connect`](Client::connect) does.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], which names the variable that cannot be used, and the errors of
    /// [`ClientBuilder::connect`].
    pub fn from_env() -> Result<Client> {
        ClientBuilder::from_env()?.connect()
    }
}

impl ClientBuilder {
    /// Reads the settings of the environment. An empty variable counts as not set. Newlines at the
    /// end of a value are removed, because the text of a file often ends in one.
    ///
    /// | variable | value |
    /// |---|---|
    /// | `ZOOKEEPER_CONNECT` | the servers, as for [`Client::builder`]; required |
    /// | `ZOOKEEPER_SESSION_TIMEOUT` | seconds, such as `10` or `2.5`, see [`session_timeout`](Self::session_timeout) |
    /// | `ZOOKEEPER_AUTH` | `digest:USER:PASSWORD`, `sasl:USER:PASSWORD`, or another scheme and its secret |
    /// | `ZOOKEEPER_TLS` | `true` or `false` (`1`, `0`); if not set, true if one of the following is set |
    /// | `ZOOKEEPER_CACERT` | a PEM file of the roots to trust, instead of the system's |
    /// | `ZOOKEEPER_CERT`, `ZOOKEEPER_KEY` | PEM files of the client's certificate and key |
    ///
    /// With credentials the ACL is [`Acl::creator`]: the client's nodes belong to these
    /// credentials, and all contenders of its locks need the same. The key file must not be
    /// accessible to all users (`chmod o= FILE`).
    ///
    /// SASL and TLS need the features `sasl` and `tls`. Without the feature, such a setting is an
    /// error. This call reads the PEM files, but does not connect.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] with the name of the variable; the text never contains a secret.
    /// [`connect`](Self::connect) reports what is wrong with the list of servers.
    pub fn from_env() -> Result<ClientBuilder> {
        ClientBuilder::from_vars(|name| env::var_os(name))
    }

    /// Reads the same settings from a function instead of the environment: `look_up` is called with
    /// the name of each variable. With this, a program can let options override the environment, or
    /// provide defaults:
    ///
    /// ```no_run
    /// use std::env;
    /// use zoolock::ClientBuilder;
    ///
    /// # fn main() -> zoolock::Result<()> {
    /// let client = ClientBuilder::from_vars(|name| match name {
    ///     "ZOOKEEPER_CACERT" => Some("/etc/my-app/ca.pem".into()),
    ///     name => env::var_os(name),
    /// })?
    /// .connect()?;
    /// # let _ = client;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn from_vars(look_up: impl Fn(&str) -> Option<OsString>) -> Result<ClientBuilder> {
        let setting = |name| {
            let mut text = look_up(name)?.into_vec();
            // The text of a file often ends in a newline.
            while text.pop_if(|last| matches!(last, b'\n' | b'\r')).is_some() {}
            let text = OsString::from_vec(text);
            (!text.is_empty()).then_some(Value { name, text })
        };
        let Some(hosts) = setting(CONNECT) else {
            return Err(Error::invalid(CONNECT, "the list of servers is empty"));
        };
        let mut builder = Client::builder(hosts.text()?);
        if let Some(timeout) = setting(SESSION_TIMEOUT) {
            builder = builder.session_timeout(timeout.seconds()?);
        }
        if let Some(auth) = setting(AUTH) {
            builder = credentials(builder, &auth)?.acl(Acl::creator());
        }
        let files = [CACERT, CERT, KEY].map(setting);
        let speaks_tls = match setting(TLS) {
            Some(tls) => tls.truth()?,
            None => files.iter().any(Option::is_some),
        };
        builder = if speaks_tls { tls(builder, files)? } else { builder };
        #[cfg(not(zoolock_simulation))]
        if let Some(socket) = setting("ZOOLOCK_REAPER") {
            builder = builder.reaper(socket.text);
        }
        Ok(builder)
    }
}

/// Returns variables with which another process can reach the servers as this builder's client
/// does. `None` if the settings cannot be expressed that way: TLS settings that are not from files,
/// or credentials that `ZOOKEEPER_AUTH` cannot represent, such as a SASL user with a colon.
pub(crate) fn vars_of(builder: &ClientBuilder) -> Option<Vec<(String, OsString)>> {
    let mut vars = builder.tls_vars.clone();
    #[cfg(feature = "tls")]
    if vars.is_empty() && builder.tls_settings().is_some() {
        return None;
    }
    // One of the credentials is enough to close a session.
    let auth = builder.auth.first();
    let auth = auth.map(|(scheme, secret)| [scheme.as_bytes(), b":", secret].concat());
    #[cfg(feature = "sasl")]
    let auth = builder
        .sasl
        .as_ref()
        .map_or(auth, |(user, password)| Some(format!("sasl:{user}:{password}").into_bytes()));
    if let Some(auth) = auth {
        let auth = Value { name: AUTH, text: OsString::from_vec(auth) };
        let read = credentials(Client::builder(""), &auth).ok()?;
        let is_same = read.auth.first().is_none_or(|read| Some(read) == builder.auth.first());
        #[cfg(feature = "sasl")]
        let is_same = is_same && read.sasl == builder.sasl;
        if !is_same {
            return None;
        }
        vars.push((AUTH.to_owned(), auth.text));
    }
    vars.push((CONNECT.to_owned(), builder.hosts().into()));
    Some(vars)
}

/// A variable and its text.
struct Value {
    name: &'static str,
    text: OsString,
}

impl Value {
    fn wrong(&self, reason: impl Display) -> Error {
        Error::invalid(self.name, reason.to_string())
    }

    fn text(&self) -> Result<&str> {
        self.text.to_str().ok_or_else(|| self.wrong("it is not UTF-8"))
    }

    fn seconds(&self) -> Result<Duration> {
        let seconds = self.text()?.parse().ok();
        let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let time = time.filter(|time| *time >= Duration::from_millis(1));
        time.ok_or_else(|| {
            self.wrong("it is not a number of seconds, at least 0.001 (expected e.g. 10 or 2.5)")
        })
    }

    fn truth(&self) -> Result<bool> {
        match self.text()? {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(self.wrong("it is neither `true` nor `false`")),
        }
    }

    /// Returns the content of the file that this variable names, and whether all users may open it.
    #[cfg(feature = "tls")]
    fn read(&self) -> Result<(Vec<u8>, bool)> {
        read(&self.text).map_err(|error| self.wrong(format!("{:?}: {error}", self.text)))
    }

    /// Checks the TLS settings right after the content of this setting's file was added. `with`
    /// names the other file in the error message.
    #[cfg(feature = "tls")]
    fn used_by(&self, tls: zookeeper::Tls, with: &str) -> Result<zookeeper::Tls> {
        match tls.wrong() {
            Some(reason) => Err(self.wrong(format!("{:?}{with}: {reason}", self.text))),
            None => Ok(tls),
        }
    }
}

/// Returns the content of a file with certificates or a key, and whether all users may open it. A
/// reaper reads files that other users name. Therefore, this opens no device, does not wait for
/// data, and reads up to a limit.
#[cfg(feature = "tls")]
fn read(file: &OsString) -> io::Result<(Vec<u8>, bool)> {
    let wrong = || io::Error::other("it is not a regular file of less than 1 MiB");
    fs::metadata(file)?.is_file().then_some(()).ok_or_else(wrong)?;
    // The file may have been replaced since the check.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(file)?;
    let (mode, mut bytes) = (file.metadata()?.permissions().mode(), Vec::new());
    let length = file.take(LONGEST_FILE).read_to_end(&mut bytes)?;
    (length < LONGEST_FILE as usize).then_some((bytes, mode & 0o007 != 0)).ok_or_else(wrong)
}

fn credentials(builder: ClientBuilder, auth: &Value) -> Result<ClientBuilder> {
    // The wrong text is not shown, because it is a secret.
    let wrong = || auth.wrong("it is not SCHEME:SECRET");
    let bytes = auth.text.as_bytes();
    let colon = bytes.iter().position(|byte| *byte == b':').ok_or_else(wrong)?;
    let (scheme, secret) = (&bytes[..colon], &bytes[colon + 1..]);
    match str::from_utf8(scheme).map_err(|_| wrong())? {
        "sasl" => sasl(builder, auth, secret),
        "digest" if !secret.contains(&b':') => Err(auth.wrong("it is not digest:USER:PASSWORD")),
        scheme => Ok(builder.auth(scheme, secret)),
    }
}

#[cfg(feature = "sasl")]
fn sasl(builder: ClientBuilder, auth: &Value, secret: &[u8]) -> Result<ClientBuilder> {
    let secret = str::from_utf8(secret).ok().and_then(|secret| secret.split_once(':'));
    let (user, password) = secret.ok_or_else(|| auth.wrong("it is not sasl:USER:PASSWORD"))?;
    Ok(builder.sasl(user, password))
}

#[cfg(not(feature = "sasl"))]
fn sasl(_: ClientBuilder, auth: &Value, _: &[u8]) -> Result<ClientBuilder> {
    Err(auth.wrong("this program was built without the feature `sasl` of zoolock"))
}

#[cfg(feature = "tls")]
fn tls(builder: ClientBuilder, [cacert, cert, key]: [Option<Value>; 3]) -> Result<ClientBuilder> {
    let mut tls = zookeeper::Tls::new();
    // A process that gets these variables may have another current directory.
    let absolute = |file: &OsString| std::path::absolute(file).map_or(file.clone(), Into::into);
    let named = [&cacert, &cert, &key].into_iter().flatten();
    let named = named.map(|file| (file.name.to_owned(), absolute(&file.text)));
    let vars = named.chain([(TLS.to_owned(), "true".into())]).collect();
    if let Some(cacert) = cacert {
        tls = cacert.used_by(tls.roots_pem(&cacert.read()?.0), "")?;
    }
    match (cert, key) {
        (Some(cert), Some(key)) => {
            let (pem, is_open) = key.read()?;
            if is_open {
                let file = &key.text;
                let reason = format!(
                    "{file:?} contains a secret and is accessible to all users: run chmod o= {file:?}"
                );
                return Err(key.wrong(reason));
            }
            let with = format!(" with {:?}", key.text);
            let checked = cert.used_by(tls.client_cert_pem(&cert.read()?.0, &pem), &with)?;
            // For later connections, the files are read when they are needed.
            let files = [cert.text.clone(), key.text.clone()];
            tls = checked.client_cert_from(move || Ok((read(&files[0])?.0, read(&files[1])?.0)));
        }
        (None, None) => {}
        (Some(cert), None) => return Err(cert.wrong(format!("it needs {KEY}"))),
        (None, Some(key)) => return Err(key.wrong(format!("it needs {CERT}"))),
    }
    let mut builder = builder.tls(tls);
    builder.tls_vars = vars;
    Ok(builder)
}

#[cfg(not(feature = "tls"))]
fn tls(_: ClientBuilder, files: [Option<Value>; 3]) -> Result<ClientBuilder> {
    let name = files.into_iter().flatten().next().map_or(TLS, |file| file.name);
    Err(Error::invalid(name, "this program was built without the feature `tls` of zoolock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(variables: &[(&str, &str)]) -> Result<ClientBuilder> {
        ClientBuilder::from_vars(|name| {
            let found = variables.iter().find(|variable| variable.0 == name);
            found.map(|(_, text)| text.into())
        })
    }

    #[track_caller]
    fn says(variables: &[(&str, &str)], parts: &[&str]) {
        let error = built(variables).expect_err("this is wrong").to_string();
        for part in parts {
            assert!(error.contains(part), "no {part:?} in {error}");
        }
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn invalid_variable_is_named() {
        says(&[], &["invalid ZOOKEEPER_CONNECT"]);
        says(&[(CONNECT, "")], &["invalid ZOOKEEPER_CONNECT"]);
        for (name, text) in [
            (SESSION_TIMEOUT, "soon"),
            (SESSION_TIMEOUT, "-1"),
            (SESSION_TIMEOUT, "NaN"),
            (SESSION_TIMEOUT, "1e30"),
            (AUTH, "hunter2"),
            (SESSION_TIMEOUT, "0"),
            (AUTH, "sasl:hunter2"),
            (AUTH, "digest:hunter2"),
            (TLS, "maybe"),
            #[cfg(feature = "tls")]
            (CACERT, "/no/such/file"),
            #[cfg(feature = "tls")]
            (CERT, "/no/such/file"),
            #[cfg(feature = "tls")]
            (KEY, "/no/such/file"),
        ] {
            says(&[(CONNECT, "a"), (name, text)], &[&format!("invalid {name}")]);
        }
    }

    #[test]
    fn newline_at_the_end_of_a_secret_is_no_part_of_it() {
        for end in ["", "\n", "\r\n"] {
            let auth = format!("digest:bob:hunter2{end}");
            let builder = built(&[(CONNECT, "a"), (AUTH, &auth)]).unwrap();
            assert_eq!(builder.auth, [("digest".to_owned(), b"bob:hunter2".to_vec())]);
        }
    }

    #[test]
    fn missing_feature_is_named() {
        for (name, text, feature, is_there) in [
            (AUTH, "sasl:bob:hunter2", "sasl", cfg!(feature = "sasl")),
            (TLS, "1", "tls", cfg!(feature = "tls")),
        ] {
            if !is_there {
                says(&[(CONNECT, "a"), (name, text)], &[name, &format!("the feature `{feature}`")]);
            }
        }
    }
}
