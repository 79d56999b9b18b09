//! TLS: the roots that the client trusts, its certificate, and texts for failures. This module does
//! not use sockets.

use std::sync::Arc;
use std::{fmt, io};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct,
    Error, InvalidMessage, RootCertStore, SignatureScheme, StreamOwned,
};

use crate::listener::call_out;
use crate::sys::Mutex;

/// TLS settings of a client; see [`Builder::tls`](crate::Builder::tls).
///
/// The client supports TLS 1.2 and 1.3. A server must present a chain of certificates that ends at one
/// of the client's roots. Its certificate must be for the name in the connect string, which may be
/// an IP address. ZooKeeper listens for TLS at a separate port, its `secureClientPort`.
///
/// These methods neither block nor fail. If a setting is wrong, for example because PEM cannot be
/// parsed, [`connect`](crate::Builder::connect) fails with
/// [`BadArguments`](crate::ErrorKind::BadArguments), before it contacts a server. Cloning is cheap, and
/// clones share the certificates that were read.
///
/// ```no_run
/// use zoolock_zookeeper::{Tls, ZooKeeper};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tls = Tls::new()
///     .roots_pem(&std::fs::read("ca.pem")?)
///     .client_cert_pem(&std::fs::read("me.pem")?, &std::fs::read("me.key")?);
/// let zk = ZooKeeper::builder("zk1:2182,zk2:2182").tls(tls).connect()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use = "settings have no effect until they are passed to a client"]
pub struct Tls {
    /// `None` for the system's roots.
    roots: Option<RootCertStore>,
    identity: Option<Identity>,
    server_name: Option<ServerName<'static>>,
    any_name: bool,
    /// The first setting that was wrong.
    wrong: Option<String>,
    /// The configuration. It is created at the first connection and kept, so that later connections
    /// can resume the TLS session.
    made: Arc<Mutex<Option<Made>>>,
}

/// The certificate that the client presents.
#[derive(Clone)]
enum Identity {
    Fixed(Arc<CertifiedKey>),
    /// The function that reads it before each connection.
    Read(Arc<dyn Fn() -> io::Result<Pem> + Send + Sync>),
}

/// A certificate chain and its key.
type Pem = (Vec<u8>, Vec<u8>);

struct Made {
    /// The chain and the key, if they were read for this configuration.
    pem: Option<Pem>,
    config: Result<Arc<ClientConfig>, String>,
}

impl Tls {
    /// Trusts the system's root certificates, and does not present a client certificate.
    ///
    /// The first connection reads the roots, and later ones do not. On Linux they are in the usual
    /// places, or in the file and the directories that the environment variables `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR` name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these root certificates, in PEM, instead of the system's. Further calls add more roots.
    pub fn roots_pem(self, pem: &[u8]) -> Self {
        self.with(|tls| {
            let mut roots = tls.roots.take().unwrap_or_else(RootCertStore::empty);
            for root in certificates("the TLS roots", pem)? {
                let added = roots.add(root);
                added.map_err(|error| {
                    format!("a certificate of the TLS roots is invalid: {error}")
                })?;
            }
            tls.roots = Some(roots);
            Ok(())
        })
    }

    /// Presents a certificate to servers that request one: the `chain`, beginning with the client's own
    /// certificate, and the `key`, both in PEM. The key must be unencrypted, in PKCS #8, PKCS #1 or
    /// SEC 1. The client presents this certificate on all its connections, even after it has expired. To
    /// renew it, use [`client_cert_from`](Self::client_cert_from).
    pub fn client_cert_pem(self, chain: &[u8], key: &[u8]) -> Self {
        self.with(|tls| {
            tls.identity = Some(Identity::Fixed(identity(chain, key)?));
            Ok(())
        })
    }

    /// Presents a certificate like [`client_cert_pem`](Self::client_cert_pem), but calls `read` for the
    /// chain and the key before each connection. A renewed certificate is therefore used from the next
    /// connection on. If `read` fails, or the key does not match the certificate, the connection fails
    /// for this reason, and the client tries again. `read` must not wait for the client.
    ///
    /// ```no_run
    /// use std::fs;
    /// use zoolock_zookeeper::Tls;
    ///
    /// let tls = Tls::new().client_cert_from(|| Ok((fs::read("me.pem")?, fs::read("me.key")?)));
    /// # let _ = tls;
    /// ```
    pub fn client_cert_from(
        self,
        read: impl Fn() -> io::Result<(Vec<u8>, Vec<u8>)> + Send + Sync + 'static,
    ) -> Self {
        self.with(|tls| {
            tls.identity = Some(Identity::Read(Arc::new(read)));
            Ok(())
        })
    }

