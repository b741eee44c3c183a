//! A process with the `tracing` subscriber that its first argument names. It writes what became of its leases into the
//! file that its second argument names: its output may be closed.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use leasehold::{AcquireError, Engine, Lease, clock::Clock};
use leasehold_memory::MemoryTransport;
use tracing::{Event, Subscriber, span};
use tracing_subscriber::{Layer, Registry, layer::Context, prelude::*};

/// What the subscriber does at each call from a thread of the engine's: it is well to the program's own threads, which
/// are its own business.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Panics,
    Blocks,
    Slow,
}

struct Hostile(How);

impl Hostile {
    fn act(&self) {
        let is_ours = std::thread::current().name().is_some_and(|name| name.starts_with("leasehold-"));
        match self.0 {
            // Wherever it is called; without the hook that prints it.
            How::Panics => std::panic::resume_unwind(Box::new("a subscriber that panics")),
            How::Blocks if is_ours => std::thread::sleep(Duration::from_secs(3600)),
            How::Slow if is_ours => {
                let begun = Clock::Boot.now();
                while Clock::Boot.now() - begun < Duration::from_millis(1) {
                    std::hint::spin_loop();
                }
            }
            How::Blocks | How::Slow => {}
        }
    }
}

impl<S: Subscriber> Layer<S> for Hostile {
    fn on_new_span(&self, _: &span::Attributes<'_>, _: &span::Id, _: Context<'_, S>) {
        self.act();
    }
    fn on_record(&self, _: &span::Id, _: &span::Record<'_>, _: Context<'_, S>) {
        self.act();
    }
    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        self.act();
    }
    fn on_enter(&self, _: &span::Id, _: Context<'_, S>) {
        self.act();
    }
    fn on_exit(&self, _: &span::Id, _: Context<'_, S>) {
        self.act();
    }
    fn on_close(&self, _: span::Id, _: Context<'_, S>) {
        self.act();
    }
}

fn subscribe(name: &str) {
    let how = match name {
        "fmt" => return tracing_subscriber::fmt().with_ansi(false).init(),
        "panics" => How::Panics,
        "blocks" => How::Blocks,
        "slow" => How::Slow,
        other => panic!("no subscriber is called {other}"),
    };
    Registry::default().with(Hostile(how)).init();
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    subscribe(&arguments[1]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let facts = runtime.expect("a runtime").block_on(facts());
    fs::write(&arguments[2], facts.join("\n")).expect("a file");
}

async fn facts() -> Vec<String> {
    let memory = MemoryTransport::new();
    let build = || Engine::builder(memory.clone()).ttl(TTL).build();
    let (engine, other) = (build().await.expect("an engine"), build().await.expect("an engine"));
    let mut losses = engine.losses();
    let healthy = engine.lock("healthy").acquire().await.expect("free");
    let (steps, running) = run(&engine);
    // All of them are lost at one moment, with one line each: as many as a slow subscriber tells in a ttl.
    let names: Vec<String> = (0..MANY).map(|number| number.to_string()).collect();
    let many: Vec<Lease> = engine.acquire_all(&names).no_renewal().await.into_iter().flatten().collect();
    let short = engine.lock("short").no_renewal().acquire().await.expect("free");
    short.lost().await;
    tokio::time::sleep(3 * TTL).await;
    let told = std::iter::from_fn(|| losses.try_next()).count();
    let before = steps.load(Relaxed);
    let stolen = other.lock("job").try_acquire().await.expect("an answer").is_some();
    tokio::time::sleep(TTL / 4).await;
    let goes_on = steps.load(Relaxed) > before && !running.is_finished();
    let renewed = healthy.renew(TTL).await.is_ok();
    let granted = engine.lock("new").acquire().await.expect("free").release().await.is_ok();
    let in_time = waits_no_longer(&engine).await;
    let mut facts = vec![
        format!("healthy: {:?}", healthy.state()),
        format!("short: {:?}", short.state()),
        format!("losses: {told}"),
        format!("another engine has the lock of run(): {stolen}"),
        format!("run() goes on: {goes_on}"),
        format!("renewed by hand: {renewed}"),
        format!("granted and released: {granted}"),
        format!("waited for a lock that is held within its limit: {in_time}"),
    ];
    drop((healthy, short, many));
    let report = engine.shutdown(TTL).await;
    facts.push(format!("unconfirmed: {:?}", report.unconfirmed));
    facts
}

/// Work under a lock that checks nothing: `run` promises to drop it when the lease is lost.
fn run(engine: &Engine) -> (Arc<AtomicU64>, tokio::task::JoinHandle<()>) {
    let (steps, lock) = (Arc::new(AtomicU64::new(0)), engine.lock("job"));
    let counted = steps.clone();
    let running = tokio::spawn(async move {
        let work = async |_: &Lease| {
            loop {
                tokio::time::sleep(Duration::from_millis(50)).await;
                counted.fetch_add(1, Relaxed);
            }
            #[allow(unreachable_code)]
            Ok::<(), std::convert::Infallible>(())
        };
        let _ = lock.run(work).await;
    });
    (steps, running)
}

async fn waits_no_longer(engine: &Engine) -> bool {
    let begun = Clock::Boot.now();
    let refused = engine.lock("healthy").wait(TTL / 4).acquire().await;
    matches!(refused, Err(AcquireError::TimedOut { .. })) && Clock::Boot.now() - begun < TTL
}

const TTL: Duration = Duration::from_secs(2);
const MANY: usize = 2000;
