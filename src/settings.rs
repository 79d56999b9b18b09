//! Settings of a client from outside the program: the environment and a file. This module turns
//! them into a builder, and does not know what the builder does.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use crate::acl::Acl;
use crate::client::{Client, ClientBuilder, invalid};
use crate::error::{Error, Result};

const CONNECT: &str = "ZOOKEEPER_CONNECT";
const SESSION_TIMEOUT: &str = "ZOOKEEPER_SESSION_TIMEOUT";
const AUTH: &str = "ZOOKEEPER_AUTH";
const TLS: &str = "ZOOKEEPER_TLS";
const CACERT: &str = "ZOOKEEPER_CACERT";
const CERT: &str = "ZOOKEEPER_CERT";
const KEY: &str = "ZOOKEEPER_KEY";
/// The file that may contain the other settings.
const CONFIG: &str = "ZOOKEEPER_CONFIG";

/// The settings that a file may contain. Their names there are in lower case, without the first
/// word.
#[cfg(feature = "config")]
const SETTINGS: [&str; 7] = [CONNECT, SESSION_TIMEOUT, AUTH, TLS, CACERT, CERT, KEY];

impl Client {
    /// Connects with the settings of the environment, and of the file that it may name; see
    /// [`ClientBuilder::from_env`]. Blocks as [`connect`](Client::connect) does.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], which names the variable that cannot be used, and the errors of
    /// [`ClientBuilder::connect`].
    pub fn from_env() -> Result<Client> {
        ClientBuilder::from_env()?.connect()
    }
}

impl ClientBuilder {
    /// Reads the settings of the environment, and of the TOML file that it may name. A variable
    /// overrides the file. An empty variable counts as not set.
    ///
    /// | variable | in the file | value |
    /// |---|---|---|
    /// | `ZOOKEEPER_CONNECT` | `connect` | the servers, as for [`Client::builder`]; required |
    /// | `ZOOKEEPER_SESSION_TIMEOUT` | `session_timeout` | seconds, such as `10` or `2.5`, see [`session_timeout`](Self::session_timeout) |
    /// | `ZOOKEEPER_AUTH` | `auth` | `digest:USER:PASSWORD`, `sasl:USER:PASSWORD`, or another scheme and its secret |
    /// | `ZOOKEEPER_TLS` | `tls` | `true` or `false` (`1`, `0`); if not set, true if one of the following is set |
    /// | `ZOOKEEPER_CACERT` | `cacert` | a PEM file of the roots to trust, in place of the system's |
    /// | `ZOOKEEPER_CERT`, `ZOOKEEPER_KEY` | `cert`, `key` | PEM files of the client's certificate and key |
    /// | `ZOOKEEPER_CONFIG` | | the file |
    ///
    /// With credentials the ACL is [`Acl::creator`]: the client's nodes belong to these
    /// credentials, and all contenders of its locks need the same. Paths in the file are relative
    /// to its folder. Neither a file with `auth` nor the key file may be open to everybody (`chmod
    /// o= FILE`).
    ///
    /// ```toml
    /// connect = "zk1:2182,zk2:2182,zk3:2182/my-app"
    /// session_timeout = 10
    /// auth = "sasl:my-app:secret"
    /// cacert = "ca.pem"
    /// ```
    ///
    /// SASL, TLS and the file need the features `sasl`, `tls` and `config`. Without the feature,
    /// such a setting is an error. This call reads files, but does not connect.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] with the name of the variable. For the file it names the line,
    /// and never shows a secret. [`connect`](Self::connect) reports what is wrong with the list of
    /// servers.
    pub fn from_env() -> Result<ClientBuilder> {
        ClientBuilder::from_vars(|name| env::var_os(name))
    }

