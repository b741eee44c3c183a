//! The proxy a test holds, and the thread that accepts its connections.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::oneshot;

use super::link;
use super::rule::Rule;
use super::rule_handle::RuleHandle;
use super::rulebook::Rulebook;
use super::switches::{Direction, Switches};
use super::traffic::{SeenRequest, Traffic};

/// A proxy in front of one port of this machine. Dropping it closes all its connections and ends its thread.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What all connections of a proxy look at.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) target_port: u16,
    pub(super) rulebook: Rulebook,
    pub(super) switches: Switches,
    pub(super) traffic: Traffic,
}

impl Proxy {
    /// Listens on a free loopback port and forwards to `target_port`. Without rules it changes nothing.
    ///
    /// The target need not be there: a connection is closed while it is not, and served once it is back.
    ///
    /// # Errors
    /// When no socket or thread is to be had.
    pub fn start(target_port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared::new(target_port));
        let (stop, stopped) = oneshot::channel();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let serving = serve(listener, Arc::clone(&shared), stopped);
        let name = format!("proxy-{port}");
        let thread = thread::Builder::new().name(name).spawn(move || runtime.block_on(serving))?;
        Ok(Self { port, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// The port that clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:<port>`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Adds a rule behind those in force. It sees the requests that are read from now on.
    pub fn rule(&self, rule: Rule) -> RuleHandle {
        RuleHandle::new(self.shared.rulebook.add(rule), self.shared.target_port)
    }

    /// Takes all rules away. Requests already struck stay struck, and their handles go on working.
    pub fn clear_rules(&self) {
        self.shared.rulebook.clear();
    }

    /// Accepts and reads, forwards nothing in either direction, and closes nothing. When it ends, what was sent in
    /// between arrives, as it does when a route heals, even from clients that have given up and closed.
    pub fn black_hole(&self, on: bool) {
        self.block(Direction::ToServer, on);
        self.block(Direction::ToClient, on);
    }

    /// A black hole one way: towards the client, commands execute and nobody hears of it.
    pub fn block(&self, direction: Direction, on: bool) {
        self.shared.switches.way(direction).block(on);
    }

    /// Closes new connections as soon as they are accepted, also those of replicas. Those that are open stay.
    pub fn refuse(&self, on: bool) {
        self.shared.switches.refuse(on);
    }

    /// Closes all open connections but those that replicate, on both sides. What was under way in the proxy is lost, except held requests.
    pub fn cut_all(&self) {
        self.shared.switches.cut();
    }

    /// The time each frame takes one way, in order, from now on. Zero at the start.
    pub fn latency(&self, direction: Direction, latency: Duration) {
        self.shared.switches.way(direction).set_latency(latency);
    }

    /// How often each command was read from clients, by its name in capitals.
    pub fn commands_seen(&self) -> BTreeMap<String, u64> {
        self.shared.traffic.commands()
    }

    /// How often each command was read from the connections that had this name then; `None`: that had none.
    pub fn commands_of(&self, client: Option<&str>) -> BTreeMap<String, u64> {
        self.shared.traffic.commands_of(client)
    }

    /// [`Self::commands_of`] every name. Sentinels call themselves `sentinel-...`, replicas and nodes nothing.
    pub fn commands_by_client(&self) -> BTreeMap<Option<String>, BTreeMap<String, u64>> {
        self.shared.traffic.commands_by_client()
    }

    /// The requests read from clients in the order of reading; of very many, the last 100,000.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.requests_that(|_| true)
    }

    /// Those of [`Self::requests`] that fit; cheap if these are few.
    pub fn requests_that(&self, fits: impl Fn(&SeenRequest) -> bool) -> Vec<SeenRequest> {
        self.shared.traffic.requests_that(fits)
    }

    /// Forgets the requests and counts so far.
    pub fn clear(&self) {
        self.shared.traffic.clear();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Its end is near: the runtime drops every connection where it stands. A panic in it has shown itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn new(target_port: u16) -> Self {
        let (rulebook, traffic) = (Rulebook::default(), Traffic::default());
        Self { target_port, rulebook, switches: Switches::new(), traffic }
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("the runtime has I/O enabled");
    tokio::select! {
        _ = stopped => {}
        () = accept_all(&listener, &shared) => {}
    }
}

async fn accept_all(listener: &tokio::net::TcpListener, shared: &Arc<Shared>) {
    for connection in 1.. {
        match listener.accept().await {
            // A reset instead of an orderly close: nobody can take it for an answered connection.
            Ok((client, _)) if shared.switches.refuses() => drop(client.set_zero_linger()),
            Ok((client, _)) => drop(tokio::spawn(link::serve(connection, client, Arc::clone(shared)))),
            // Out of descriptors: some connection has to end first, and spinning would not help it.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