    /// Expects servers to have a certificate for this name or IP address, instead of the one in the
    /// connect string. Applies to all servers of the client.
    pub fn server_name(self, name: &str) -> Self {
        self.with(|tls| {
            tls.server_name = Some(parse_name(name)?);
            Ok(())
        })
    }

    /// Accepts any certificate that one of the roots has issued, for any server and whatever name it
    /// contains.
    ///
    /// Anyone who has *some* certificate of one of the roots can then impersonate the server. With the
    /// system's roots, that is anyone on the Internet.
    pub fn danger_accept_invalid_hostnames(self) -> Self {
        self.with(|tls| {
            tls.any_name = true;
            Ok(())
        })
    }

    /// Returns the client's side of a connection to `host`, which has no port and may be an IP
    /// address. Always fails when a setting is wrong, and when `host` cannot be in a certificate.
    pub(crate) fn connect(&self, host: &str) -> Result<ClientConnection, String> {
        let mut config = self.config()?;
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => parse_name(host)?,
        };
        // A name with an underscore is not a valid host name, and Java's servers refuse a handshake
        // that contains it.
        if matches!(&name, ServerName::DnsName(name) if name.as_ref().contains('_')) {
            Arc::make_mut(&mut config).enable_sni = false;
        }
        let mut connection =
            ClientConnection::new(config, name).map_err(|error| explain(&error))?;
        // The buffer has no limit: every write is sent at once, and no byte may be refused.
        connection.set_buffer_limit(None);
        Ok(connection)
    }

    /// Returns an encrypted stream over a connection to `host`, for tools that do not use the protocol
    /// of clients. `host` has no port. The first read or write also performs the handshake, and blocks
    /// as long as reads and writes of `stream` do.
    ///
    /// # Errors
    ///
    /// [`BadArguments`](crate::ErrorKind::BadArguments) if a setting is wrong, or if `host` cannot be
    /// in a certificate. A read or write fails with [`InvalidData`](io::ErrorKind::InvalidData) if the
    /// handshake fails.
    #[doc(hidden)]
    pub fn over<S: io::Read + io::Write>(
        &self,
        stream: S,
        host: &str,
    ) -> crate::Result<impl io::Read + io::Write + use<S>> {
        let connection = self.connect(host).map_err(crate::Error::bad)?;
        Ok(StreamOwned::new(connection, stream))
    }

    /// Returns the first wrong setting so far, if there is one, such as PEM that cannot be parsed. Does
    /// not check the system's roots.
    #[doc(hidden)]
    #[must_use]
    pub fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    /// Checks that these settings can be used, as [`connect`](crate::Builder::connect) does. Reads
    /// the system's roots if they are needed.
    ///
    /// # Errors
    ///
    /// [`BadArguments`](crate::ErrorKind::BadArguments), with the first wrong setting as its
    /// reason.
    #[doc(hidden)]
    pub fn check(&self) -> crate::Result<()> {
        self.config().map(drop).map_err(crate::Error::bad)
    }

    fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let pem = match &self.identity {
            Some(Identity::Read(read)) => {
                let mut pem = Err(io::Error::other("the function panicked"));
                call_out(|| pem = read());
                Some(pem.map_err(|error| {
                    format!("failed to read the client's certificate and key: {error}")
                })?)
            }
            Some(Identity::Fixed(_)) | None => None,
        };
        let mut made = self.made.lock();
        match &*made {
            Some(made) if made.pem == pem => made.config.clone(),
            _ => {
                let config = self.make_config(pem.as_ref());
                *made = Some(Made { pem, config: config.clone() });
                config
            }
        }
    }

    /// Creates the configuration, with the certificate in `pem` if it was read for this connection.
    fn make_config(&self, pem: Option<&Pem>) -> Result<Arc<ClientConfig>, String> {
        if let Some(wrong) = self.wrong() {
            return Err(wrong.to_owned());
        }
        let identity = match (&self.identity, pem) {
            (Some(Identity::Fixed(identity)), _) => Some(Arc::clone(identity)),
            (_, Some((chain, key))) => Some(identity(chain, key)?),
            (_, None) => None,
        };
        let roots = match &self.roots {
            Some(roots) => roots.clone(),
            None => system_roots()?,
        };
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
        let verifier: Arc<dyn ServerCertVerifier> = match verifier {
            Ok(verifier) if self.any_name => Arc::new(AnyName(verifier)),
            Ok(verifier) => verifier,
            Err(error) => return Err(format!("the TLS roots cannot be used: {error}")),
        };
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| explain(&error))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        Ok(Arc::new(match identity {
            Some(identity) => {
                config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
            }
            None => config.with_no_client_auth(),
        }))
    }

    fn with(mut self, change: impl FnOnce(&mut Self) -> Result<(), String>) -> Self {
        // Clones share the configuration, but this setting must not apply to them.
        self.made = Arc::default();
        let outcome = change(&mut self);
        self.wrong = self.wrong.or(outcome.err());
        self
    }
}

