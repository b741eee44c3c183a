//! A process that forks while it holds locks and waits for others: `forked URL`. The child makes every call of the engine that
//! it inherited, and prints a line for each: what the call is, and what it returned.
//!
//! To fork takes `unsafe`, so a library must be preloaded whose `getppid` forks: `tests/processes/forks.rs` has it.
#![allow(clippy::disallowed_methods, reason = "a process of its own, in real time")]

use std::{
    fmt::Debug,
    future::Future,
    io::{self, Write},
    os::unix::process::parent_id,
    pin::Pin,
    process::exit,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    task::{Context, Waker},
    thread,
    time::Duration,
};

use leasehold::{
    Engine, Job, Leader, Lease, MultiLock, NotHeld, Quorum,
    blocking::{self, block_on},
    clock::Clock,
};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

type Begun = (&'static str, Pin<Box<dyn Future<Output = String>>>);
/// What the work under a lock returns.
type Worked = Result<(), NotHeld>;

fn main() {
    let url = std::env::args().nth(1).expect("forked URL");
    tracing_subscriber::fmt().with_writer(|| Counted).with_ansi(false).init();
    let engine = built(&url);
    lose_a_lease(&engine, "lost in the parent");
    let lease = taken(&engine, "of the parent");
    let (mut inherited, mut begun) = (Inherited::take(&url, &engine), begun(&engine));
    let dropped =
        (engine.acquire_all(["of the parent", "d1"]).start(), engine.lock("of the parent").acquire());
    for (_, future) in &mut begun {
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    match i32::try_from(parent_id()).expect("a process id") {
        0 => {
            inherited.call_all(&lease);
            begun.into_iter().for_each(|(what, future)| say(what, block_on(future)));
            drop((dropped, inherited, lease, engine));
            say("drops", "done");
            let own = built(&url);
            say("own engine", block_on(taken(&own, "of the child").release()));
            lose_a_lease(&own, "lost in the child");
            exit(0)
        }
        child => say("ended", wait_for(child)),
    }
    say("held", lease.is_held());
    say("on the server", block_on(engine.lock("of the parent").is_locked()));
    say("released", block_on(lease.release()));
}

fn say(what: &str, said: impl Debug) {
    println!("{what} | {said:?}");
    io::stdout().flush().expect("a reader");
}

fn built(url: &str) -> Engine {
    block_on(Engine::builder(RedisTransport::from_url(url).expect("a url")).metrics().build())
        .expect("a server")
}

fn taken(engine: &Engine, name: &str) -> Lease {
    block_on(engine.lock(name).acquire()).expect("free")
}

/// Returns when the log thread has written a line about it.
fn lose_a_lease(engine: &Engine, name: &str) {
    let lease = block_on(engine.lock(name).ttl(Duration::from_secs(1)).no_renewal().acquire()).expect("free");
    let before = WRITTEN.load(Relaxed);
    block_on(lease.lost());
    while WRITTEN.load(Relaxed) == before {
        thread::sleep(Duration::from_millis(5));
    }
}

/// The standard output, which counts what is written.
struct Counted;

static WRITTEN: AtomicUsize = AtomicUsize::new(0);

impl Write for Counted {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        io::stdout().write_all(line)?;
        WRITTEN.fetch_add(1, Relaxed);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// "hung": it did not end by itself.
fn wait_for(child: i32) -> &'static str {
    let (child, until) =
        (Pid::from_raw(child).expect("a child"), Clock::Boot.now() + Duration::from_secs(30));
    while Clock::Boot.now() < until {
        match waitpid(Some(child), WaitOptions::NOHANG).expect("a child") {
            Some((_, status)) if status.exit_status() == Some(0) => return "by itself",
            Some(_) => return "by a panic or a signal",
            None => thread::sleep(Duration::from_millis(5)),
        }
    }
    kill_process(child, Signal::KILL).expect("a child");
    waitpid(Some(child), WaitOptions::empty()).expect("a child");
    "hung"
}

/// What the child has of its parent's.
struct Inherited {
    url: String,
    engine: Engine,
    quorum: Quorum,
    released: Option<Lease>,
    released_of_list: Option<Lease>,
    downgraded: Option<Lease>,
    permit: Option<leasehold::Permit>,
    multi: leasehold::MultiLease,
    of_quorum: leasehold::QuorumLease,
    losses: leasehold::Losses,
    metrics: leasehold::Metrics,
}

impl Inherited {
    fn take(url: &str, engine: &Engine) -> Self {
        let member = || {
            let builder = Engine::builder(MemoryTransport::new()).restart_grace(Duration::ZERO);
            block_on(builder.build()).expect("memory is always there")
        };
        let quorum = Quorum::over([member(), member(), member()]).expect("three engines");
        let (semaphore, permits) = (engine.semaphore("semaphore"), engine.permits("permits"));
        assert!(
            block_on(semaphore.try_set(1)).expect("free")
                && block_on(permits.try_set_total(1)).expect("free")
        );
        assert!(block_on(engine.latch("latch").try_set(1)).expect("free"));
        Self {
            url: url.to_owned(),
            released: Some(taken(engine, "released")),
            released_of_list: Some(taken(engine, "of a list")),
            downgraded: Some(block_on(engine.rw_lock("downgraded").write().acquire()).expect("free")),
            permit: Some(block_on(permits.acquire(1)).expect("free")),
            multi: block_on(MultiLock::of([engine.lock("m1"), engine.lock("m2")]).acquire()).expect("free"),
            of_quorum: block_on(quorum.lock("of a quorum").acquire()).expect("free"),
            losses: engine.losses(),
            metrics: engine.metrics().expect("built with metrics"),
            quorum,
            engine: engine.clone(),
        }
    }

    fn call_all(&mut self, lease: &Lease) {
        self.call_locks(lease);
        self.call_leases(lease);
        self.call_counters();
        self.call_compositions();
        self.call_recipes();
        self.call_engine();
    }

    fn call_locks(&self, lease: &Lease) {
        let (lock, held) = (self.engine.lock("child: free"), self.engine.lock(lease.name()));
        say("acquire", block_on(lock.acquire()));
        say("acquire of a held lock", block_on(held.wait(Duration::from_secs(2)).acquire()));
        say("try_acquire", block_on(lock.try_acquire()));
        say("acquire of a fair lock", block_on(self.engine.fair_lock("child: fair").acquire()));
        say("acquire of a spin lock", block_on(self.engine.spin_lock("child: spin").acquire()));
        say("acquire to read", block_on(self.engine.rw_lock("child: read").read().acquire()));
        say("acquire again", block_on(lock.clone().reentry(&self.engine.reentry()).acquire()));
        say("run", block_on(lock.run(async |lease| lease.ensure_held())));
        say("holder", block_on(lock.holder()));
        say("describe", block_on(lock.describe()));
        say("is_locked", block_on(lock.is_locked()));
        say("force_release", block_on(lock.force_release()));
        say("acquire_all", block_on(self.engine.acquire_all(["child: a", "child: b"]).into_future()));
        let threads = blocking::Engine::new(self.engine.clone()).expect("it has threads of its own");
        say("blocking acquire", threads.lock("child: free").acquire());
        say("blocking semaphore", threads.semaphore("semaphore").acquire(1));
    }

    fn call_leases(&mut self, lease: &Lease) {
        say("lost", block_on(lease.lost()));
        say("renew", block_on(lease.renew(Duration::from_secs(20))));
        say("downgrade", block_on(self.downgraded.take().expect("once").downgrade()));
        say("release", block_on(self.released.take().expect("once").release()));
        say(
            "release_all",
            block_on(self.engine.release_all(vec![self.released_of_list.take().expect("once")])),
        );
        let permit = self.permit.take().expect("once");
        say("lost of a permit", block_on(permit.lost()));
        say("release of a permit", block_on(permit.release()));
    }

    fn call_counters(&self) {
        let (semaphore, permits) = (self.engine.semaphore("semaphore"), self.engine.permits("permits"));
        let latch = self.engine.latch("latch");
        say("semaphore acquire", block_on(semaphore.acquire(1)));
        say("semaphore try_acquire", block_on(semaphore.try_acquire(1)));
        say("semaphore release", block_on(semaphore.release(1)));
        say("semaphore available", block_on(semaphore.available()));
        say("permits acquire", block_on(permits.acquire(1)));
        say("permits available", block_on(permits.available()));
        say("permits describe", block_on(permits.describe()));
        say("latch count_down", block_on(latch.count_down()));
        say("latch opened", block_on(latch.opened()));
        say("latch describe", block_on(latch.describe()));
        say("latch delete", block_on(latch.delete()));
    }

    fn call_compositions(&self) {
        let both = MultiLock::of([self.engine.lock("child: a"), self.engine.lock("child: b")]);
        say("multi acquire", block_on(both.acquire()));
        say("multi lost", block_on(self.multi.lost()));
        say("quorum acquire", block_on(self.quorum.lock("child: q").acquire()));
        say("quorum try_acquire", block_on(self.quorum.lock("child: q").try_acquire()));
        say("quorum lost", block_on(self.of_quorum.lost()));
    }

    fn call_recipes(&self) {
        let leader = Leader::of(self.engine.lock("child: leader"));
        let (mut watch, job) = (leader.watch(), Job::new(&self.engine, "child: job", Duration::from_secs(5)));
        say("leader changed", block_on(watch.changed()).is_none().then_some("forked: no candidate"));
        say("leader run", block_on(leader.run(async |_| Worked::Ok(()))));
        say("job run_if_due", block_on(job.run_if_due(async |_| Worked::Ok(()))));
        say("job run_when_due", block_on(job.run_when_due(async |_| Worked::Ok(()))));
    }

    fn call_engine(&mut self) {
        say("audit", block_on(self.engine.audit()));
        let shared = Engine::builder(RedisTransport::from_url(&self.url).expect("a url"));
        say("build with its threads", block_on(shared.threads_of(&self.engine).build()));
        say("losses", block_on(self.losses.next()).is_none().then_some("forked: no loss is told"));
        say("losses begun", self.engine.losses().try_next().is_none().then_some("forked: no loss is told"));
        let snapshot = self.engine.snapshot();
        say("snapshot", (snapshot.held == 0 && !snapshot.connected).then_some("forked: nothing is held"));
        say("metrics", if self.metrics.read().is_empty() { "none" } else { "forked: counts and no gauges" });
        let report = block_on(self.engine.shutdown(Duration::from_secs(1)));
        say("shutdown", (report.released == 0).then_some("forked: nothing was released"));
    }
}

/// Calls that wait when the process forks.
fn begun(engine: &Engine) -> Vec<Begun> {
    let (held, latch) = (engine.lock("of the parent"), engine.latch("latch"));
    let (acquire, opened, mut losses) = (held.acquire(), latch.opened(), engine.losses());
    let all = engine.acquire_all(["of the parent"]).into_future();
    let both = MultiLock::of([held.clone()]).acquire();
    let lead = Leader::of(held.clone()).run(async |_| Worked::Ok(()));
    let run = held.run(async |_| Worked::Ok(()));
    vec![
        ("begun acquire", Box::pin(async move { format!("{:?}", acquire.await) })),
        ("begun acquire_all", Box::pin(async move { format!("{:?}", all.await) })),
        ("begun multi", Box::pin(async move { format!("{:?}", both.await) })),
        ("begun leader", Box::pin(async move { format!("{:?}", lead.await) })),
        ("begun run", Box::pin(async move { format!("{:?}", run.await) })),
        ("begun latch", Box::pin(async move { format!("{:?}", opened.await) })),
        ("begun losses", Box::pin(async move { format!("forked: {:?}", losses.next().await.is_none()) })),
    ]
}
