//! A certificate authority of the test's own, and what it signs, as files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use leasehold_redis::TlsConfig;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

pub(crate) struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(crate) struct Signed {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        Self::named("ours")
    }

    pub(crate) fn named(name: &str) -> Self {
        let (folder, key) = (tempfile::tempdir().unwrap(), KeyPair::generate().unwrap());
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        write(folder.path(), "ca.pem", &params.self_signed(&key).unwrap().pem());
        Self { folder, issuer: Issuer::new(params, key) }
    }

    /// A certificate for these names and addresses that is valid for years.
    pub(crate) fn sign(&self, names: &[&str]) -> Signed {
        self.sign_until(names, 4000)
    }

    pub(crate) fn sign_until(&self, names: &[&str], year: i32) -> Signed {
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(year, 1, 1));
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let number = fs::read_dir(self.folder.path()).unwrap().count();
        Signed {
            cert: write(self.folder.path(), &format!("{number}.cert.pem"), &cert.pem()),
            key: write(self.folder.path(), &format!("{number}.key.pem"), &key.serialize_pem()),
        }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Trusts this authority, and shows no certificate.
    pub(crate) fn trusted(&self) -> TlsConfig {
        let mut tls = TlsConfig::default();
        tls.ca = Some(self.ca());
        tls
    }
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = folder.join(name);
    fs::write(&file, text).unwrap();
    file
}