/// Prints without the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("roots", &self.roots.as_ref().map(RootCertStore::len))
            .field("client_cert", &self.identity.is_some())
            .field("server_name", &self.server_name)
            .field("any_name", &self.any_name)
            .field("wrong", &self.wrong)
            .finish_non_exhaustive()
    }
}

fn identity(chain: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, String> {
    let chain = certificates("the client's certificate chain", chain)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
        format!("the client's key is not an unencrypted private key in PEM: {error}")
    })?;
    let identity = CertifiedKey::from_der(chain, key, &provider())
        .map_err(|error| format!("the client's certificate and key cannot be used: {error}"))?;
    Ok(Arc::new(identity))
}

/// Returns the cryptography provider. It is fixed, so that nothing depends on the provider that a
/// program may have installed.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn parse_name(host: &str) -> Result<ServerName<'static>, String> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let name = ServerName::try_from(bare.unwrap_or(host)).map(|name| name.to_owned());
    name.map_err(|_| format!("`{host}` is neither a host name nor an IP address"))
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| format!("failed to parse the PEM of {what}: {error}"))?;
    if found.is_empty() {
        return Err(format!("{what}: the PEM does not contain a certificate"));
    }
    Ok(found)
}

fn system_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(": {error}"));
        let why = why.unwrap_or_default();
        return Err(format!("the system has no root certificates{why}"));
    }
    Ok(roots)
}

/// Checks everything except the name, which `WebPkiServerVerifier` checks last.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let checked =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match checked {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Returns the explanation of a TLS failure, as a part of a sentence.
pub(crate) fn explain(error: &Error) -> String {
    use InvalidMessage::*;
    match error {
        Error::InvalidCertificate(why) => explain_certificate(why),
        Error::AlertReceived(alert) => explain_alert(*alert),
        // Bytes of other protocols cause these errors.
        Error::InvalidMessage(
            InvalidContentType | UnknownProtocolVersion | InvalidEmptyPayload | MessageTooLarge,
        ) => "the server answered in plain text: is this its plain port?".into(),
        Error::NoCertificatesPresented => "the server did not present a certificate".into(),
        Error::PeerIncompatible(why) => {
            format!("the server and this client have no TLS version or cipher in common ({why:?})")
        }
        other => format!("TLS failed: {other}"),
    }
}

fn explain_certificate(error: &CertificateError) -> String {
    use CertificateError::*;
    let certificate = "the server's certificate";
    match error {
        UnknownIssuer => format!("{certificate} does not lead to a root that this client trusts"),
        NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            let names: Vec<String> = presented.iter().map(|name| plain_name(name)).collect();
            let names = match names.is_empty() {
                true => "no host at all (it has no subjectAltName)".to_owned(),
                false => names.join(", "),
            };
            format!("{certificate} is not valid for `{expected}`: it is for {names}")
        }
        ExpiredContext { time, not_after } => {
            let ago = roughly(time.as_secs().saturating_sub(not_after.as_secs()));
            format!("{certificate} expired {ago} ago, by the clock of this machine")
        }
        NotValidYetContext { time, not_before } => {
            let left = roughly(not_before.as_secs().saturating_sub(time.as_secs()));
            format!(
                "{certificate} is not valid yet: it becomes valid in {left}, by the clock of this machine"
            )
        }
        // The usual reason is that the certificate authority was created again with the same name.
        BadSignature => format!(
            "{certificate} has an invalid signature: was it issued by another authority of the same name?"
        ),
        InvalidPurpose | InvalidPurposeContext { .. } => {
            format!("{certificate} may not be used by servers (extendedKeyUsage)")
        }
        Other(why) if why.to_string() == "CaUsedAsEndEntity" => {
            format!("{certificate} is that of a certificate authority (CA:TRUE), not of a server")
        }
        other => format!("{certificate} is not valid: {other}"),
    }
}

