//! The answers to callers. Those that come together are given together.
//!
//! A transport reads the replies to many calls at once. Each answer wakes the task of its caller, on another thread as a rule.
//! If that thread slept, the system may run it at once and stop this one: it finds one task, and sleeps again. Then each
//! answer costs two changes of threads. So the answers of one read are kept until all replies are handled
//! ([`give_together`]), and the first caller that runs gives those that are left: the other tasks of its runtime are woken
//! without a change of threads. The thread that kept them goes on giving them, too, so no answer depends on a caller; and no
//! caller that was woken so depends on how long the first goes on without an await.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::oneshot::{
        self,
        error::{RecvError, TryRecvError},
    },
};

use crate::guard;

/// Gives one answer. Dropping it without an answer means that none will come.
pub(crate) struct AnswerSender<T>(oneshot::Sender<Given<T>>);

/// Gets one answer.
pub(crate) struct AnswerReceiver<T>(oneshot::Receiver<Given<T>>);

/// An answer, and those that came together with it.
struct Given<T> {
    answer: T,
    others: Option<Others>,
}

/// Answers that came together and are not all given yet.
#[derive(Clone)]
struct Others(Arc<Mutex<VecDeque<Kept>>>);

/// Gives an answer that was kept.
type Kept = Box<dyn FnOnce(Option<Others>) + Send>;

pub(crate) fn channel<T>() -> (AnswerSender<T>, AnswerReceiver<T>) {
    let (sender, receiver) = oneshot::channel();
    (AnswerSender(sender), AnswerReceiver(receiver))
}

impl<T: Send + 'static> AnswerSender<T> {
    /// Gives the answer, now or at the end of [`give_together`] on this thread. If nobody waits for it, it is dropped. A waker
    /// that panics is caught.
    pub(crate) fn send(self, answer: T) {
        match is_gathering() {
            true => keep(Box::new(move |others| self.give(Given { answer, others }))),
            false => self.give(Given { answer, others: None }),
        }
    }
}

impl<T> AnswerSender<T> {
    /// Whether nobody waits for the answer any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn give(self, given: Given<T>) {
        let _ = guard::call(|| drop(self.0.send(given)));
    }
}

impl<T> AnswerReceiver<T> {
    /// The answer, if it is there.
    pub(crate) fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.0.try_recv().map(Given::take)
    }
}

impl<T> Future for AnswerReceiver<T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|given| given.map(Given::take))
    }
}

impl<T> fmt::Debug for AnswerReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerReceiver")
    }
}

impl<T> Given<T> {
    // A waker may poll its task at once, on the thread that gives the answers: it would call itself once for each of them.
    fn take(self) -> T {
        if let Some(others) = self.others.filter(|_| !GIVES.get()) {
            if others.give() > 0 {
                make_stealable();
            }
        }
        self.answer
    }
}

impl Others {
    /// Returns how many there were.
    fn give(&self) -> usize {
        let _gives = Gives::begin();
        let given = std::iter::from_fn(|| self.next()).map(|kept| kept(Some(self.clone())));
        given.count()
    }

    fn next(&self) -> Option<Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

// A thread of tokio keeps the task that it woke last for itself, and no other thread takes that task. The caller may go on for
// long without an await. So the task that is woken last is an empty one.
fn make_stealable() {
    let Ok(runtime) = Handle::try_current() else { return };
    if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread {
        runtime.spawn(async {});
    }
}

thread_local! {
    /// The answers that this thread keeps. `None`: it gives each at once.
    static KEPT: RefCell<Option<VecDeque<Kept>>> = const { RefCell::new(None) };
    /// Whether this thread is giving answers that came together.
    static GIVES: Cell<bool> = const { Cell::new(false) };
}

/// Runs `handle_replies`, and gives the answers that it has for callers at its end, also if it panics.
///
/// For a [transport](crate::transport) that gets the replies to several calls at once, and gives their outcomes to their
/// [`AnswerTo`](crate::transport::AnswerTo) one after the other: it saves a change of threads for most of them. At most 64
/// answers are kept at a time. `handle_replies` must not block.
///
/// # Examples
/// ```
/// use leasehold::transport::{AnswerTo, Outcome, give_together};
///
/// fn handle_replies(replies: Vec<(AnswerTo, Outcome)>) {
///     give_together(|| {
///         for (answer_to, outcome) in replies {
///             answer_to.answer(outcome);
///         }
///     });
/// }
/// # handle_replies(Vec::new());
/// ```
pub fn give_together<T>(handle_replies: impl FnOnce() -> T) -> T {
    let _gathering = Gathering::begin();
    handle_replies()
}

// A thread that ends may drop a lease of the user when it keeps nothing any more.
fn is_gathering() -> bool {
    KEPT.try_with(|kept| kept.borrow().is_some()).unwrap_or(false)
}

fn keep(answer: Kept) {
    let many = KEPT.with_borrow_mut(|kept| {
        let kept = kept.get_or_insert_default();
        kept.push_back(answer);
        (kept.len() >= KEPT_MAX).then(|| std::mem::take(kept))
    });
    many.into_iter().for_each(give_all);
}

fn give_all(mut kept: VecDeque<Kept>) {
    match kept.len() {
        0 => {}
        1 => kept.drain(..).for_each(|only| only(None)),
        _ => {
            Others(Arc::new(Mutex::new(kept))).give();
        }
    }
}

/// This thread keeps its answers until this is dropped.
struct Gathering;

impl Gathering {
    // `None`: it keeps them already.
    fn begin() -> Option<Self> {
        KEPT.with_borrow_mut(|kept| match kept {
            Some(_) => None,
            None => {
                *kept = Some(VecDeque::new());
                Some(Self)
            }
        })
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        KEPT.take().into_iter().for_each(give_all);
    }
}

/// This thread gives answers until this is dropped.
struct Gives {
    gave_before: bool,
}

impl Gives {
    fn begin() -> Self {
        Self { gave_before: GIVES.replace(true) }
    }
}

impl Drop for Gives {
    fn drop(&mut self) {
        GIVES.set(self.gave_before);
    }
}

/// The callers of the first of many replies should not wait until all are handled.
const KEPT_MAX: usize = 64;

#[cfg(test)]
mod tests;
