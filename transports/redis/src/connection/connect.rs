//! Connecting to a server: the user, the secrets, the certificates, and the error texts.

use std::{io, sync::Arc, time::Duration};

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind as FredKind},
    interfaces::{ClientLike, EventInterface},
    types::config::{Config, ConnectionConfig, PerformanceConfig, ServerConfig},
};
use leasehold::transport::{ErrorKind, TransportError};
use tokio::{
    net::TcpStream,
    sync::broadcast,
    task::{AbortHandle, JoinHandle},
    time::timeout,
};
#[cfg(feature = "tls")]
use tokio_rustls::client::TlsStream;

use super::{
    files::read_files,
    local_socket::Credentials,
    plain_error,
    relay::{Cause, Relay},
    tls::Tls,
    tls_errors,
    traffic::Traffic,
};
use crate::{
    config::{Address, Password, RedisConfig, RedisTopology, TlsConfig},
    wire::{
        error_reply::{refusal, refused, refused_login},
        shown::shown,
    },
};

/// The credentials to authenticate with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// `username` and `password`.
    Server,
    /// `sentinel_username` and `sentinel_password`.
    Sentinel,
}

/// The server to connect to, and the credentials.
pub(crate) struct Target<'a> {
    pub(crate) config: &'a RedisConfig,
    pub(crate) address: &'a Address,
    pub(crate) login: Login,
}

/// A connected socket.
pub(super) enum Socket {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects and authenticates a fred client. A plain TCP connection takes at most `step`. The TLS handshake and the
/// login take several round trips, so each of them takes at most twice `step`.
///
/// # Errors
/// An error without effect, whose text says what to do. It never contains the password.
pub(super) async fn dial(
    target: &Target<'_>,
    step: Duration,
    traffic: Arc<Traffic>,
) -> Result<(Client, Router), TransportError> {
    let username = target.username().map(str::to_owned);
    let mut credentials = Credentials { username, password: read_password(target, step).await? };
    let relay = match connect(target, step).await? {
        Socket::Plain(socket) => Relay::start(socket, &mut credentials, traffic),
        #[cfg(feature = "tls")]
        Socket::Tls(socket) => Relay::start(socket, &mut credentials, traffic),
    };
    let relay = relay.map_err(|error| cannot_connect(target, &error.into(), step))?;
    let client = client(target, (relay.address(), credentials), step);
    let mut up = client.reconnect_rx();
    let mut router = Router { task: client.connect(), relay };
    // fred reports a failed first connection only by the end of its router task.
    tokio::select! {
        ended = &mut router.task => {
            let error = ended.ok().and_then(Result::err).unwrap_or_else(|| FredError::new(FredKind::IO, "closed"));
            let error = if is_said_by_the_server(&error) { error } else { router.cause().or(error) };
            return Err(cannot_connect(target, &error, step));
        }
        _ = up.recv() => {}
    }
    Ok((client, router))
}

/// Connects a socket within `step`. A TLS handshake takes at most twice `step` more.
///
/// # Errors
/// An error without effect, whose text says what to do.
pub(super) async fn connect(target: &Target<'_>, step: Duration) -> Result<Socket, TransportError> {
    let tls =
        Tls::read(target.tls(), step).await.map_err(|fault| misconfigured(target.in_its_section(&fault)))?;
    connect_with(target, tls, step).await.map_err(|error| cannot_connect(target, &error, step))
}

async fn connect_with(target: &Target<'_>, tls: Option<Tls>, step: Duration) -> Result<Socket, FredError> {
    let late = |_| FredError::new(FredKind::Timeout, "no answer");
    let socket = timeout(step, connect_socket(target)).await.map_err(late)??;
    match tls {
        None => Ok(Socket::Plain(socket)),
        #[cfg(feature = "tls")]
        Some(tls) => {
            let handshake = tls.handshake(target.server_name(), socket);
            let stream = timeout(step * SLOW_STEP, handshake).await.map_err(late)??;
            Ok(Socket::Tls(Box::new(stream)))
        }
        #[cfg(not(feature = "tls"))]
        Some(tls) => match tls {},
    }
}

async fn connect_socket(target: &Target<'_>) -> io::Result<TcpStream> {
    let socket = TcpStream::connect((target.address.host.as_str(), target.address.port)).await?;
    socket.set_nodelay(true)?;
    limit_unacknowledged(&socket, Duration::from_millis(target.config.tcp_user_timeout_ms))?;
    Ok(socket)
}

/// Lets the kernel close a connection whose bytes stay unacknowledged for `limit`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn limit_unacknowledged(socket: &TcpStream, limit: Duration) -> io::Result<()> {
    socket2::SockRef::from(socket).set_tcp_user_timeout(Some(limit))
}

