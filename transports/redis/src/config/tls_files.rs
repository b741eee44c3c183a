//! Makes the rustls configuration from the TLS settings. It reads the files and asks no server.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use rustls::{
    CertificateError, ClientConfig, Error, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};

use super::{system_error::words, tls::TlsConfig};

/// Whether a certificate can bear this name.
pub(super) fn is_server_name(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}

impl TlsConfig {
    /// Reads the files now. It blocks for as long as the file system does.
    ///
    /// # Errors
    /// A text with the setting, its file and the remedy.
    pub(crate) fn read(&self) -> Result<ClientConfig, String> {
        let trusted = match &self.ca {
            Some(file) => Arc::new(trusted_by(file)?),
            None => trusted_by_the_system()?,
        };
        // The provider is named explicitly. Another crate may have changed or left out the process's default
        // provider.
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be used: {error}"))?
            .with_root_certificates(trusted);
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else {
            return Ok(builder.with_no_client_auth());
        };
        let (chain, private) = (certificates("tls.cert", cert)?, private_key(key)?);
        builder.with_client_auth_cert(chain, private).map_err(|error| {
            let (cert, key) = (cert.display(), key.display());
            format!("`tls.cert` {cert} and `tls.key` {key} cannot be used: {}", fault(&error))
        })
    }
}

/// What is wrong with the file; what to do.
fn fault(error: &Error) -> &'static str {
    match error {
        Error::InvalidCertificate(CertificateError::Other(other))
            if format!("{other:?}").contains("CertVersion") =>
        {
            "the certificate has version 1; sign it with extensions (openssl x509 -extfile), which makes version 3"
        }
        Error::InvalidCertificate(_) => "the certificate cannot be read; make it anew, as X.509 of version 3",
        Error::InconsistentKeys(_) => {
            "the key belongs to another certificate; give a certificate and its key"
        }
        Error::General(_) => {
            "the key is of an unsupported kind; make one of RSA (2048 bits or more), P-256, P-384 or Ed25519"
        }
        _ => "the TLS library refuses them; make a certificate and its key anew",
    }
}

fn trusted_by(file: &Path) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in certificates("tls.ca", file)? {
        let unusable = |error| format!("`tls.ca` {} cannot be used: {}", file.display(), fault(&error));
        store.add(certificate).map_err(unusable)?;
    }
    Ok(store)
}

// A connection that is tried repeatedly must not parse about a hundred system certificates each time.
fn trusted_by_the_system() -> Result<Arc<RootCertStore>, String> {
    static TRUSTED: Mutex<Option<Arc<RootCertStore>>> = Mutex::new(None);
    let mut trusted = TRUSTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(store) = &*trusted {
        return Ok(store.clone());
    }
    Ok(trusted.insert(Arc::new(read_from_the_system()?)).clone())
}

// One invalid file does not make the other certificates unusable.
fn read_from_the_system() -> Result<RootCertStore, String> {
    let (mut store, found) = (RootCertStore::empty(), rustls_native_certs::load_native_certs());
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(format!("the system trusts no authority{why}; set `tls.ca`, or install ca-certificates"));
    }
    Ok(store)
}

fn certificates(setting: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = contents(setting, file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) | Err(_) => Err(format!(
            "`{setting}` {} holds no certificate; give a PEM file (-----BEGIN CERTIFICATE-----)",
            file.display()
        )),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let fault = |_| {
        let file = file.display();
        format!(
            "`tls.key` {file} holds no private key; give a PEM file with one that is not encrypted (-----BEGIN PRIVATE KEY-----)"
        )
    };
    PrivateKeyDer::from_pem_slice(&contents("tls.key", file)?).map_err(fault)
}

