//! A connection follows its callers: a task on their runtime reads and writes it, so that an answer reaches its caller
//! without a change of threads.
//!
//! That runtime belongs to the user. It may be blocked, and it may end. So the task of the link looks every 5 ms whether replies
//! lie unread, or requests unwritten. If so, it serves the connection itself for a while: 1 s at first, at most a minute. It also
//! takes the connection back if the runtime ends, and if fewer than 32 calls came in a second.
//!
//! A connection follows once 32 calls in a row came from one runtime within a second. If calls come from several in turn, it
//! stays.
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
    time::sleep,
};

use super::{
    super::lost::Lost,
    exchange::Exchange,
    requests::Look,
    stage::{CALLS_WITHIN, Recall, Stage},
};

/// Whether a connection follows its callers, and where it is.
pub(super) struct Follow {
    own_runtime: Id,
    /// Whether calls are counted.
    counts: AtomicBool,
    state: Mutex<State>,
    /// The task on the callers' runtime has begun or ended.
    news: Notify,
}

#[derive(Default)]
struct State {
    stage: Stage<Id>,
    /// The task on the callers' runtime.
    task: Option<AbortHandle>,
    #[cfg(test)]
    last_recall: Option<Recall>,
}

/// No connection of the process follows: a runtime had no I/O driver.
static STAYS: AtomicBool = AtomicBool::new(false);

impl Follow {
    /// Of a link whose task runs on the current runtime.
    pub(super) fn new() -> Arc<Self> {
        let (own_runtime, counts) = (Handle::current().id(), AtomicBool::new(false));
        Arc::new(Self { own_runtime, counts, state: Mutex::default(), news: Notify::new() })
    }

    /// From now on the connection follows its callers.
    pub(super) fn allow(&self) {
        if cfg!(panic = "unwind") {
            self.count();
        }
    }

    /// From now on it stays.
    #[cfg(test)]
    pub(super) fn forbid(&self) {
        self.counts.store(false, Ordering::Relaxed);
        self.state().stage.stay();
    }

    /// Whether a task on the callers' runtime serves the connection.
    #[cfg(test)]
    pub(super) fn is_away(&self) -> bool {
        self.state().stage.follows()
    }

    /// Why the link took the connection back last.
    #[cfg(test)]
    pub(super) fn last_recall(&self) -> Option<Recall> {
        self.state().last_recall
    }

    fn count(&self) {
        self.state().stage.count();
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
        if current.id() == self.own_runtime || STAYS.load(Ordering::Relaxed) {
            return;
        }
        let now = exchange.traffic.now();
        let Some(number) = self.state().stage.note_call(current.id(), now) else { return };
        self.counts.store(false, Ordering::Relaxed);
        let end = EndOnDrop::new(self, exchange, number);
        let Some(socket) = exchange.second_socket() else { return };
        let task = current.spawn(follow(end, socket)).abort_handle();
        let mut state = self.state();
        match state.stage.is_wanted(number) {
            true => state.task = Some(task),
            false => task.abort(), // the link has taken the connection back meanwhile
        }
    }

    /// Waits until a task on the callers' runtime serves the connection.
    async fn follows(&self) {
        while !self.state().stage.follows() {
            self.news.notified().await;
        }
    }

    /// Waits until that task has ended.
    async fn has_ended(&self) {
        while self.state().stage.follows() {
            self.news.notified().await;
        }
    }

    // The exchange learns under the lock of the state who serves: both say the same.
    fn begin(&self, exchange: &Exchange, number: u64, unwritten: &Arc<Notify>) -> bool {
        let mut state = self.state();
        let begins = state.stage.begin(number);
        if begins {
            exchange.hand_over(Some(unwritten.clone()));
            self.news.notify_one();
        }
        begins
    }

    fn recall(&self, exchange: &Exchange, why: Recall, followed_for: Duration) -> Duration {
        let mut state = self.state();
        #[cfg(test)]
        state.last_recall.replace(why);
        // The task is dropped at its next turn, which may be far.
        if let Some(task) = state.task.take() {
            task.abort();
        }
        exchange.hand_over(None);
        state.stage.recall(why, followed_for)
    }