/// Returns the name inside `DnsName("localhost")` or `IpAddress(127.0.0.1)`.
fn plain_name(presented: &str) -> String {
    let inner = presented.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    format!("`{}`", inner.unwrap_or(presented).trim_matches('"'))
}

fn roughly(seconds: u64) -> String {
    match seconds / 3600 {
        0..2 => format!("{} minutes", seconds / 60),
        hours @ 2..48 => format!("{hours} hours"),
        hours => format!("{} days", hours / 24),
    }
}

fn explain_alert(alert: AlertDescription) -> String {
    use AlertDescription::*;
    let what = match alert {
        CertificateRequired | NoCertificate => "the server requires a client certificate",
        // Java also sends this alert if the client did not present a certificate.
        BadCertificate => {
            "the server requires a client certificate, but received none or a bad one"
        }
        CertificateExpired => "the server rejected the client's certificate as expired",
        UnknownCA
        | CertificateUnknown
        | CertificateRevoked
        | UnsupportedCertificate
        | AccessDenied => "the server does not trust the client's certificate",
        HandshakeFailure | ProtocolVersion | InsufficientSecurity => {
            "the server and this client have no TLS version or cipher in common"
        }
        UnrecognisedName => "the server does not have a certificate for this name",
        _ => "the server closed the TLS connection",
    };
    format!("{what} (alert {alert:?})")
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey as Made, generate_simple_self_signed};

    use super::*;

    fn made() -> (String, String) {
        let Made { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (cert.pem(), signing_key.serialize_pem())
    }

    #[test]
    fn name_with_an_underscore_is_not_sent() {
        let (cert, _) = made();
        for (host, is_sent) in [("zk.example.org", true), ("zk_1.example.org", false)] {
            let mut connection = Tls::new().roots_pem(cert.as_bytes()).connect(host).unwrap();
            let mut hello = Vec::new();
            connection.write_tls(&mut hello).unwrap();
            let found = hello.windows(host.len()).any(|part| part == host.as_bytes());
            assert_eq!(found, is_sent, "{host}");
        }
    }

    #[test]
    fn connect_reports_invalid_tls_settings() {
        let ((cert, key), (other, _)) = (made(), made());
        let (cert, key, other) = (cert.as_bytes(), key.as_bytes(), other.as_bytes());
        let broken = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n".as_bytes();
        let empty = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n".as_bytes();
        let good = || Tls::new().roots_pem(cert);
        let cases = [
            (Tls::new().roots_pem(b"no PEM"), "the TLS roots: the PEM does not contain"),
            (Tls::new().roots_pem(broken), "failed to parse the PEM of the TLS roots"),
            (Tls::new().roots_pem(empty), "a certificate of the TLS roots is"),
            (
                good().client_cert_pem(b"", key),
                "the client's certificate chain: the PEM does not contain",
            ),
            (good().client_cert_pem(cert, cert), "not an unencrypted private key"),
            (good().client_cert_pem(other, key), "cannot be used"),
            (good().server_name("a b"), "`a b` is neither"),
            (Tls::new().roots_pem(b"").server_name("a b"), "the TLS roots: the PEM"),
        ];
        for (tls, expected) in cases {
            let (checked, connected) = (tls.check(), tls.connect("localhost"));
            println!("{checked:?}");
            assert!(connected.as_ref().unwrap_err().contains(expected));
            let checked = checked.unwrap_err();
            assert_eq!(connected.err().as_deref(), checked.reason());
        }
        assert!(good().client_cert_pem(cert, key).check().is_ok());
        assert!(good().connect("a b").is_err());
        for host in ["localhost", "127.0.0.1", "::1", "[::1]"] {
            assert!(good().connect(host).is_ok(), "{host}");
        }
    }
}