    /// Reads the same settings from a function in place of the environment: `look_up` is called
    /// with the name of each variable. So a program can let options override the environment, or
    /// name its own file:
    ///
    /// ```no_run
    /// use std::env;
    /// use zoolock::ClientBuilder;
    ///
    /// # fn main() -> zoolock::Result<()> {
    /// let client = ClientBuilder::from_vars(|name| match name {
    ///     "ZOOKEEPER_CONFIG" => Some("/etc/my-app/zookeeper.toml".into()),
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
        let variable = |name| {
            let text = look_up(name).filter(|text| !text.is_empty())?;
            Some(Value { name, text, place: String::new() })
        };
        let file = variable(CONFIG).map_or_else(|| Ok(BTreeMap::new()), |path| file(&path))?;
        let setting = |name| variable(name).or_else(|| file.get(name).cloned());

        let Some(hosts) = setting(CONNECT) else {
            let reason = "no servers are named, neither here nor in a file of settings";
            return Err(invalid(CONNECT, reason));
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
        if speaks_tls { tls(builder, files) } else { Ok(builder) }
    }
}

/// A setting, and its origin.
#[derive(Clone)]
struct Value {
    /// The name of the variable, even if the setting is from the file.
    name: &'static str,
    text: OsString,
    /// A text to append to an error about the setting.
    place: String,
}

impl Value {
    fn wrong(&self, reason: impl Display) -> Error {
        invalid(self.name, format!("{reason}{}", self.place))
    }

    fn text(&self) -> Result<&str> {
        self.text.to_str().ok_or_else(|| self.wrong("it is not UTF-8"))
    }

    fn seconds(&self) -> Result<Duration> {
        let seconds = self.text()?.parse().ok();
        let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let time = time.filter(|time| *time >= Duration::from_millis(1));
        time.ok_or_else(|| self.wrong("it is no number of seconds, such as 10 or 2.5"))
    }

    fn truth(&self) -> Result<bool> {
        match self.text()? {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(self.wrong("it is neither `true` nor `false`")),
        }
    }

    /// Returns the content of the file that this names, and whether everybody may open it.
    #[cfg(any(feature = "config", feature = "tls"))]
    fn read(&self) -> Result<(Vec<u8>, bool)> {
        use std::fs::{metadata, read};
        use std::os::unix::fs::PermissionsExt;

        let wrong = |error| self.wrong(format!("{:?}: {error}", self.text));
        let mode = metadata(&self.text).map_err(wrong)?.permissions().mode();
        Ok((read(&self.text).map_err(wrong)?, mode & 0o007 != 0))
    }

    #[cfg(any(feature = "config", feature = "tls"))]
    fn is_open(&self) -> Error {
        let file = &self.text;
        self.wrong(format!("{file:?} has a secret and is open to everybody: chmod o= {file:?}"))
    }

    /// Checks TLS settings right after the content of this setting's file was added, `with` that of
    /// another setting.
    #[cfg(feature = "tls")]
    fn used_by(&self, tls: zookeeper::Tls, with: &str) -> Result<zookeeper::Tls> {
        match tls.wrong() {
            Some(reason) => Err(self.wrong(format!("{:?}{with}: {reason}", self.text))),
            None => Ok(tls),
        }
    }
}

fn credentials(builder: ClientBuilder, auth: &Value) -> Result<ClientBuilder> {
    // The wrong text is not shown: it is a secret.
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
    if let Some(cacert) = cacert {
        tls = cacert.used_by(tls.roots_pem(&cacert.read()?.0), "")?;
    }
    match (cert, key) {
        (Some(cert), Some(key)) => {
            let (pem, is_open) = key.read()?;
            if is_open {
                return Err(key.is_open());
            }
            let with = format!(" with {:?}", key.text);
            let checked = cert.used_by(tls.client_cert_pem(&cert.read()?.0, &pem), &with)?;
            // Those of later connections are read when they are needed.
            let files = [cert.text.clone(), key.text.clone()];
            tls = checked.client_cert_from(move || {
                Ok((std::fs::read(&files[0])?, std::fs::read(&files[1])?))
            });
        }
        (None, None) => {}
        (Some(cert), None) => return Err(cert.wrong(format!("it needs {KEY}"))),
        (None, Some(key)) => return Err(key.wrong(format!("it needs {CERT}"))),
    }
    Ok(builder.tls(tls))
}

