//! A server of the test's own, on a free loopback port, ended by its process id.

use std::{
    ffi::OsString,
    net::{TcpListener, TcpStream},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::resp::Client;

/// A running server. Dropping it ends it.
pub(crate) struct Server {
    pub(crate) port: u16,
    child: Child,
    dir: PathBuf,
    _reserved: UnixListener,
}

/// The programs to test with: Debian's Redis, and those that `tests/harness/servers.sh` has fetched.
pub(crate) fn programs() -> Vec<PathBuf> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers");
    let names = [
        "redis-6.2/redis-server",
        "redis-8.2/redis-server",
        "valkey-8.1/valkey-server",
        "valkey-9.1/valkey-server",
    ];
    let fetched = names.into_iter().map(|name| fetched.join(name)).filter(|program| program.exists());
    let programs: Vec<PathBuf> = [PathBuf::from("redis-server")].into_iter().chain(fetched).collect();
    println!("on {programs:?}");
    programs
}

impl Server {
    /// Debian's Redis.
    pub(crate) fn start() -> Self {
        Self::start_program(Path::new("redis-server"), &[])
    }

    pub(crate) fn start_program(program: &Path, args: &[&str]) -> Self {
        Self::start_with(program, args, &[])
    }

    pub(crate) fn start_with(program: &Path, args: &[&str], env: &[(OsString, OsString)]) -> Self {
        let (port, reserved) = std::iter::repeat_with(free_port).flatten().next().unwrap();
        let dir = std::env::temp_dir().join(format!("leasehold-scripts-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut child = Command::new(program)
            .args(["--port", &port.to_string(), "--save", "", "--bind", "127.0.0.1", "--dir"])
            .arg(&dir)
            .args(args)
            .envs(env.iter().cloned())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server must be installed: apt-get install redis-server");
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "{program:?} refuses {args:?}");
            std::thread::yield_now();
        }
        Self { port, child, dir, _reserved: reserved }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A port that nobody listens on. The kernel gives the same port to another test until the server listens, and both tests
/// would then use one server. So the port is reserved by its name, for as long as the server lives.
fn free_port() -> Option<(u16, UnixListener)> {
    let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
    let name = SocketAddr::from_abstract_name(format!("leasehold-scripts-{port}")).ok()?;
    Some((port, UnixListener::bind_addr(&name).ok()?))
}
