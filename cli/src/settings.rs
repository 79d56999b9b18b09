//! Reads the settings file. This module does not interpret the settings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use toml::de::{DeTable, DeValue};

/// The settings that the file may contain.
const NAMES: [&str; 7] = ["connect", "session_timeout", "auth", "tls", "cacert", "cert", "key"];

/// The maximum length of the file, in bytes. A device such as /dev/zero never ends.
const LONGEST: u64 = 1 << 20;

/// A setting, and a text to append to an error about it.
pub(crate) type Setting = (OsString, String);

/// Returns the settings in a file. Each key is the variable that overrides the setting.
pub(crate) fn in_file(file: &Path) -> Result<BTreeMap<String, Setting>, String> {
    let failed = |error| format!("{file:?}: {error}");
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(failed)?;
    let is_open = opened.metadata().map_err(failed)?.permissions().mode() & 0o007 != 0;
    if opened.take(LONGEST).read_to_end(&mut bytes).map_err(failed)? as u64 == LONGEST {
        return Err(format!("{file:?} is too long for a settings file (at most 1 MiB)"));
    }
    let text = str::from_utf8(&bytes).map_err(|_| format!("{file:?} is not UTF-8"))?;
    let place = |at: usize| {
        let line = bytes.iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
        format!(" (in {file:?}, line {line})")
    };
    let table = DeTable::parse(text).map_err(|error| {
        // The complete error would show the line, which may contain a secret.
        let at = error.span().map_or(0, |span| span.start);
        format!("{}{}", error.message(), place(at))
    })?;
    let mut settings = BTreeMap::new();
    for (key, value) in table.get_ref() {
        let (key, place) = (&**key.get_ref(), place(key.span().start));
        if !NAMES.contains(&key) {
            return Err(format!("unknown setting {key:?}{place}"));
        }
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(truth) => truth.to_string(),
            _ => return Err(format!("{key} is not a string, number or boolean{place}")),
        };
        if text.is_empty() {
            continue;
        }
        if key == "auth" && is_open {
            return Err(format!(
                "{file:?} contains a secret and is accessible to all users: run chmod o= {file:?}"
            ));
        }
        let text = match key {
            "cacert" | "cert" | "key" => file.with_file_name(text).into(),
            _ => text.into(),
        };
        settings.insert(format!("ZOOKEEPER_{}", key.to_uppercase()), (text, place));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    /// Reads a settings file that contains this text.
    fn read(text: &str, mode: u32) -> Result<BTreeMap<String, Setting>, String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(&file, text).expect("written");
        fs::set_permissions(&file, Permissions::from_mode(mode)).expect("chmod");
        let read = in_file(file.path());
        println!("{read:?}");
        read.map_err(|error| {
            assert!(!error.contains("hunter2"));
            error.replace(file.path().to_str().expect("a plain name"), "FILE")
        })
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
        ] {
            let error = read(text, 0o600).expect_err("this is wrong");
            assert!(error.contains("\"FILE\"") && parts.iter().all(|part| error.contains(part)));
        }
    }

    #[test]
    fn world_readable_secret_is_refused() {
        let secret = "connect = 'a'\nauth = 'digest:x:hunter2'";
        let error = read(secret, 0o644).expect_err("it is open");
        assert!(error.ends_with("chmod o= \"FILE\""));
        assert_eq!(read(secret, 0o640).expect("settings").len(), 2);
        assert_eq!(read("connect = 'a' # auth", 0o644).expect("settings").len(), 1);
    }
}