fn contents(setting: &str, file: &Path) -> Result<Vec<u8>, String> {
    let fault = |error| {
        let (file, why) = (file.display(), words(&error));
        format!("`{setting}` {file} cannot be read: {why}; correct the path or its rights")
    };
    fs::read(file).map_err(fault)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// A key that was made for this test, and a certificate of version 1 whose key was thrown away.
    const P521: &str = "-----BEGIN PRIVATE KEY-----
MIHuAgEAMBAGByqGSM49AgEGBSuBBAAjBIHWMIHTAgEBBEIBFxrShmINQpu7JtHL
ZYOz3zkQeH3mw4qlJzrgnxvcwftzHNOwTqBqA0G/2NcaYsn/QYM2hKFtEQZjmFs4
uOoxP7uhgYkDgYYABABE36U3LuNISPZ857zCiC2zy7pDlIYQMtmYHX4dCTwajQbH
qhr81iJTIIJAZp172WUBp5aTH7mIlpHTR+CUQ/mw5wBpK2+opx/VqsvPRGq6W0FS
q534ixIIP3DEjc/UQNJeCbp/OXF6TbCYrqCOsfkt6rA4wZUKOZLPgUundoM271nY
Lw==
-----END PRIVATE KEY-----
";
    const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIIBFDCBuwIUAujdQOYMk0L1WqFhw+6fN4WZBsswCgYIKoZIzj0EAwIwDDEKMAgG
A1UEAwwBYzAgFw0yNjExMjYwNzM0MDVaGA8yMTI2MTEwMjA3MzQwNVowDDEKMAgG
A1UEAwwBYzBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABD6O7g3R4BnrimYSAhvB
++bSPbZpe1TjKSCk66mtxrLUfS0bvnJBVFn9khARXoFZLTkCe3xQTySCBYz5Llzq
INMwCgYIKoZIzj0EAwIDSAAwRQIgZbzkXKkC9Z/xqRo9MwSi0Fh0tAJih1R7XnJC
GsMX99UCIQCM062/2Iux37/CO6n3JUKX3ldrknWJa5SA15TuG4Gy8g==
-----END CERTIFICATE-----
";

    /// A folder with a certificate, its key, and a file that is neither.
    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            let folder = Self(tempfile::tempdir().unwrap());
            let key = KeyPair::generate().unwrap();
            let cert = CertificateParams::new(["client".to_owned()]).unwrap().self_signed(&key).unwrap();
            let other = KeyPair::generate().unwrap();
            for (name, text) in [
                ("cert.pem", cert.pem()),
                ("key.pem", key.serialize_pem()),
                ("other.pem", other.serialize_pem()),
                (
                    "broken.pem",
                    "-----BEGIN CERTIFICATE-----\nhunter2\n-----END CERTIFICATE-----\n".to_owned(),
                ),
                ("nonsense.pem", "hunter2".to_owned()),
            ] {
                fs::write(folder.file(name), text).unwrap();
            }
            folder
        }

        fn file(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn tls(&self, ca: Option<&str>, client: Option<(&str, &str)>) -> TlsConfig {
            TlsConfig {
                ca: ca.map(|name| self.file(name)),
                cert: client.map(|(cert, _)| self.file(cert)),
                key: client.map(|(_, key)| self.file(key)),
                server_name: None,
            }
        }
    }

    #[test]
    fn good_files_are_read_with_and_without_a_client_certificate() {
        let folder = Folder::new();
        let config = folder.tls(Some("cert.pem"), None).read().unwrap();
        assert!(!config.client_auth_cert_resolver.has_certs());
        let config = folder.tls(Some("cert.pem"), Some(("cert.pem", "key.pem"))).read().unwrap();
        assert!(config.client_auth_cert_resolver.has_certs());
    }

    #[test]
    fn bad_files_are_named_with_their_setting_and_a_remedy_and_not_quoted() {
        let folder = Folder::new();
        for (ca, client, setting, said) in [
            ("none.pem", None, "`tls.ca`", "correct the path"),
            ("nonsense.pem", None, "`tls.ca`", "holds no certificate"),
            ("broken.pem", None, "`tls.ca`", "certificate"),
            ("key.pem", None, "`tls.ca`", "holds no certificate"),
            ("cert.pem", Some(("nonsense.pem", "key.pem")), "`tls.cert`", "holds no certificate"),
            ("cert.pem", Some(("cert.pem", "nonsense.pem")), "`tls.key`", "holds no private key"),
            ("cert.pem", Some(("cert.pem", "none.pem")), "`tls.key`", "correct the path"),
            ("cert.pem", Some(("cert.pem", "other.pem")), "`tls.key`", "a certificate and its key"),
        ] {
            let fault = folder.tls(Some(ca), client).read().unwrap_err();
            assert!(fault.contains(setting) && fault.contains(said), "{fault}");
            assert!(
                fault.contains(folder.0.path().to_str().unwrap()) && !fault.contains("hunter2"),
                "{fault}"
            );
        }
    }

    #[test]
    fn a_key_of_an_unsupported_kind_is_told_with_those_that_are_supported() {
        let folder = Folder::new();
        fs::write(folder.file("p521.pem"), P521).unwrap();
        let fault = folder.tls(Some("cert.pem"), Some(("cert.pem", "p521.pem"))).read().unwrap_err();
        assert!(fault.contains("P-384 or Ed25519") && !fault.contains("parse"), "{fault}");
    }

    #[test]
    fn a_certificate_of_version_1_is_told_with_its_cure() {
        let folder = Folder::new();
        fs::write(folder.file("v1.pem"), VERSION_1).unwrap();
        let fault = folder.tls(Some("cert.pem"), Some(("v1.pem", "key.pem"))).read().unwrap_err();
        assert!(fault.contains("has version 1; sign it with extensions"), "{fault}");
        assert!(!fault.contains("Other") && !fault.contains("peer"), "{fault}");
    }

    #[test]
    fn a_file_is_read_each_time() {
        let folder = Folder::new();
        let tls = folder.tls(Some("cert.pem"), None);
        tls.read().unwrap();
        fs::write(folder.file("cert.pem"), "").unwrap();
        assert!(tls.read().unwrap_err().contains("holds no certificate"));
    }
}