/// Other systems have no such limit, or another name for it: the watchdog alone closes the connection there.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn limit_unacknowledged(_: &TcpStream, _: Duration) -> io::Result<()> {
    Ok(())
}

/// fred's router task, and the relay between fred and the server. Dropping it ends both.
pub(super) struct Router {
    pub(super) task: JoinHandle<Result<(), FredError>>,
    relay: Relay,
}

impl Router {
    /// Returns the handles that end both tasks. Unwritten requests are lost.
    pub(super) fn abort_handles(&self) -> [AbortHandle; 2] {
        [self.relay.abort_handle(), self.task.abort_handle()]
    }

    /// Returns the cause that has ended the connection, which fred may not know.
    pub(super) fn cause(&self) -> Cause {
        self.relay.cause()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Target<'_> {
    pub(super) fn username(&self) -> Option<&str> {
        match self.login {
            Login::Server => self.config.username.as_deref(),
            Login::Sentinel => self.config.sentinel_username.as_deref(),
        }
    }

    fn password(&self) -> Option<&Password> {
        match self.login {
            Login::Server => self.config.password.as_ref(),
            Login::Sentinel => self.config.sentinel_password.as_ref(),
        }
    }

    /// Returns the setting of this login for `username` or `password`.
    fn setting(&self, name: &str) -> String {
        match self.login {
            Login::Server => name.to_owned(),
            Login::Sentinel => format!("sentinel_{name}"),
        }
    }

    // Sentinels have no databases.
    pub(super) fn database(&self) -> Option<u8> {
        (self.login == Login::Server && self.config.database > 0).then_some(self.config.database)
    }

    /// Returns the name that the server's certificate must have.
    #[cfg(feature = "tls")]
    fn server_name(&self) -> String {
        let named = self.tls().and_then(|tls| tls.server_name);
        named.unwrap_or_else(|| self.address.host.clone())
    }

    fn tls(&self) -> Option<TlsConfig> {
        match self.login {
            Login::Server => self.config.tls.clone(),
            Login::Sentinel => self.config.tls_to_sentinels(),
        }
    }

    /// Returns what to do about an address that does not stand in `addresses`, but was announced. Empty: it stands there.
    fn announced(&self) -> String {
        let by = match (self.config.topology, self.login) {
            (RedisTopology::Single, _) | (_, Login::Sentinel) => return String::new(),
            (RedisTopology::Sentinel, Login::Server) => "the sentinels announce it",
            (RedisTopology::Cluster, _) if self.config.addresses.contains(self.address) => {
                return String::new();
            }
            (RedisTopology::Cluster, Login::Server) => "a node of the cluster announces it",
        };
        let map = &self.config.address_map;
        if map.values().any(|mapped| mapped.host == self.address.host) {
            return ", and the entry of `address_map` that leads to this address".to_owned();
        }
        format!(
            "; {by}: if clients reach it at another address, set that in `address_map`, for example \
             \"{}\" = \"10.0.0.7:6379\"",
            self.address
        )
    }

    /// Returns a text about TLS with the name of this login's section in it.
    fn in_its_section(&self, text: &str) -> String {
        let has_its_own = self.login == Login::Sentinel && self.config.sentinel_tls.is_some();
        if has_its_own { text.replace("`tls.", "`sentinel_tls.") } else { text.to_owned() }
    }

    /// Names the user and the source of the password, never the password.
    fn credentials(&self) -> String {
        let username = format!("`{}` {}", self.setting("username"), self.username().unwrap_or("default"));
        match (self.setting("password"), self.password()) {
            (setting, Some(password)) => format!("{username}, `{setting}` {password}"),
            (setting, None) => format!("{username}, no `{setting}`"),
        }
    }
}

fn client(
    target: &Target<'_>,
    (server, Credentials { username, password }): (ServerConfig, Credentials),
    step: Duration,
) -> Client {
    // RESP2 needs no `HELLO`, which proxies and ACL rules may refuse, and our replies are smaller in RESP2.
    let fred = Config { username, password, server, database: target.database(), ..Config::default() };
    let client = Client::new(fred, Some(performance(step)), Some(connection(step)), None);
    make_room_for_messages(&client);
    client
}

fn performance(step: Duration) -> PerformanceConfig {
    PerformanceConfig {
        default_command_timeout: step,
        broadcast_channel_capacity: EVENTS_MAX,
        ..PerformanceConfig::default()
    }
}

/// Gives the channel of messages its own capacity. fred has one setting for all of its nine event channels, and allocates
/// each in full at once: with `MESSAGES_MAX` places in each, a connection for notices took 12 MB. So the one channel that
/// carries something is replaced before the client connects. `inner` is hidden in fred's documentation, though public:
/// `tests/builds` checks that the oldest and the newest fred that we allow have it.
fn make_room_for_messages(client: &Client) {
    client.inner().notifications.pubsub.store(Arc::new(broadcast::channel(MESSAGES_MAX).0));
}

fn connection(step: Duration) -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: step,
        internal_command_timeout: step * SLOW_STEP,
        max_command_attempts: 1,
        max_redirections: 0,
        ..ConnectionConfig::default()
    }
}

