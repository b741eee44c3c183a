//! Locks that both engines want at any time, and names that nobody else wants: how soon after a fault each is granted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::{Engine, Lease};
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{
    deployment::Deployment,
    log::{Log, hold},
    moment::Moment,
};

/// Runs until it is told to end.
pub(crate) struct Traffic {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

struct Shared {
    over: AtomicBool,
    log: Arc<Log>,
    grants: Mutex<HashMap<Kind, Vec<Moment>>>,
    errors: Mutex<BTreeMap<String, usize>>,
}

/// What a grant was of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// A lock that both engines want.
    Contended { part: usize, key: String },
    /// A new name of a part, wanted by this engine alone.
    Fresh { part: usize, engine: usize },
}

impl Kind {
    fn part(&self) -> usize {
        match self {
            Kind::Contended { part, .. } | Kind::Fresh { part, .. } => *part,
        }
    }

    fn class(&self) -> &'static str {
        match self {
            Kind::Contended { .. } => "contended",
            Kind::Fresh { .. } => "fresh",
        }
    }
}

/// How soon each was granted again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    /// The first grant of a new name, by the slower engine.
    pub(crate) fresh: Duration,
    /// The first grant of a contended lock, of the slowest.
    pub(crate) contended: Duration,
}

impl Traffic {
    pub(crate) fn start(
        runtime: &Runtime,
        engines: &[Engine; 2],
        context: &Deployment,
        log: &Arc<Log>,
    ) -> Self {
        let shared = Arc::new(Shared {
            over: AtomicBool::new(false),
            log: log.clone(),
            grants: Mutex::default(),
            errors: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        for part in context.parts() {
            for (number, engine) in engines.iter().enumerate() {
                for key in context.names(part, "contended").take(CONTENDED) {
                    tasks.spawn_on(
                        compete(shared.clone(), engine.clone(), number, part, key),
                        runtime.handle(),
                    );
                }
                let names = context.names(part, if number == 0 { "fresh" } else { "new" });
                tasks.spawn_on(go_on(shared.clone(), engine.clone(), number, part, names), runtime.handle());
            }
        }
        Self { shared, tasks }
    }

    /// How long after `since` every contended lock of the part was granted, and a new name to each engine; `None`: not
    /// yet.
    pub(crate) fn recovery(&self, part: usize, since: Moment) -> Option<Recovery> {
        let grants = self.shared.grants.lock().unwrap_or_else(PoisonError::into_inner);
        let mut recovery = Recovery { fresh: Duration::ZERO, contended: Duration::ZERO };
        for (kind, moments) in grants.iter().filter(|(kind, _)| kind.part() == part) {
            let took = moments.iter().find(|granted| **granted >= since)?.since(since);
            let slowest = match kind {
                Kind::Contended { .. } => &mut recovery.contended,
                Kind::Fresh { .. } => &mut recovery.fresh,
            };
            *slowest = took.max(*slowest);
        }
        Some(recovery)
    }

    /// How many grants there were on a part since then.
    pub(crate) fn grants(&self, part: usize, since: Moment) -> usize {
        let grants = self.shared.grants.lock().unwrap_or_else(PoisonError::into_inner);
        let of_part = grants.iter().filter(|(kind, _)| kind.part() == part);
        of_part.flat_map(|(_, moments)| moments).filter(|granted| **granted >= since).count()
    }

    /// Ends it; the errors that callers got, each with its number.
    pub(crate) fn end(mut self, runtime: &Runtime) -> BTreeMap<String, usize> {
        self.shared.over.store(true, Ordering::SeqCst);
        runtime.block_on(async {
            while let Some(task) = self.tasks.join_next().await {
                task.expect("no panic");
            }
        });
        std::mem::take(&mut *self.shared.errors.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    async fn lease(&self, engine: &Engine, key: &str, kind: &Kind) -> Option<Lease> {
        match engine.lock(key).class(kind.class()).acquire().await {
            Ok(lease) => {
                let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
                grants.entry(kind.clone()).or_default().push(Moment::now());
                Some(lease)
            }
            Err(error) => {
                let text = error.to_string();
                *self.errors.lock().unwrap_or_else(PoisonError::into_inner).entry(text).or_default() += 1;
                tokio::time::sleep(PAUSE).await;
                None
            }
        }
    }
}

async fn compete(shared: Arc<Shared>, engine: Engine, number: usize, part: usize, key: String) {
    let kind = Kind::Contended { part, key: key.clone() };
    while !shared.is_over() {
        if let Some(lease) = shared.lease(&engine, &key, &kind).await {
            hold(&shared.log, number, lease, WORK).await;
        }
    }
}

async fn go_on(
    shared: Arc<Shared>,
    engine: Engine,
    number: usize,
    part: usize,
    mut names: impl Iterator<Item = String>,
) {
    let kind = Kind::Fresh { part, engine: number };
    while !shared.is_over() {
        let key = names.next().expect("names without end");
        if let Some(lease) = shared.lease(&engine, &key, &kind).await {
            // Its release may take a while; the next name does not wait for it.
            let (log, release) = (shared.log.clone(), lease.release());
            tokio::spawn(async move { log.add_release(release.await) });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

const CONTENDED: usize = 4;
const WORK: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(25);
