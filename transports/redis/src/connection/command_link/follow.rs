//! A connection follows its callers: a task on their runtime reads and writes it, so that an answer reaches its caller
//! without a change of threads.
//!
//! That runtime belongs to the user. It may be blocked, and it may end. So the task of the link looks every 5 ms whether replies
//! lie unread. If so, it serves the connection itself for a while: 1 s at first, at most a minute. It also takes the connection
//! back if the runtime ends, and if nobody has called for a second.
//!
//! A connection follows once 32 calls in a row came from one runtime. If calls come from several in turn, it stays.
//!
//! The runtime needs its I/O driver. Without it tokio panics: the task on it ends, and no connection of the process follows
//! any more. In a program with `panic = "abort"` that would end the process, so no connection follows there.

use std::{
    convert::Infallible,
    io,
    net::TcpStream as Socket,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{
    net::TcpStream,
    runtime::{Handle, Id},
    sync::Notify,
    task::AbortHandle,
    time::{Instant, sleep},
};

use super::{
    super::lost::Lost,
    exchange::{Exchange, Server},
    stage::{Progress, Recall, Stage},
};

/// Whether a connection follows its callers, and where it is.
pub(super) struct Follow {
    own_runtime: Id,
    /// Whether calls are counted.
    counts: AtomicBool,
    stage: Mutex<Stage<Id>>,
    /// The task on the callers' runtime.
    task: Mutex<Option<AbortHandle>>,
    /// That task has begun or ended.
    news: Notify,
}

/// No connection of the process follows: a runtime had no I/O driver.
static STAYS: AtomicBool = AtomicBool::new(false);

impl Follow {
    /// Of a link whose task runs on the current runtime.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            own_runtime: Handle::current().id(),
            counts: AtomicBool::new(false),
            stage: Mutex::default(),
            task: Mutex::default(),
            news: Notify::new(),
        })
    }

    /// From now on the connection follows its callers.
    pub(super) fn allow(&self) {
        if cfg!(panic = "unwind") && !STAYS.load(Ordering::Relaxed) {
            self.count();
        }
    }

    /// From now on it stays.
    #[cfg(test)]
    pub(super) fn forbid(&self) {
        self.counts.store(false, Ordering::Relaxed);
        self.stage().stay();
    }

    /// Whether a task on the callers' runtime serves the connection.
    #[cfg(test)]
    pub(super) fn is_away(&self) -> bool {
        self.stage().follows()
    }

    fn count(&self) {
        self.stage().count();
        self.counts.store(true, Ordering::Relaxed);
    }

    /// Counts a call of the current thread.
    #[inline]
    pub(super) fn note_call(self: &Arc<Self>, exchange: &Arc<Exchange>) {
        if self.counts.load(Ordering::Relaxed) {
            self.count_call(exchange);
        }
    }

    fn count_call(self: &Arc<Self>, exchange: &Arc<Exchange>) {
        let Ok(current) = Handle::try_current() else { return };
        if current.id() == self.own_runtime {
            return;
        }
        let Some(number) = self.stage().note_call(current.id()) else { return };
        self.counts.store(false, Ordering::Relaxed);
        let end = EndOnDrop { follow: self.clone(), exchange: exchange.clone(), number };
        let Some(socket) = exchange.second_socket() else { return };
        let task = current.spawn(follow(end, socket)).abort_handle();
        *self.task() = Some(task);
    }

    /// Waits until a task on the callers' runtime serves the connection.
    async fn follows(&self) {
        while !self.stage().follows() {
            self.news.notified().await;
        }
    }

    /// Waits until that task has ended.
    async fn has_ended(&self) {
        while self.stage().follows() {
            self.news.notified().await;
        }
    }

    // The exchange learns under the lock of the stage who serves: both say the same.
    fn begin(&self, exchange: &Exchange, number: u64) -> bool {
        let mut stage = self.stage();
        let begins = stage.begin(number);
        if begins {
            exchange.hand_over(Server::Callers);
            self.news.notify_one();
        }
        begins
    }

    fn recall(&self, exchange: &Exchange, why: Recall, followed_for: Duration) -> Duration {
        if let Some(task) = self.task().take() {
            task.abort();
        }
        let mut stage = self.stage();
        exchange.hand_over(Server::Own);
        stage.recall(why, followed_for)
    }

    fn handle_end(&self, exchange: &Exchange, number: u64) {
        let mut stage = self.stage();
        if thread::panicking() && !stage.follows() {
            STAYS.store(true, Ordering::Relaxed); // it did not begin
        }
        if !stage.end(number) {
            return;
        }
        exchange.hand_over(Server::Own);
        match STAYS.load(Ordering::Relaxed) {
            true => stage.stay(),
            false => self.counts.store(true, Ordering::Relaxed),
        }
        self.news.notify_one();
    }

    fn stage(&self) -> MutexGuard<'_, Stage<Id>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn task(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves a connection until it ends: itself, or by a task on a runtime of the callers.
