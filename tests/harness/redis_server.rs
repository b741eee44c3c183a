//! Debian's `redis-server` on a free loopback port, without persistence unless asked for.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::polling::found_within;
use crate::harness::port::{CLUSTER_BUS_OFFSET, free_cluster_port, free_port};
use crate::harness::raw_client::{Door, RawClient};
use crate::harness::secrets;
use crate::harness::server::{ServerCommand, ServerProcess};
use crate::harness::server_tls::ServerTls;
use crate::harness::server_version::ServerVersion;

/// A server of one test. Dropping it kills and reaps it, and takes its directory away.
#[derive(Debug)]
pub struct RedisServer {
    // Fields drop in this order: the process must not write into a directory that is being removed.
    process: ServerProcess,
    recipe: RedisServerBuilder,
    port: u16,
    lives: u32,
    dir: TempDir,
}

/// How to start a [`RedisServer`].
#[derive(Clone, Debug)]
pub struct RedisServerBuilder {
    program: PathBuf,
    remedy: String,
    arguments: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    port: Option<u16>,
    password: Option<String>,
    users: Vec<String>,
    tls: Option<ServerTls>,
    role: Role,
}

/// What the process is started as.
#[derive(Clone, Debug)]
enum Role {
    Server,
    ClusterNode,
    /// With the text of its first configuration file, which it rewrites from then on.
    Sentinel(String),
}

impl RedisServer {
    /// A server with no persistence and no password, answering when this returns.
    ///
    /// # Errors
    /// When `redis-server` is not installed (`apt-get install redis-server`) or did not start; the error carries its log.
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// A server with other settings.
    pub fn builder() -> RedisServerBuilder {
        RedisServerBuilder {
            program: ServerVersion::Debian.program(),
            remedy: ServerVersion::Debian.remedy(),
            arguments: Vec::new(),
            env: Vec::new(),
            port: None,
            password: None,
            users: Vec::new(),
            tls: None,
            role: Role::Server,
        }
    }

    /// Its port on 127.0.0.1; the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:<port>`, or `rediss://` if it speaks TLS.
    pub fn url(&self) -> String {
        let scheme = if self.recipe.tls.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// Where it answers without TLS: its port, or a socket file if its port wants TLS.
    pub fn door(&self) -> Door {
        self.recipe.door(self.port, self.dir.path())
    }

    /// The process id of its present life.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its data directory, kept through restarts.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What it has written to its log in its present life.
    pub fn log(&self) -> String {
        log_of(self.dir.path(), self.lives)
    }

    /// A new raw connection to its [`Self::door`], not logged in.
    ///
    /// # Errors
    /// When it does not accept.
    pub fn client(&self) -> io::Result<RawClient> {
        self.client_within(PATIENCE)
    }

    /// As [`Self::client`], with another patience.
    ///
    /// # Errors
    /// When it does not accept.
    pub fn client_within(&self, patience: Duration) -> io::Result<RawClient> {
        RawClient::connect_to(&self.door(), patience)
    }

    /// SIGKILL: what it had not written to disk is lost.
    ///
    /// # Errors
    /// When the signal is refused.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()
    }

    /// SIGSTOP: it accepts connections (the kernel does) and answers nothing. What arrives is executed after [`Self::cont`].
    ///
    /// # Errors
    /// When it has ended.
    pub fn stop(&mut self) -> io::Result<()> {
        self.process.stop()
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cont(&mut self) -> io::Result<()> {
        self.process.cont()
    }

    /// SIGTERM and waits for the end: it writes what it persists.
    ///
    /// # Errors
    /// When it has ended before, or ends with a failure.
    pub fn shutdown(&mut self) -> io::Result<()> {
        self.process.terminate()
    }

    /// Adds an option for the lives after the next [`Self::restart`].
    pub fn option_of_next_life(&mut self, name: &str, value: &str) {
        self.recipe = self.recipe.clone().option(name, value);
    }

    /// Kills it if it still runs and starts it again on the same port and directory, with the same settings.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn restart(&mut self) -> io::Result<()> {
        self.process.kill()?;
        self.lives += 1;
        self.process = self.recipe.launch(self.port, self.lives, self.dir.path())?;
        Ok(())
    }
}

