//! TLS settings.

use std::path::PathBuf;

use serde::Deserialize;

/// TLS to servers and sentinels; certificates are always verified, and there is no way back to plain.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file with the certificates of the authorities to trust. Default: those of the system.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// PEM file with the client's certificate chain; needs `key`. Default: none.
    #[serde(default)]
    pub cert: Option<PathBuf>,
    /// PEM file with the client's private key; needs `cert`. Default: none.
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// The name that the servers' certificates must bear. Default: the host of each address.
    #[serde(default)]
    pub server_name: Option<String>,
}