/// Reads the password of the target, if it has one. A file is read within `step`.
///
/// # Errors
/// `Misconfigured`, with the setting and the remedy.
pub(super) async fn read_password(
    target: &Target<'_>,
    step: Duration,
) -> Result<Option<String>, TransportError> {
    let setting = target.setting("password");
    let Some(password) = target.password().cloned() else { return Ok(None) };
    let text = match password {
        Password::File(_) => {
            read_files(&format!("`{setting}` file"), move || password.read(&setting), step).await
        }
        Password::Value(_) | Password::Env(_) => password.read(&setting),
    };
    text.map(Some).map_err(misconfigured)
}

fn misconfigured(fault: String) -> TransportError {
    TransportError::without_effect(ErrorKind::Misconfigured, None, fault)
}

/// Returns the error for an operator.
pub(super) fn cannot_connect(target: &Target<'_>, error: &FredError, step: Duration) -> TransportError {
    let (address, details) = (target.address.to_string(), error.details());
    if is_said_by_the_server(error) && target.password().is_some() {
        return refused_login(&address, details, &target.credentials());
    }
    if let Some(refusal) = refusal(details) {
        return refused(&address, refusal, &format!("{} ({})", shown(details), target.credentials()));
    }
    if let Some(refusal) = tls_errors::refusal(details) {
        let said = tls_errors::fact(details).unwrap_or_default();
        let remedy = target.in_its_section(refusal.remedy);
        let remedy = if remedy.contains("`addresses`") { remedy + &target.announced() } else { remedy };
        let detail = format!("redis {address}: TLS failed: {said}; {remedy}");
        return TransportError::without_effect(refusal.kind, None, detail);
    }
    let (kind, why) = match error.kind() {
        FredKind::Timeout => {
            (ErrorKind::TimedOut, format!("no answer within {} ms", (step * SLOW_STEP).as_millis()))
        }
        _ => (ErrorKind::Unreachable, shown(&plain_error::plain(details))),
    };
    let timed_out = kind == ErrorKind::TimedOut;
    let hint = tls_errors::hint(details, timed_out, target.tls().is_some());
    let check = match target.announced() {
        announced if announced.is_empty() => format!("check `addresses`, and whether the server is up{hint}"),
        announced => format!("check whether the server is up{hint}{announced}"),
    };
    let detail = format!("redis {address}: cannot connect: {why}; {check}");
    TransportError::without_effect(kind, None, detail)
}

