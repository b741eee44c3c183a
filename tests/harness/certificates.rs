//! Certificates of one test run: those that are to be accepted, and those that are to be refused.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tempfile::TempDir;

/// PEM files in a directory that goes with the last clone. Servers that use them keep one.
#[derive(Clone, Debug)]
pub struct Certificates(Arc<Files>);

#[derive(Debug)]
struct Files {
    dir: TempDir,
}

/// What a server or a client shows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A server at `127.0.0.1`, `::1` and `localhost`.
    Server,
    /// The same, but its time was over in 2020.
    ExpiredServer,
    /// A server that is called `elsewhere.example` and has no address.
    ServerElsewhere,
    /// A server at the right place whose authority nobody here knows.
    StrangeServer,
    /// A client.
    Client,
    /// A client whose authority the servers do not know.
    StrangeClient,
}

impl Certificates {
    /// Makes an authority and one certificate for each [`Identity`].
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn new() -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("leasehold-certificates-").tempdir()?;
        let certificates = Self(Arc::new(Files { dir }));
        let (known, unknown) = (authority("known")?, authority("unknown")?);
        fs::write(certificates.authority(), known.pem())?;
        fs::write(certificates.unknown_authority(), unknown.pem())?;
        for identity in Identity::ALL {
            let issuer = if identity.is_strange() { &unknown } else { &known };
            certificates.issue(identity, issuer)?;
        }
        Ok(certificates)
    }

    /// The certificate of the authority that signed all but the strange ones.
    pub fn authority(&self) -> PathBuf {
        self.path("authority.pem")
    }

    /// The certificate of the authority that signed the strange ones.
    pub fn unknown_authority(&self) -> PathBuf {
        self.path("unknown-authority.pem")
    }

    /// The certificate's file.
    pub fn certificate(&self, identity: Identity) -> PathBuf {
        self.path(&format!("{}.pem", identity.name()))
    }

    /// The file of its private key, PKCS#8.
    pub fn key(&self, identity: Identity) -> PathBuf {
        self.path(&format!("{}.key", identity.name()))
    }

    /// Where they all are.
    pub fn dir(&self) -> &Path {
        self.0.dir.path()
    }

    fn issue(&self, identity: Identity, issuer: &CertifiedIssuer<'_, KeyPair>) -> io::Result<()> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = identity.params()?.signed_by(&key, issuer).map_err(io::Error::other)?;
        fs::write(self.certificate(identity), certificate.pem())?;
        fs::write(self.key(identity), key.serialize_pem())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }
}

impl Identity {
    const ALL: [Self; 6] = [
        Self::Server,
        Self::ExpiredServer,
        Self::ServerElsewhere,
        Self::StrangeServer,
        Self::Client,
        Self::StrangeClient,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::ExpiredServer => "expired-server",
            Self::ServerElsewhere => "server-elsewhere",
            Self::StrangeServer => "strange-server",
            Self::Client => "client",
            Self::StrangeClient => "strange-client",
        }
    }

    fn is_strange(self) -> bool {
        matches!(self, Self::StrangeServer | Self::StrangeClient)
    }

    /// The names that it stands for. Text that is an address becomes one.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Server | Self::ExpiredServer | Self::StrangeServer => &["127.0.0.1", "::1", "localhost"],
            Self::ServerElsewhere => &["elsewhere.example"],
            Self::Client | Self::StrangeClient => &["client.example"],
        }
    }

    fn params(self) -> io::Result<CertificateParams> {
        let names: Vec<String> = self.names().iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, self.name());
        // A server is a client of its master, and of the other nodes.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = match self {
            Self::ExpiredServer => date_time_ymd(2020, 1, 1),
            _ => date_time_ymd(2099, 1, 1),
        };
        Ok(params)
    }
}

fn authority(name: &str) -> io::Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("{name} authority"));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = date_time_ymd(2019, 1, 1);
    params.not_after = date_time_ymd(2099, 1, 1);
    let key = KeyPair::generate().map_err(io::Error::other)?;
    CertifiedIssuer::self_signed(params, key).map_err(io::Error::other)
}
