//! One run of `leasehold`. It is ended by its process id, also if the test fails.

use std::{
    io::Read,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, OnceLock},
    thread::{self, JoinHandle},
    time::Duration,
};

use leasehold_tests::harness::{
    cluster::RedisCluster,
    polling::{found_within, holds_within},
    raw_client::RawClient,
    redis_server::RedisServer,
    shared::Shared,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A running `leasehold`.
pub(crate) struct Program {
    child: Child,
    stdout: Text,
    stderr: Text,
}

/// What a stream has brought so far.
struct Text {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    /// Starts it for the server at this URL.
    pub(crate) fn start(url: &str, arguments: &[&str]) -> Self {
        Self::start_with(&[("LEASEHOLD_URL", url)], arguments)
    }

    /// Starts it with these variables alone to name the servers.
    pub(crate) fn start_with(variables: &[(&str, &str)], arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
        command.env_remove("LEASEHOLD_URL").env_remove("LEASEHOLD_CONFIG").envs(variables.iter().copied());
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("cargo has built it");
        let stdout = Text::of(child.stdout.take().expect("piped"));
        let stderr = Text::of(child.stderr.take().expect("piped"));
        Self { child, stdout, stderr }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Its child of this name.
    pub(crate) fn child_named(&self, name: &str) -> Pid {
        let is_wanted = |stat: &str| {
            let (start, behind) = stat.rsplit_once(") ")?;
            let is_child = behind.split(' ').nth(1) == Some(&*self.child.id().to_string());
            let (id, of) = start.split_once(" (")?;
            (is_child && of == name).then(|| Pid::from_raw(id.parse().ok()?))?
        };
        let look = || {
            let processes = std::fs::read_dir("/proc").expect("Linux").flatten();
            let mut stats = processes.filter_map(|one| std::fs::read_to_string(one.path().join("stat")).ok());
            stats.find_map(|stat| is_wanted(&stat))
        };
        found_within(PATIENCE, look).expect("it has such a child within a minute")
    }

    /// Waits until stderr has this event.
    pub(crate) fn until_event(&self, name: &str) {
        let part = format!("\"event\":\"{name}\"");
        let is_told = holds_within(PATIENCE, || self.stderr.lock().contains(&part));
        assert!(is_told, "it is not told within a minute: {}", *self.stderr.lock());
    }

    /// Waits until stdout has this line.
    pub(crate) fn until_line(&self, line: &str) {
        self.until_stdout(|text| text.lines().any(|said| said == line));
    }

    /// Waits until stdout has this in it.
    pub(crate) fn until_text(&self, part: &str) {
        self.until_stdout(|text| text.contains(part));
    }

    /// Waits until stdout has this many lines.
    pub(crate) fn until_lines(&self, count: usize) {
        self.until_stdout(|text| text.lines().count() >= count);
    }

    fn until_stdout(&self, fact: impl Fn(&str) -> bool) {
        let is_true = holds_within(PATIENCE, || fact(&self.stdout.lock()));
        assert!(is_true, "it does not come within a minute: {}", *self.stdout.lock());
    }

    pub(crate) fn end(mut self) -> Ended {
        let status = found_within(PATIENCE, || self.child.try_wait().expect("it is our child"));
        let status = status.expect("it ends within a minute");
        let (stdout, stderr) = (self.stdout.whole(), self.stderr.whole());
        Ended { code: status.code(), stdout, stderr }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Its output is in the message if the code is another one.
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// The documents of stdout, one a line.
    pub(crate) fn documents(&self) -> Vec<Value> {
        documents(&self.stdout)
    }

    /// The only document of stdout.
    pub(crate) fn document(&self) -> Value {
        let mut documents = self.documents();
        assert_eq!(documents.len(), 1, "{self:?}");
        documents.remove(0)
    }

    /// The event of this name in stderr.
    pub(crate) fn event(&self, name: &str) -> Value {
        let found = documents(&self.stderr).into_iter().find(|event| event["event"] == name);
        found.unwrap_or_else(|| panic!("no event {name}: {self:?}"))
    }
}

fn documents(text: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"));
    text.lines().map(parse).collect()
}

impl Text {
    fn of(mut stream: impl Read + Send + 'static) -> Self {
        let text = Arc::<Mutex<String>>::default();
        let whole = text.clone();
        let read = move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut piece) {
                whole.lock().expect("no panic").push_str(&String::from_utf8_lossy(&piece[..count]));
            }
        };
        Self { text, reader: Some(thread::spawn(read)) }
    }

    fn lock(&self) -> MutexGuard<'_, String> {
        self.text.lock().expect("no panic")
    }

    fn whole(&mut self) -> String {
        self.reader.take().expect("asked once").join().expect("read to its end");
        self.lock().clone()
    }
}

/// Runs it to its end.
pub(crate) fn leasehold(url: &str, arguments: &[&str]) -> Ended {
    Program::start(url, arguments).end()
}

/// The server of all tests that kill none.
pub(crate) fn server() -> &'static str {
    static SERVER: Shared<RedisServer> = Shared::new();
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| SERVER.get(|| RedisServer::start().expect("a server")).url())
}

/// A plain client of that server.
pub(crate) fn client() -> RawClient {
    let port = server().rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
    RawClient::connect(port).expect("a connection")
}

/// The cluster of all tests, three masters without replicas.
pub(crate) fn cluster() -> &'static str {
    static CLUSTER: Shared<RedisCluster> = Shared::new();
    static URL: OnceLock<String> = OnceLock::new();
    let start = || RedisCluster::builder().replicas_each(0).start().expect("a cluster");
    URL.get_or_init(|| CLUSTER.get(start).url())
}

/// Waits until a lock is held.
pub(crate) fn until_held(url: &str, name: &str) {
    until(url, name, |report| report["mode"] != "free");
}

/// Waits until `inspect` shows this.
pub(crate) fn until(url: &str, name: &str, fact: impl Fn(&Value) -> bool) {
    let look = || fact(&leasehold(url, &["inspect", name, "--json"]).expect_code(0).document()).then_some(());
    found_within(PATIENCE, look).expect("it comes true within a minute");
}

/// Far above the longest run here; only a program that hangs reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