pub(super) async fn serve(exchange: Arc<Exchange>, socket: Arc<Socket>, follow: Arc<Follow>) -> Lost {
    let mut rest = Duration::ZERO;
    loop {
        let here = match register(&socket) {
            Ok(here) => here,
            Err(error) => return Lost::of_io(&error),
        };
        tokio::select! {
            biased;
            lost = exchange.serve(here, Server::Own) => return lost,
            () = follow.follows() => {}
            never = count_after(&follow, rest) => match never {},
        }
        tokio::select! {
            biased;
            () = exchange.ended() => return exchange.ended_by(),
            next = watch_over(&exchange, &socket, &follow) => rest = next,
        }
    }
}

// A second descriptor, because the other task has one that is registered with another driver.
fn register(socket: &Socket) -> io::Result<TcpStream> {
    TcpStream::from_std(socket.try_clone()?)
}

async fn count_after(follow: &Follow, rest: Duration) -> Infallible {
    if !rest.is_zero() {
        sleep(rest).await;
        follow.count();
    }
    std::future::pending().await
}

/// Watches over the task on the callers' runtime. Returns when the link is to serve the connection again, and for how long
/// calls are not counted then; zero: they are counted already.
async fn watch_over(exchange: &Exchange, socket: &Socket, follow: &Follow) -> Duration {
    let begin = Instant::now();
    tokio::select! {
        biased;
        () = follow.has_ended() => Duration::ZERO,
        why = falls_behind(exchange, socket) => {
            let rest = follow.recall(exchange, why, begin.elapsed());
            if rest.is_zero() {
                follow.count();
            }
            rest
        }
    }
}

async fn falls_behind(exchange: &Exchange, socket: &Socket) -> Recall {
    let (mut before, mut quiet) = (exchange.look(), 0);
    loop {
        sleep(LOOK).await;
        let mut now = exchange.look();
        quiet = if Progress::between(before, now) == Progress::Quiet { quiet + 1 } else { 0 };
        if quiet == QUIET_LOOKS {
            return Recall::Quiet;
        }
        if Progress::between(before, now) == Progress::Stands && has_replies(socket) {
            sleep(SECOND_LOOK).await;
            let again = exchange.look();
            if Progress::between(now, again) == Progress::Stands {
                return Recall::Late;
            }
            now = again;
        }
        before = now;
    }
}

// An error counts: the task that reads it ends the connection.
fn has_replies(socket: &Socket) -> bool {
    !matches!(socket.peek(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// Serves a connection on a runtime of the callers.
async fn follow(end: EndOnDrop, socket: Socket) {
    let EndOnDrop { follow, exchange, number } = &end;
    let Ok(socket) = TcpStream::from_std(socket) else { return };
    if !follow.begin(exchange, *number) {
        return;
    }
    tokio::select! {
        biased;
        () = exchange.ended() => {}
        lost = exchange.serve(socket, Server::Callers) => exchange.end(lost),
    }
}

/// Tells the link that the task has ended, also with its runtime.
struct EndOnDrop {
    follow: Arc<Follow>,
    exchange: Arc<Exchange>,
    number: u64,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.follow.handle_end(&self.exchange, self.number);
    }
}

/// How often the link looks after the other task.
const LOOK: Duration = Duration::from_millis(5);
/// Replies may have come just before a look. After this time they lie unread.
const SECOND_LOOK: Duration = Duration::from_millis(1);
/// After so many looks without a request the connection goes home, and the looks end.
const QUIET_LOOKS: u32 = 200;
