//! TCP on the loopback address, to which every process of the machine can connect. fred's first request decides: it
//! must carry the password of the server, or, if there is none, a secret that this process has made for the connection.

use std::{io, net::Ipv4Addr, time::Duration};

use fred::types::config::ServerConfig;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use uuid::Uuid;

#[cfg(windows)]
use super::Accepted;
use super::Credentials;

#[cfg(windows)]
pub(in super::super) type Stream = TcpStream;

/// A socket that waits for fred.
pub(in super::super) struct Listener {
    listener: TcpListener,
    login: Vec<u8>,
    is_for_the_server: bool,
}

impl Listener {
    /// Listens at a port of its own. Credentials without a password get a secret.
    pub(in super::super) fn bind(credentials: &mut Credentials) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let is_for_the_server = credentials.password.is_some();
        let password = credentials.password.get_or_insert_with(|| Uuid::new_v4().to_string());
        let login = login(credentials.username.as_deref(), password);
        Ok(Self { listener: TcpListener::from_std(listener)?, login, is_for_the_server })
    }

    /// The address of the socket, for fred.
    pub(in super::super) fn address(&self) -> io::Result<ServerConfig> {
        let address = self.listener.local_addr()?;
        Ok(ServerConfig::new_centralized(address.ip().to_string(), address.port()))
    }

    /// Returns the first connection whose first request is the login. Others are closed.
    #[cfg(windows)]
    pub(in super::super) async fn accept(self) -> io::Result<Accepted> {
        let (stream, first_bytes) = self.accept_login().await?;
        Ok(Accepted { stream, first_bytes })
    }

    async fn accept_login(self) -> io::Result<(TcpStream, Vec<u8>)> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            if matches!(timeout(LOGIN_TIME, self.sends_the_login(&mut stream)).await, Ok(Ok(true))) {
                stream.set_nodelay(true)?;
                return self.answer(stream).await;
            }
        }
    }

    async fn sends_the_login(&self, stream: &mut TcpStream) -> io::Result<bool> {
        let mut sent = vec![0; self.login.len()];
        stream.read_exact(&mut sent).await?;
        Ok(sent == self.login)
    }

    /// A secret is no login for the server, so it is answered here.
    async fn answer(self, mut stream: TcpStream) -> io::Result<(TcpStream, Vec<u8>)> {
        if self.is_for_the_server {
            return Ok((stream, self.login));
        }
        stream.write_all(b"+OK\r\n").await?;
        Ok((stream, Vec::new()))
    }
}

/// The request by which fred logs in, in RESP2.
fn login(username: Option<&str>, password: &str) -> Vec<u8> {
    let words: Vec<_> = ["AUTH"].into_iter().chain(username).chain([password]).collect();
    let bulk = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), bulk.collect::<String>()).into_bytes()
}

/// fred sends the login as soon as it is connected.
const LOGIN_TIME: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use fred::{
        clients::Client,
        interfaces::ClientLike,
        types::config::{Config, ConnectionConfig},
    };

    use super::*;

    async fn fred_connects(mut credentials: Credentials) -> (Vec<u8>, Listener, Config) {
        let listener = Listener::bind(&mut credentials).unwrap();
        let server = listener.address().unwrap();
        let Credentials { username, password } = credentials;
        (listener.login.clone(), listener, Config { server, username, password, ..Config::default() })
    }

    /// What the relay passes to the server first, after fred has sent its first request.
    async fn first_bytes(credentials: Credentials) -> (TcpStream, Vec<u8>) {
        let (_, listener, config) = fred_connects(credentials).await;
        let once = ConnectionConfig { max_command_attempts: 1, ..ConnectionConfig::default() };
        let client = Client::new(config, None, Some(once), None);
        let connecting = client.connect();
        let accepted = listener.accept_login().await.unwrap();
        connecting.abort();
        accepted
    }

    fn named(username: Option<&str>, password: Option<&str>) -> Credentials {
        Credentials { username: username.map(str::to_owned), password: password.map(str::to_owned) }
    }

    #[tokio::test]
    async fn a_password_goes_to_the_server() {
        let (_, passed) = first_bytes(named(None, Some("pw"))).await;
        assert_eq!(passed, b"*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n");
        let (_, passed) = first_bytes(named(Some("app"), Some("pw"))).await;
        assert_eq!(passed, b"*3\r\n$4\r\nAUTH\r\n$3\r\napp\r\n$2\r\npw\r\n");
    }

    #[tokio::test]
    async fn a_secret_stays_here() {
        let (_, passed) = first_bytes(Credentials::default()).await;
        assert!(passed.is_empty(), "{passed:?}");
    }

    #[tokio::test]
    async fn a_process_that_does_not_know_the_secret_is_closed() {
        let (login, listener, _) = fred_connects(Credentials::default()).await;
        let port = listener.listener.local_addr().unwrap().port();
        let mut stranger = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let guess = super::login(None, &Uuid::new_v4().to_string());
        stranger.write_all(&guess).await.unwrap();
        let accepted = tokio::spawn(listener.accept_login());
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer).await;
        assert!(answer.is_empty(), "{answer:?}");
        let mut fred = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        fred.write_all(&login).await.unwrap();
        assert!(accepted.await.unwrap().is_ok());
    }
}
