//! TLS settings. `tls_files` makes the rustls configuration from them.

use std::path::PathBuf;

use serde::Deserialize;

/// TLS to servers and sentinels. Certificates are always verified, and a connection never falls back to plain TCP. The
/// settings need the feature `tls`, which is a default feature; without it,
/// [`RedisConfig::check`](crate::RedisConfig::check) refuses them.
///
/// The files are in PEM format. They are read again at each connect, so certificates can be rotated. The system's
/// certificates are read once per process.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TlsConfig {
    /// PEM file with the certificates of the trusted authorities. Default: those of the system.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// PEM file with the client's certificate chain. Requires `key`. Default: none.
    #[serde(default)]
    pub cert: Option<PathBuf>,
    /// PEM file with the client's private key. Requires `cert`. Default: none.
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// The name that the servers' certificates must have. Default: the host of each address.
    #[serde(default)]
    pub server_name: Option<String>,
}

/// TLS to the sentinels, if it differs from that of the servers: other files and names, or none.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SentinelTlsConfig {
    /// Whether connections to the sentinels are plain. If so, no other field may be set. Default: false.
    #[serde(default)]
    pub plain: bool,
    /// As [`TlsConfig::ca`].
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// As [`TlsConfig::cert`].
    #[serde(default)]
    pub cert: Option<PathBuf>,
    /// As [`TlsConfig::key`].
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// The name that the sentinels' certificates must have. Default: the host of each address.
    #[serde(default)]
    pub server_name: Option<String>,
}

impl SentinelTlsConfig {
    /// Plain connections to the sentinels, whatever the servers use.
    pub fn plain() -> Self {
        Self { plain: true, ..Self::default() }
    }

    pub(crate) fn tls(&self) -> Option<TlsConfig> {
        (!self.plain).then(|| self.files())
    }

    pub(super) fn files(&self) -> TlsConfig {
        let Self { plain: _, ca, cert, key, server_name } = self.clone();
        TlsConfig { ca, cert, key, server_name }
    }
}

impl From<TlsConfig> for SentinelTlsConfig {
    fn from(TlsConfig { ca, cert, key, server_name }: TlsConfig) -> Self {
        Self { plain: false, ca, cert, key, server_name }
    }
}