#[cfg(not(feature = "tls"))]
fn tls(_: ClientBuilder, files: [Option<Value>; 3]) -> Result<ClientBuilder> {
    let name = files.into_iter().flatten().next().map_or(TLS, |file| file.name);
    Err(invalid(name, "this program was built without the feature `tls` of zoolock"))
}

/// The settings of a file, by the variables that override them.
#[cfg(feature = "config")]
fn file(path: &Value) -> Result<BTreeMap<&'static str, Value>> {
    use std::path::Path;
    use toml::de::{DeTable, DeValue};

    let (bytes, is_open) = path.read()?;
    let text = str::from_utf8(&bytes).map_err(|_| path.wrong("it is not UTF-8"))?;
    let place = |at: usize| {
        let line = bytes.iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
        format!(" (in {:?}, line {line})", path.text)
    };
    let table = DeTable::parse(text).map_err(|error| {
        // The whole error would show the line, which may have a secret.
        let at = error.span().map_or(0, |span| span.start);
        path.wrong(format!("{}{}", error.message(), place(at)))
    })?;
    let folder = Path::new(&path.text).parent().unwrap_or(Path::new(""));
    let mut settings = BTreeMap::new();
    for (key, value) in table.get_ref() {
        let (key, place) = (key.get_ref(), place(key.span().start));
        let is_it = |name: &&str| name.to_lowercase().strip_prefix("zookeeper_") == Some(&**key);
        let Some(name) = SETTINGS.into_iter().find(is_it) else {
            return Err(path.wrong(format!("there is no setting {key:?}{place}")));
        };
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(truth) => truth.to_string(),
            _ => return Err(path.wrong(format!("{key} is no text, number or truth value{place}"))),
        };
        if text.is_empty() {
            continue;
        }
        let text = match name {
            CACERT | CERT | KEY => folder.join(text).into(),
            _ => text.into(),
        };
        settings.insert(name, Value { name, text, place });
    }
    match is_open && settings.contains_key(AUTH) {
        true => Err(path.is_open()),
        false => Ok(settings),
    }
}

