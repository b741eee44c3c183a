//! One server of a deployment: its process, its own port, and the proxy in front of it if clients are to go through one.
//!
//! Everything takes `&self`, so a deployment can be shared by the threads of a test.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::harness::proxy::Proxy;
use crate::harness::raw_client::{Door, RawClient};
use crate::harness::redis_server::{RedisServer, RedisServerBuilder};
use crate::harness::resp::Value;

/// A data server or a sentinel of a deployment.
#[derive(Debug)]
pub struct Node {
    server: Mutex<RedisServer>,
    state: Mutex<State>,
    own_port: u16,
    door: Door,
    scheme: &'static str,
    password: Option<String>,
    /// The last one is announced; those before it are addresses it had.
    proxies: Mutex<Vec<Arc<Proxy>>>,
}

/// What the test has done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Stopped,
    Dead,
}

/// Whether clients and the other servers are told the server's own port or that of a proxy in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// Its own port.
    Direct,
    /// A proxy's port; the server's own is known to the harness alone.
    Proxied,
}

/// How a server is told the port that it announces.
pub(crate) type Announce = fn(RedisServerBuilder, u16) -> RedisServerBuilder;

impl Node {
    /// Starts it on a free port that `free_port` draws, with a proxy before it if asked for.
    pub(crate) fn start(
        recipe: &RedisServerBuilder,
        front: Front,
        free_port: fn() -> io::Result<u16>,
        announce: Announce,
    ) -> io::Result<Arc<Self>> {
        if front == Front::Proxied && recipe.speaks_tls() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the proxy does not understand TLS"));
        }
        let mut collisions = 0;
        loop {
            // The proxy first: its port is on the server's command line. Somebody may take the server's meanwhile.
            let port = free_port()?;
            let proxy = (front == Front::Proxied).then(|| Proxy::start(port)).transpose()?;
            let announced = proxy.as_ref().map_or(port, Proxy::port);
            match announce(recipe.clone().port(port), announced).start() {
                Ok(server) => return Ok(Arc::new(Self::of(server, proxy, recipe))),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && collisions < COLLISIONS_MAX => {
                    collisions += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn of(server: RedisServer, proxy: Option<Proxy>, recipe: &RedisServerBuilder) -> Self {
        Self {
            own_port: server.port(),
            door: server.door(),
            scheme: if recipe.speaks_tls() { "rediss" } else { "redis" },
            server: Mutex::new(server),
            state: Mutex::new(State::Running),
            password: recipe.default_password().map(str::to_owned),
            proxies: Mutex::new(proxy.into_iter().map(Arc::new).collect()),
        }
    }

    /// The port that it announces to clients and to the other servers: its own, or its proxy's.
    pub fn port(&self) -> u16 {
        self.proxy().map_or(self.own_port, |proxy| proxy.port())
    }

    /// The port that its process listens on.
    pub fn own_port(&self) -> u16 {
        self.own_port
    }

    /// `redis://127.0.0.1:<port>`, or `rediss://` if it speaks TLS.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port())
    }

    pub(crate) fn speaks_tls(&self) -> bool {
        self.scheme == "rediss"
    }

    /// The proxy in front of it, if it was asked for.
    pub fn proxy(&self) -> Option<Arc<Proxy>> {
        locked(&self.proxies).last().cloned()
    }

    /// All proxies it ever had, the present one last.
    pub fn proxies(&self) -> Vec<Arc<Proxy>> {
        locked(&self.proxies).clone()
    }

    /// Puts another proxy in front of it, for a new address. The earlier one goes on working.
    pub(crate) fn add_proxy(&self) -> io::Result<u16> {
        let proxy = Proxy::start(self.own_port)?;
        let port = proxy.port();
        locked(&self.proxies).push(Arc::new(proxy));
        Ok(port)
    }

    pub(crate) fn option_of_next_life(&self, name: &str, value: &str) {
        locked(&self.server).option_of_next_life(name, value);
    }

    /// The process id of its present life.
    pub fn pid(&self) -> u32 {
        locked(&self.server).pid()
    }

    /// What it has written to its log in its present life.
    pub fn log(&self) -> String {
        locked(&self.server).log()
    }

    /// A new connection past any proxy and without TLS, logged in as the default user.
    ///
    /// # Errors
    /// When it does not accept, or refuses the password.
    pub fn client(&self) -> io::Result<RawClient> {
        let mut client = RawClient::connect_to(&self.door, PATIENCE)?;
        if let Some(password) = &self.password {
            accepted(client.command(&["AUTH", password])?, "AUTH")?;
        }
        Ok(client)
    }

    /// The answer to one command, on a connection of its own.
    ///
    /// # Errors
    /// When it does not answer. An error of the server is a value.
    pub fn command<A: AsRef<[u8]>>(&self, arguments: &[A]) -> io::Result<Value> {
        self.client()?.command(arguments)
    }

    /// As [`Self::command`], and an error of the server is an error.
    pub(crate) fn done<A: AsRef<[u8]>>(&self, arguments: &[A]) -> io::Result<Value> {
        let name = arguments.iter().take(3).map(|word| String::from_utf8_lossy(word.as_ref()).into_owned());
        accepted(self.command(arguments)?, &name.collect::<Vec<_>>().join(" "))
    }

    /// One field of `INFO <section>`.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn info(&self, section: &str, field: &str) -> io::Result<Option<String>> {
        let text = self.done(&["INFO", section])?.text().unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(line.map(|value| value.trim().to_owned()))
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// Whether it is neither stopped nor dead, as far as the test did it.
    pub fn runs(&self) -> bool {
        *locked(&self.state) == State::Running
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// When the signal is refused.
    pub fn kill(&self) -> io::Result<()> {
        locked(&self.server).kill()?;
        self.is_now(State::Dead)
    }

    /// SIGSTOP: it answers nothing; what arrives is executed after [`Self::cont`].
    ///
    /// # Errors
    /// When it has ended.
    pub fn stop(&self) -> io::Result<()> {
        locked(&self.server).stop()?;
        self.is_now(State::Stopped)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cont(&self) -> io::Result<()> {
        locked(&self.server).cont()?;
        self.is_now(State::Running)
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Errors
    /// When it has ended before.
    pub fn shutdown(&self) -> io::Result<()> {
        locked(&self.server).shutdown()?;
        self.is_now(State::Dead)
    }

    /// Kills it if it still runs and starts it again, on the same port and directory.
    ///
    /// # Errors
    /// When it does not start.
    pub fn restart(&self) -> io::Result<()> {
        locked(&self.server).restart()?;
        self.is_now(State::Running)
    }

    fn is_now(&self, state: State) -> io::Result<()> {
        *locked(&self.state) = state;
        Ok(())
    }
}

/// The reply, unless it is an error.
pub(crate) fn accepted(reply: Value, to: &str) -> io::Result<Value> {
    match reply.error() {
        Some(why) => Err(io::Error::other(format!("{to} answered: {why}"))),
        None => Ok(reply),
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A test that has panicked must not keep the others from ending what they started.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Far above any answer of a loopback server that runs; a test that stops one by itself must not hang on it.
const PATIENCE: Duration = Duration::from_secs(2);
const COLLISIONS_MAX: u32 = 10;