impl RedisServerBuilder {
    /// Adds an option as the command line takes it: `option("--maxmemory", "2mb")`. A later one overrides an earlier.
    #[must_use]
    pub fn option(self, name: &str, value: &str) -> Self {
        self.arguments([name, value])
    }

    /// Adds arguments as they are, for options with several values.
    #[must_use]
    pub fn arguments<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Adds an ACL user as `ACL SETUSER` takes it: `acl_user("app on >hunter2 ~app:* +@all")`.
    #[must_use]
    pub fn acl_user(mut self, rule: &str) -> Self {
        self.users.push(rule.to_owned());
        self
    }

    /// The password of the default user.
    #[must_use]
    pub fn password(self, password: &str) -> Self {
        Self { password: Some(password.to_owned()), ..self.option("--requirepass", password) }
    }

    /// The password of the default user, if one was given.
    pub(crate) fn default_password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// Writes every command to disk before it is answered, so a kill loses nothing.
    #[must_use]
    pub fn append_only(self) -> Self {
        self.option("--appendonly", "yes").option("--appendfsync", "always")
    }

    /// Sets variables of its environment, for one those of a clock shim.
    #[must_use]
    pub fn env(mut self, pairs: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.env.extend(pairs);
        self
    }

    /// Another program that takes Redis' command line: `valkey-server`, or a path.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = program.into();
        self
    }

    /// One of the versions that tests run on.
    #[must_use]
    pub fn version(self, version: ServerVersion) -> Self {
        Self { remedy: version.remedy(), ..self.program(version.program()) }
    }

    /// TLS on its port and nothing else. Debian's server is the only one here that can.
    #[must_use]
    pub fn tls(self, tls: &ServerTls) -> Self {
        Self { tls: Some(tls.clone()), ..self }
    }

    /// This port instead of a free one; then a taken port is an error.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// A node of a cluster: alone and without slots as yet. Its bus port is [`CLUSTER_BUS_OFFSET`] above its port.
    #[must_use]
    pub fn cluster_node(self) -> Self {
        let node = self.option("--cluster-enabled", "yes").option("--cluster-config-file", "nodes.conf");
        Self { role: Role::ClusterNode, ..node.option("--cluster-announce-ip", "127.0.0.1") }
    }

    /// A sentinel that starts with this configuration file and rewrites it as it learns, through restarts.
    #[must_use]
    pub fn sentinel(self, config: &str) -> Self {
        Self { role: Role::Sentinel(config.to_owned()), ..self }
    }

    /// Starts it and waits until it answers.
    ///
    /// # Errors
    /// As [`RedisServer::start`].
    pub fn start(self) -> io::Result<RedisServer> {
        secrets::watch();
        let dir = tempfile::Builder::new().prefix("leasehold-redis-").tempdir()?;
        let (process, port) = match self.port {
            Some(port) => (self.launch(port, FIRST_LIFE, dir.path())?, port),
            None => self.launch_on_free_port(dir.path())?,
        };
        Ok(RedisServer { process, recipe: self, port, lives: FIRST_LIFE, dir })
    }

    /// Between looking for a free port and binding it another test may take it: then the next port.
    fn launch_on_free_port(&self, dir: &Path) -> io::Result<(ServerProcess, u16)> {
        let mut collisions = 0;
        loop {
            let port = self.role.free_port()?;
            match self.launch(port, FIRST_LIFE, dir) {
                Ok(process) => return Ok((process, port)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && collisions < COLLISIONS_MAX => {
                    collisions += 1
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn launch(&self, port: u16, life: u32, dir: &Path) -> io::Result<ServerProcess> {
        self.write_config(dir)?;
        let mut process = ServerProcess::start(&self.command(port, life, dir))?;
        let began = Instant::now();
        let ready =
            found_within(READY_WITHIN, || self.answer_or_end(&mut process, port, life, dir).transpose());
        let why = match ready {
            Some(Ok(Readiness::Answers)) => return Ok(process),
            Some(Ok(Readiness::Ended(how))) => how,
            Some(Err(error)) => error.to_string(),
            None => format!("no PONG after {:?}", began.elapsed()),
        };
        Err(failed_start(&self.program, port, &why, &log_of(dir, life)))
    }

    /// Nothing as long as it is neither.
    fn answer_or_end(
        &self,
        process: &mut ServerProcess,
        port: u16,
        life: u32,
        dir: &Path,
    ) -> io::Result<Option<Readiness>> {
        if let Some(status) = process.ended()? {
            return Ok(Some(Readiness::Ended(format!("it ended: {status}"))));
        }
        // The log first: a PONG alone may come from another server that took the port before ours could.
        let ready = log_of(dir, life).contains(self.role.ready_line()) && pongs(&self.door(port, dir));
        Ok(ready.then_some(Readiness::Answers))
    }

    /// A sentinel's file is its memory: it is written once and kept through restarts.
    fn write_config(&self, dir: &Path) -> io::Result<()> {
        match &self.role {
            Role::Sentinel(text) if !sentinel_config(dir).exists() => {
                let users: String = self.users.iter().map(|rule| format!("user {rule}\n")).collect();
                fs::write(sentinel_config(dir), users + text)
            }
            Role::Server | Role::ClusterNode | Role::Sentinel(_) => Ok(()),
        }
    }

    /// A sentinel writes its users into its file, and refuses to hear of them twice.
    fn user_arguments(&self) -> Vec<OsString> {
        let user = |rule: &String| {
            let words: Vec<OsString> = rule.split_whitespace().map(OsString::from).collect();
            [vec!["--user".into()], words].concat()
        };
        match self.role {
            Role::Sentinel(_) => Vec::new(),
            Role::Server | Role::ClusterNode => self.users.iter().flat_map(user).collect(),
        }
    }

    fn listening(&self, port: u16, dir: &Path) -> Vec<OsString> {
        let bound = ["--bind".into(), "127.0.0.1".into()].into_iter();
        let number = OsString::from(port.to_string());
        match &self.tls {
            None => bound.chain(["--port".into(), number]).collect(),
            Some(tls) => {
                let ports = ["--port".into(), "0".into(), "--tls-port".into(), number];
                let socket = ["--unixsocket".into(), socket_path(dir).into()];
                bound.chain(ports).chain(socket).chain(tls.arguments()).collect()
            }
        }
    }

    fn door(&self, port: u16, dir: &Path) -> Door {
        match self.tls {
            None => Door::Port(port),
            Some(_) => Door::Socket(socket_path(dir)),
        }
    }

    pub(crate) fn speaks_tls(&self) -> bool {
        self.tls.is_some()
    }

    fn command(&self, port: u16, life: u32, dir: &Path) -> ServerCommand {
        let mut arguments = self.role.first_arguments(port, dir);
        arguments.extend(self.listening(port, dir));
        arguments.extend(["--dir".into(), dir.into()]);
        arguments.extend(["--save", "", "--appendonly", "no", "--daemonize", "no"].map(Into::into));
        arguments.extend(self.user_arguments());
        arguments.extend(self.arguments.iter().cloned());
        let (program, env) = (self.program.clone(), self.env.clone());
        ServerCommand { program, arguments, env, log: log_path(dir, life), remedy: self.remedy.clone() }
    }
}

impl Role {
    fn free_port(&self) -> io::Result<u16> {
        match self {
            Self::ClusterNode => free_cluster_port(),
            Self::Server | Self::Sentinel(_) => free_port(),
        }
    }

    fn first_arguments(&self, port: u16, dir: &Path) -> Vec<OsString> {
        match self {
            Self::Server => Vec::new(),
            Self::ClusterNode => {
                vec!["--cluster-announce-bus-port".into(), (port + CLUSTER_BUS_OFFSET).to_string().into()]
            }
            Self::Sentinel(_) => vec![sentinel_config(dir).into(), "--sentinel".into()],
        }
    }

    /// Redis and Valkey print it, at the default log level, when the port is bound and the data is loaded.
    fn ready_line(&self) -> &'static str {
        match self {
            Self::Server | Self::ClusterNode => "Ready to accept connections",
            Self::Sentinel(_) => "Sentinel ID is",
        }
    }
}

fn sentinel_config(dir: &Path) -> PathBuf {
    dir.join("sentinel.conf")
}

enum Readiness {
    Answers,
    Ended(String),
}

/// A server that wants a password first is up, too.
fn pongs(door: &Door) -> bool {
    let answer = RawClient::connect_to(door, PING_WITHIN).and_then(|mut client| client.command(&["PING"]));
    answer.is_ok_and(|answer| {
        answer.text().as_deref() == Some("PONG")
            || answer.error().is_some_and(|why| why.starts_with("NOAUTH"))
    })
}

fn failed_start(program: &Path, port: u16, why: &str, log: &str) -> io::Error {
    let kind = match log.contains("Address already in use") {
        true => io::ErrorKind::AddrInUse,
        false => io::ErrorKind::Other,
    };
    io::Error::new(
        kind,
        format!("{} did not start on port {port}: {why}; its log:\n{log}", program.display()),
    )
}

fn log_of(dir: &Path, life: u32) -> String {
    fs::read(log_path(dir, life)).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
}

fn socket_path(dir: &Path) -> PathBuf {
    dir.join("door.sock")
}

fn log_path(dir: &Path, life: u32) -> PathBuf {
    dir.join(format!("server-{life}.log"))
}

const FIRST_LIFE: u32 = 1;

/// A server is up after about 10 ms; a machine that compiles on all cores needs more.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Far above any answer of a loopback server, so only a fault reaches it.
const PATIENCE: Duration = Duration::from_secs(5);
const PING_WITHIN: Duration = Duration::from_secs(1);
const COLLISIONS_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_answers_when_started_and_forgets_when_killed() {
        let mut server = RedisServer::start().expect("a server");
        let (first_pid, port) = (server.pid(), server.port());
        server.client().expect("a connection").command(&["SET", "k", "v"]).expect("a reply");
        server.restart().expect("restarted");
        assert_eq!(server.port(), port);
        assert_ne!(server.pid(), first_pid);
        let forgotten = server.client().expect("a connection").command(&["GET", "k"]).expect("a reply");
        assert!(forgotten.is_nil());
    }

    #[test]
    fn with_append_only_a_kill_loses_nothing() {
        let mut server = RedisServer::builder().append_only().start().expect("a server");
        server.client().expect("a connection").command(&["SET", "k", "v"]).expect("a reply");
        server.kill().expect("killed");
        server.restart().expect("restarted");
        let kept = server.client().expect("a connection").command(&["GET", "k"]).expect("a reply");
        assert_eq!(kept.text().as_deref(), Some("v"));
    }

    #[test]
    fn a_stopped_server_executes_what_arrived_when_it_goes_on() {
        let mut server = RedisServer::start().expect("a server");
        let mut client = server.client().expect("a connection");
        server.stop().expect("stopped");
        client.send(&["INCR", "k"]).expect("sent");
        client.wait_for_replies(Some(Duration::from_millis(50))).expect("a timeout");
        assert!(client.read().is_err());
        server.cont().expect("continued");
        client.wait_for_replies(Some(Duration::from_secs(5))).expect("a timeout");
        assert_eq!(client.read().expect("a reply").integer(), Some(1));
    }

    #[test]
    fn passwords_users_and_options_arrive() {
        let server = RedisServer::builder()
            .password("hunter2")
            .acl_user("app on >hunter2-pw ~app:* +get")
            .option("--maxmemory", "3mb")
            .start()
            .expect("a server");
        let mut client = server.client().expect("a connection");
        assert!(client.command(&["PING"]).expect("a reply").error().is_some());
        assert!(client.command(&["AUTH", "hunter2"]).expect("a reply").is_ok());
        let maxmemory = client.command(&["CONFIG", "GET", "maxmemory"]).expect("a reply");
        assert_eq!(maxmemory.texts(), ["maxmemory", "3145728"]);
        assert!(client.command(&["AUTH", "app", "hunter2-pw"]).expect("a reply").is_ok());
        assert!(
            client.command(&["PING"]).expect("a reply").error().is_some_and(|why| why.starts_with("NOPERM"))
        );
    }

    #[test]
    fn a_server_that_does_not_start_says_why() {
        let error =
            RedisServer::builder().option("--no-such-option", "1").start().expect_err("it cannot start");
        assert!(error.to_string().contains("no-such-option"), "{error}");
    }

    #[test]
    fn a_taken_port_is_an_error_even_though_its_server_answers() {
        let first = RedisServer::start().expect("a server");
        let error = RedisServer::builder().port(first.port()).start().expect_err("the port is taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn an_orderly_end_is_waited_for() {
        let mut server = RedisServer::start().expect("a server");
        server.shutdown().expect("ended");
        assert!(server.client().is_err());
        assert!(server.log().contains("bye bye"));
    }
}