#[cfg(not(feature = "config"))]
fn file(path: &Value) -> Result<BTreeMap<&'static str, Value>> {
    Err(path.wrong("this program was built without the feature `config` of zoolock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the printed builder of these variables, or the error.
    fn made(variables: &[(&str, &str)]) -> Result<ClientBuilder, String> {
        let builder = ClientBuilder::from_vars(|name| {
            let found = variables.iter().find(|variable| variable.0 == name);
            found.map(|(_, text)| text.into())
        });
        builder.map_err(|error| error.to_string())
    }

    #[track_caller]
    fn says(variables: &[(&str, &str)], parts: &[&str]) {
        let error = made(variables).expect_err("this is wrong");
        println!("{error}");
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
            (CONFIG, "/no/such/file"),
        ] {
            says(&[(CONNECT, "a"), (name, text)], &[&format!("invalid {name}")]);
        }
    }

    #[test]
    fn missing_feature_is_named() {
        for (name, text, feature, is_there) in [
            (AUTH, "sasl:bob:hunter2", "sasl", cfg!(feature = "sasl")),
            (TLS, "1", "tls", cfg!(feature = "tls")),
            (CONFIG, "/no/such/file", "config", cfg!(feature = "config")),
        ] {
            if !is_there {
                says(&[(CONNECT, "a"), (name, text)], &[name, &format!("the feature `{feature}`")]);
            }
        }
    }

    #[test]
    fn nodes_of_a_client_with_credentials_belong_to_them() {
        let (open, owned) = (format!("{:?}", Acl::open()), format!("{:?}", Acl::creator()));
        for (auth, acl) in [
            ("", &open),
            ("digest:ann:hunter2:b", &owned),
            #[cfg(feature = "sasl")]
            ("sasl:ann:hunter2:b", &owned),
        ] {
            let builder =
                format!("{:?}", made(&[(CONNECT, "a"), (AUTH, auth)]).expect("a builder"));
            println!("{builder}");
            assert!(builder.contains(acl) && !builder.contains("hunter2"), "{builder}");
        }
    }

    #[cfg(feature = "config")]
    mod in_a_file {
        use std::fs::{self, Permissions};
        use std::os::unix::fs::PermissionsExt;

        use super::*;

        /// Creates a file with this text, which only its owner can read.
        fn file(text: &str) -> tempfile::NamedTempFile {
            let file = tempfile::NamedTempFile::new().expect("a file");
            fs::write(&file, text).expect("written");
            file
        }

        fn name(file: &tempfile::NamedTempFile) -> &str {
            file.path().to_str().expect("a plain name")
        }

        #[test]
        fn variable_overrides_the_file() {
            let file = file("connect = \"b\"\nsession_timeout = 7.5\nauth = 'digest:x:hunter2'\n");
            let with = |more: &[(&str, &str)]| {
                let builder = made(&[&[(CONFIG, name(&file))], more].concat());
                format!("{:?}", builder.expect("a builder"))
            };
            let (alone, under) = (with(&[]), with(&[(CONNECT, "a"), (SESSION_TIMEOUT, "3")]));
            println!("{alone}\n{under}");
            assert!(alone.contains("\"b\"") && alone.contains("7.5s"), "{alone}");
            assert!(under.contains("\"a\"") && under.contains("3s"), "{under}");
            assert!(!alone.contains("hunter2"), "{alone}");
        }

        #[test]
        fn error_in_the_file_names_its_line_and_shows_no_content() {
            for (text, parts) in [
                ("tls = false\ncacerts = 'hunter2'\n", &["\"cacerts\"", "line 2"][..]),
                ("\n\nconfig = 'hunter2'", &["\"config\"", "line 3"]),
                ("connect = 'a'\n[auth]\nuser = 'hunter2'", &["auth", "line 2"]),
                ("connect = 'a'\nauth = ['hunter2']", &["auth", "line 2"]),
                ("connect = 'a'\nauth = digest:x:hunter2", &["line 2"]),
                ("connect = 'a'\nauth = 'digest:x:hunter2", &["line 2"]),
                ("connect = 'a'\nauth = \"digest:\\hunter2\"", &["line 2"]),
                ("auth = 'a:hunter2'\nauth = 'b:hunter2'", &["line 2"]),
                ("auth 'hunter2'", &["line 1"]),
                ("connect = 'a'\n\nsession_timeout = 'hunter2'", &[SESSION_TIMEOUT, "line 3"]),
                ("connect = 'a'\ntls = 'hunter2'", &[TLS, "line 2"]),
                ("connect = 'a'\nauth = 'hunter2'", &[AUTH, "line 2"]),
            ] {
                let file = file(text);
                let parts = [parts, &[name(&file)]].concat();
                says(&[(CONFIG, name(&file))], &parts);
            }
        }

        #[test]
        fn world_readable_secret_is_refused() {
            for (text, mode, is_refused) in [
                ("connect = 'a'\nauth = 'digest:x:hunter2'", 0o644, true),
                ("connect = 'a'\nauth = 'digest:x:hunter2'", 0o640, false),
                ("connect = 'a' # auth", 0o644, false),
            ] {
                let file = file(text);
                fs::set_permissions(&file, Permissions::from_mode(mode)).expect("chmod");
                match is_refused {
                    true => says(&[(CONFIG, name(&file))], &[CONFIG, "chmod o=", name(&file)]),
                    false => drop(made(&[(CONFIG, name(&file))]).expect("a builder")),
                }
            }
        }
    }
}
