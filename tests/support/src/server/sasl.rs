//! The SASL users of a server.

use std::fmt::{self, Write};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The lines in `zoo.cfg` for SASL. From 3.10 on DIGEST-MD5 has to be allowed.
pub(crate) const LINES: &str = "\
    authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n\
    fips-mode=false\n";

/// The names and passwords of the users.
#[derive(Clone)]
pub(crate) struct Users(Vec<(String, String)>);

impl Users {
    pub(crate) fn new(users: &[(&str, &str)]) -> Self {
        let owned = |&(name, password): &(&str, &str)| (name.to_owned(), password.to_owned());
        Self(users.iter().map(owned).collect())
    }

    /// Writes the configuration that Java reads at its start.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
        let mut text = format!("Server {{\n    {module} required");
        for (name, password) in &self.0 {
            let password = password.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = write!(text, "\n    \"user_{name}\"=\"{password}\"");
        }
        text.push_str(";\n};\n");
        fs::write(file(folder), text)
    }
}

/// Prints without the passwords.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

pub(crate) fn file(folder: &Path) -> PathBuf {
    folder.join("jaas.conf")
}