    fn handle_end(&self, exchange: &Exchange, number: u64) {
        let mut state = self.state();
        if !state.stage.end(number) {
            return;
        }
        exchange.hand_over(None);
        self.counts.store(true, Ordering::Relaxed);
        self.news.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves a connection until it ends: itself, or by a task on a runtime of the callers.
pub(super) async fn serve(exchange: Arc<Exchange>, socket: Arc<Socket>, follow: Arc<Follow>) -> Lost {
    let lost = keep_serving(&exchange, &socket, &follow).await;
    lost.unwrap_or_else(|error| Lost::of_io(&error))
}

// A descriptor of its own, which it keeps: the process may have no other when the connection comes back.
async fn keep_serving(exchange: &Exchange, socket: &Socket, follow: &Follow) -> io::Result<Lost> {
    let (mut own, unwritten, mut rest) = (socket.try_clone()?, exchange.own_writer(), Duration::ZERO);
    loop {
        let mut here = TcpStream::from_std(own)?;
        tokio::select! {
            biased;
            lost = exchange.serve(&mut here, &unwritten) => return Ok(lost),
            () = follow.follows() => {}
            never = count_after(follow, rest) => match never {},
        }
        own = here.into_std()?;
        tokio::select! {
            biased;
            () = exchange.ended() => return Ok(exchange.ended_by()),
            next = watch_over(exchange, socket, follow) => rest = next,
        }
    }
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
    let begin = exchange.traffic.now();
    tokio::select! {
        biased;
        () = follow.has_ended() => Duration::ZERO,
        why = falls_behind(exchange, socket) => {
            let rest = follow.recall(exchange, why, exchange.traffic.now() - begin);
            if rest.is_zero() {
                follow.count();
            }
            rest
        }
    }
}

async fn falls_behind(exchange: &Exchange, socket: &Socket) -> Recall {
    let mut before = exchange.look();
    let (mut earlier, mut since) = (before, exchange.traffic.now());
    loop {
        sleep(LOOK).await;
        let mut now = exchange.look();
        if stands(before, now, socket) {
            sleep(SECOND_LOOK).await;
            let again = exchange.look();
            if stands(now, again, socket) {
                return Recall::Late;
            }
            now = again;
        }
        if exchange.traffic.now() - since >= CALLS_WITHIN {
            if now.is_quiet_since(earlier) {
                return Recall::Quiet;
            }
            (earlier, since) = (now, exchange.traffic.now());
        }
        before = now;
    }
}

fn stands(before: Look, now: Look, socket: &Socket) -> bool {
    now.writes_nothing_since(before) || now.reads_nothing_since(before) && has_replies(socket)
}

// An error counts: the task that reads it ends the connection.
fn has_replies(socket: &Socket) -> bool {
    !matches!(socket.peek(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// Serves a connection on a runtime of the callers.
async fn follow(end: EndOnDrop, socket: Socket) {
    let Ok(mut socket) = end.register(socket) else { return };
    let (EndOnDrop { follow, exchange, number, .. }, unwritten) = (&end, Arc::new(Notify::new()));
    if !follow.begin(exchange, *number, &unwritten) {
        return;
    }
    tokio::select! {
        biased;
        () = exchange.ended() => {}
        lost = exchange.serve(&mut socket, &unwritten) => exchange.end(lost),
    }
}

/// Tells the link that the task has ended, also with its runtime.
struct EndOnDrop {
    follow: Arc<Follow>,
    exchange: Arc<Exchange>,
    number: u64,
    is_registering: AtomicBool,
}

impl EndOnDrop {
    fn new(follow: &Arc<Follow>, exchange: &Arc<Exchange>, number: u64) -> Self {
        let (follow, exchange) = (follow.clone(), exchange.clone());
        Self { follow, exchange, number, is_registering: AtomicBool::new(false) }
    }

    // Panics on a runtime without an I/O driver.
    fn register(&self, socket: Socket) -> io::Result<TcpStream> {
        self.is_registering.store(true, Ordering::Relaxed);
        let registered = TcpStream::from_std(socket);
        self.is_registering.store(false, Ordering::Relaxed);
        registered
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if thread::panicking() && *self.is_registering.get_mut() {
            STAYS.store(true, Ordering::Relaxed);
        }
        self.follow.handle_end(&self.exchange, self.number);
    }
}

/// How often the link looks after the other task.
const LOOK: Duration = Duration::from_millis(5);
/// Replies may have come just before a look. After this time they lie unread.
const SECOND_LOOK: Duration = Duration::from_millis(1);
