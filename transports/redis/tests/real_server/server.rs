//! A redis-server of the test's own, on a free loopback port, ended by its process id.

use std::{
    net::{TcpListener, TcpStream},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use leasehold::{
    clock::{Clock, Instant},
    key::LockKey,
    owner::OwnerMint,
    transport::*,
};
use leasehold_redis::{RedisConfig, RedisTransport};

pub(crate) struct Server {
    pub(crate) port: u16,
    dir: PathBuf,
    child: Option<Child>,
    args: Vec<String>,
    program: PathBuf,
    _reserved: [UnixListener; 2],
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(args: &[&str]) -> Self {
        Self::start_program(Path::new("redis-server"), args)
    }

    pub(crate) fn start_program(program: &Path, args: &[&str]) -> Self {
        let (port, reserved) = std::iter::repeat_with(free_port).flatten().next().unwrap();
        let dir = std::env::temp_dir().join(format!("leasehold-redis-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let args = args.iter().map(|arg| arg.to_string()).collect();
        let mut server =
            Self { port, dir, child: None, args, program: program.to_owned(), _reserved: reserved };
        server.launch();
        server
    }

    pub(crate) fn launch(&mut self) {
        let child = Command::new(&self.program)
            .args(["--port", &self.port.to_string(), "--save", "", "--bind", "127.0.0.1", "--dir"])
            .arg(&self.dir)
            .args(&self.args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server must be installed: apt-get install redis-server");
        let child = self.child.insert(child);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "redis-server refuses {:?}", self.args);
            std::thread::yield_now();
        }
    }

    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// What redis-cli prints.
    pub(crate) fn cli(&self, args: &[&str]) -> String {
        let output =
            Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(args).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub(crate) fn config(&self) -> RedisConfig {
        RedisConfig::single("127.0.0.1", self.port)
    }

    pub(crate) fn transport(&self) -> RedisTransport {
        RedisTransport::new(self.config())
    }

    pub(crate) async fn calls(&self) -> Arc<dyn Lane> {
        open(&self.transport(), LanePurpose::Calls).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A port that nobody listens on, and whose bus port is free too. The kernel gives the same port to another test until
/// the server listens, and a bus port is never listened on before. Both tests would then use one server. So both ports
/// are reserved by their names, for as long as the server lives.
fn free_port() -> Option<(u16, [UnixListener; 2])> {
    let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
    let bus = port.checked_add(BUS_OFFSET)?;
    let reserved = [reserve(port)?, reserve(bus)?];
    TcpListener::bind(("127.0.0.1", bus)).ok()?;
    Some((port, reserved))
}

fn reserve(port: u16) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("leasehold-real-server-{port}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

pub(crate) async fn open(
    transport: &RedisTransport,
    purpose: LanePurpose,
) -> Result<Arc<dyn Lane>, TransportError> {
    transport.open(OpenLane::new(purpose, Clock::Boot, SECOND)).await
}

pub(crate) fn key(name: &str) -> Arc<LockKey> {
    LockKey::new("", name).unwrap()
}

pub(crate) fn soon() -> Instant {
    Clock::Boot.now() + SECOND
}

pub(crate) fn acquire(mint: &OwnerMint, name: &str) -> Call {
    Call::new(key(name), HoldKind::Exclusive, Op::Acquire { ttl: TTL }, mint.mint(), soon())
}

pub(crate) fn release(of: &Call) -> Call {
    Call::new(of.key.clone(), of.kind, Op::Release, of.owner, soon())
}

pub(crate) fn renewal(of: &Call, ttl: Duration) -> Call {
    Call::new(of.key.clone(), of.kind, Op::Renew { ttl }, of.owner, soon()).with_ticket(7)
}

/// Asks again until the answer is as wanted.
pub(crate) async fn until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Clock::Boot.now() + Duration::from_secs(10);
    loop {
        if let Some(value) = ask().await {
            return value;
        }
        assert!(Clock::Boot.now() < end, "not within 10 s");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) const TTL: Duration = Duration::from_secs(30);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// How far the bus port of a cluster's node is above its port.
const BUS_OFFSET: u16 = 10_000;
