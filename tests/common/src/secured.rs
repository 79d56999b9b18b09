//! A server that requires TLS, a client certificate and a password. The client's credentials are in files.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use zoolock_test_support::Server;

/// A secured server with the users `bob` and `ann`.
pub struct Secured {
    pub server: Server,
    folder: TempDir,
}

/// The users' passwords. These strings appear nowhere else.
pub const BOB: &str = "kept-by-bob-4711";
pub const ANN: &str = "kept-by-ann-0815";

impl Secured {
    pub fn start() -> Secured {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let give_out = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new([name.to_owned()]).unwrap();
            (params.signed_by(&key, &authority).unwrap().pem(), key.serialize_pem())
        };
        let ((server, server_key), (client, client_key)) = (give_out("127.0.0.1"), give_out("me"));
        let folder = TempDir::new().unwrap();
        let files = [("ca.pem", authority.pem()), ("cert.pem", client), ("key.pem", client_key)];
        let server = Server::builder()
            .tls(&server, &server_key)
            .tls_clients(&authority.pem())
            .sasl_users(&[("bob", BOB), ("ann", ANN)])
            .property("sessionRequireClientSASLAuth", "true");
        let secured = Secured { server: server.start().unwrap(), folder };
        files.iter().for_each(|(name, text)| drop(secured.write(name, text)));
        secured
    }

    /// Returns the connect string for clients.
    pub fn hosts(&self) -> String {
        self.server.secure_address().to_string()
    }

    /// Returns the path of one of the files `ca.pem`, `cert.pem` and `key.pem`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes another file into the same folder. Only its owner can read it.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.file(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        file
    }

    /// Returns the secrets that `text` contains, in plain text or encoded.
    pub fn secrets_in(&self, text: &str) -> Vec<String> {
        let key = fs::read_to_string(self.file("key.pem")).unwrap();
        let key = key.lines().filter(|line| !line.starts_with("-----"));
        let secrets = [BOB, ANN].into_iter().chain(key).flat_map(disguises);
        secrets.filter(|secret| text.contains(secret)).collect()
    }
}

/// Returns a secret in plain text, in hex, as a list of bytes, and as a part of base64.
fn disguises(secret: &str) -> Vec<String> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let list = format!("{:?}", secret.as_bytes());
    let list = list.trim_matches(['[', ']']);
    let mut all = vec![secret.to_owned(), hex.to_uppercase(), hex, list.to_owned()];
    // In base64, the secret's position shifts its bits, and its first and last characters depend on their neighbours.
    for shift in 0..3 {
        let shifted = [&b"xx"[..shift], secret.as_bytes()].concat();
        let whole = base64(&shifted[..shifted.len() / 3 * 3]);
        all.push(whole[if shift == 0 { 0 } else { 4 }..].to_owned());
    }
    all
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[bits >> shift & 63]))
    };
    bytes.chunks_exact(3).flat_map(group).collect()
}
