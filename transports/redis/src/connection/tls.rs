//! TLS on the socket to the server. fred has no part in it: where it is used, the relay gives it a local socket.

use std::time::Duration;

use crate::config::TlsConfig;

#[cfg(feature = "tls")]
pub(super) use self::by_rustls::Tls;
#[cfg(not(feature = "tls"))]
pub(super) use self::left_out::Tls;

#[cfg(feature = "tls")]
mod by_rustls {
    use std::sync::Arc;

    use fred::error::{Error as FredError, ErrorKind as FredKind};
    use rustls::{ClientConfig, pki_types::ServerName};
    use tokio::net::TcpStream;
    use tokio_rustls::{TlsConnector, client::TlsStream};

    use super::*;
    use crate::connection::files::read_files;

    /// What a handshake needs.
    pub(in crate::connection) struct Tls(ClientConfig);

    impl Tls {
        /// Reads the files of the settings within `step`.
        ///
        /// # Errors
        /// A text with the setting, its file and the remedy.
        pub(in crate::connection) async fn read(
            tls: Option<TlsConfig>,
            step: Duration,
        ) -> Result<Option<Self>, String> {
            let Some(tls) = tls else { return Ok(None) };
            read_files("`tls` files", move || tls.read(), step).await.map(|config| Some(Self(config)))
        }

        /// Connects as a client to the server of this name.
        pub(in crate::connection) async fn handshake(
            self,
            server_name: String,
            socket: TcpStream,
        ) -> Result<TlsStream<TcpStream>, FredError> {
            let name = ServerName::try_from(server_name)
                .map_err(|error| FredError::new(FredKind::IO, format!("{error:?}")))?;
            Ok(TlsConnector::from(Arc::new(self.0)).connect(name, socket).await?)
        }
    }
}

#[cfg(not(feature = "tls"))]
mod left_out {
    use super::*;
    use crate::config::WITHOUT_TLS;

    /// No handshake can be made.
    pub(in crate::connection) enum Tls {}

    impl Tls {
        /// Refuses settings of TLS.
        ///
        /// # Errors
        /// A text with the setting and the feature that it needs.
        pub(in crate::connection) async fn read(
            tls: Option<TlsConfig>,
            _step: Duration,
        ) -> Result<Option<Self>, String> {
            tls.map_or(Ok(None), |_| Err(format!("`tls` is set: {WITHOUT_TLS}")))
        }
    }
}