/// Whether the error is a server reply, or made from one, and not an error of fred itself.
fn is_said_by_the_server(error: &FredError) -> bool {
    !matches!(
        error.kind(),
        FredKind::IO | FredKind::Timeout | FredKind::Canceled | FredKind::Protocol | FredKind::Parse
    )
}

/// fred counts all commands of its setup as one (`PING` or `AUTH`, `SELECT`, `CLIENT ID`, `INFO`, one after the
/// other), and a TLS handshake takes up to two round trips. At 440 ms per round trip that is more than a second.
const SLOW_STEP: u32 = 2;

// fred allocates its nine event channels when it connects, and never frees them. Except for messages, they carry next to
// nothing.
const EVENTS_MAX: usize = 4;
// If more messages than this arrive at once, every watch counts a gap.
const MESSAGES_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use fred::types::{Message, MessageKind, Value, config::Server};

    use super::*;

    fn message() -> Message {
        let server = Server::from(("cache".to_owned(), 6379));
        Message { channel: "c".into(), value: Value::Integer(0), kind: MessageKind::Message, server }
    }

    /// What an operator reads if a server of this configuration refuses the connection.
    fn said(config: &RedisConfig, address: &Address, login: Login) -> String {
        let error = FredError::new(
            FredKind::IO,
            "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }",
        );
        cannot_connect(&Target { config, address, login }, &error, Duration::from_secs(1)).to_string()
    }

    #[test]
    fn of_an_announced_server_the_remedy_is_the_address_map() {
        let (named, announced) = (Address::new("named", 7000), Address::new("node-b.internal", 6379));
        let cluster = RedisConfig::cluster([named.clone()]);
        let sentinel = RedisConfig::sentinel([named.clone()], "main");
        for (config, by) in [(&cluster, "a node of the cluster"), (&sentinel, "the sentinels")] {
            let said = said(config, &announced, Login::Server);
            assert!(said.contains("`address_map`, for example \"node-b.internal:6379\" = \""), "{said}");
            assert!(said.contains(by) && !said.contains("`addresses`"), "{said}");
        }
        let mut mapped = cluster.clone();
        mapped.address_map.insert(Address::new("10.0.0.1", 6379), announced.clone());
        assert!(said(&mapped, &announced, Login::Server).contains("the entry of `address_map`"));
        for (config, address, login) in [
            (&cluster, &named, Login::Server),
            (&sentinel, &named, Login::Sentinel),
            (&RedisConfig::single("named", 7000), &named, Login::Server),
        ] {
            let said = said(config, address, login);
            assert!(said.contains("check `addresses`") && !said.contains("address_map"), "{said}");
        }
    }

    #[test]
    fn a_connection_for_notices_holds_a_burst_of_messages() {
        let client = Client::new(Config::default(), Some(performance(Duration::from_secs(1))), None, None);
        make_room_for_messages(&client);
        let mut messages = client.message_rx();
        (0..MESSAGES_MAX).for_each(|_| client.inner().notifications.broadcast_pubsub(message()));
        assert!(messages.try_recv().is_ok(), "the oldest was dropped");
        assert_eq!(messages.len(), MESSAGES_MAX - 1);
    }
}
