//! A task whose first poll is its caller's.
//!
//! The first poll of an acquire or a release sends its request. On the caller's thread that costs no change of threads,
//! and a transport that answers at once is done with it. Otherwise the task waits here until it is woken, usually by the
//! answer, and goes on as a task of the calls thread.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use tokio::runtime::Handle;

use crate::guard;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls the task once, now. If it is not done, it goes on on `runtime` as soon as it is woken. A panic ends the task,
/// as it ends one of `runtime`.
pub(crate) fn begin(runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
    let mut task: Task = Box::pin(task);
    // Without a waker of its own: a task that is done at once needs none.
    let is_pending = poll(runtime, &mut task, Waker::noop()).and_then(|_| {
        let waiting = Arc::new(Waiting::new(runtime));
        poll(runtime, &mut task, &Waker::from(waiting.clone())).map(|_| waiting)
    });
    match is_pending {
        Some(waiting) => waiting.park(task),
        None => drop(guard::call(|| drop(task))),
    }
}

// `None`: the task is done or has panicked.
fn poll(runtime: &Handle, task: &mut Task, waker: &Waker) -> Option<()> {
    let poll = || {
        let _inside = runtime.enter(); // for timers
        task.as_mut().poll(&mut Context::from_waker(waker))
    };
    match guard::call(poll) {
        Some(Poll::Pending) => Some(()),
        Some(Poll::Ready(())) | None => None,
    }
}

/// A task between its first poll and the first time that it is woken.
struct Waiting {
    runtime: Handle,
    phase: AtomicU8,
    task: Mutex<Option<Task>>,
}

impl Waiting {
    fn new(runtime: &Handle) -> Self {
        Self { runtime: runtime.clone(), phase: AtomicU8::new(POLLED), task: Mutex::default() }
    }

    fn park(&self, task: Task) {
        *self.task() = Some(task);
        if self.phase.compare_exchange(POLLED, PARKED, Ordering::AcqRel, Ordering::Acquire).is_err() {
            self.go_on(); // it was woken while it was polled
        }
    }

    fn go_on(&self) {
        let task = self.task().take();
        if let Some(task) = task {
            drop(self.runtime.spawn(task));
        }
    }

    fn task(&self) -> MutexGuard<'_, Option<Task>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.phase.swap(WOKEN, Ordering::AcqRel) == PARKED {
            self.go_on();
        }
    }
}

/// The task is being polled.
const POLLED: u8 = 0;
/// The task waits.
const PARKED: u8 = 1;
/// The task was woken. It goes on, or will as soon as its poll has ended.
const WOKEN: u8 = 2;

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::atomic::{AtomicBool, AtomicUsize},
        thread::{self, ThreadId},
    };

    use tokio::sync::oneshot;

    use super::*;

    /// Where each poll of a task took place.
    #[derive(Clone, Default)]
    struct Polls(Arc<Mutex<Vec<ThreadId>>>);

    impl Polls {
        fn of<F: Future<Output = ()> + Send + 'static>(&self, task: F) -> impl Future<Output = ()> + use<F> {
            let (polls, mut task) = (self.0.clone(), Box::pin(task));
            poll_fn(move |context| {
                polls.lock().unwrap().push(thread::current().id());
                task.as_mut().poll(context)
            })
        }

        fn taken(&self) -> Vec<ThreadId> {
            self.0.lock().unwrap().clone()
        }
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    #[test]
    fn a_task_that_is_done_at_once_is_polled_once_here() {
        let (runtime, polls) = (runtime(), Polls::default());
        begin(runtime.handle(), polls.of(async {}));
        assert_eq!(polls.taken(), [thread::current().id()]);
    }

    #[test]
    fn a_task_that_waits_goes_on_on_the_runtime_when_it_is_woken() {
        let (runtime, polls) = (runtime(), Polls::default());
        let ((go, told), (done, is_done)) = (oneshot::channel::<()>(), oneshot::channel());
        begin(
            runtime.handle(),
            polls.of(async move {
                let _ = told.await;
                done.send(()).unwrap();
            }),
        );
        let here = thread::current().id();
        assert_eq!(polls.taken(), [here; 2], "the second poll leaves a waker");
        go.send(()).unwrap();
        runtime.block_on(is_done).unwrap();
        assert_eq!(polls.taken().len(), 3);
        assert_ne!(polls.taken()[2], here);
    }

    #[test]
    fn a_task_that_wakes_itself_in_its_first_poll_is_not_forgotten() {
        let runtime = runtime();
        let (done, is_done) = oneshot::channel();
        begin(runtime.handle(), async move {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            done.send(()).unwrap();
        });
        runtime.block_on(is_done).unwrap();
    }

    #[test]
    fn no_wake_is_lost_at_any_moment_of_the_first_polls() {
        let runtime = runtime();
        for round in 0..2_000 {
            let (go, told) = oneshot::channel::<()>();
            let (done, is_done) = oneshot::channel();
            let waker = thread::spawn(move || {
                (0..round % 100).for_each(|_| std::hint::spin_loop());
                go.send(())
            });
            begin(runtime.handle(), async move {
                let _ = told.await;
                done.send(()).unwrap();
            });
            waker.join().unwrap().unwrap();
            runtime.block_on(is_done).unwrap();
        }
    }

    #[test]
    fn timers_of_the_first_poll_are_those_of_the_runtime() {
        let runtime = runtime();
        let (done, is_done) = oneshot::channel();
        begin(runtime.handle(), async move {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            done.send(()).unwrap();
        });
        runtime.block_on(is_done).unwrap();
    }

    #[test]
    fn a_panic_of_the_first_poll_ends_the_task_and_nothing_else() {
        struct Dropped(Arc<AtomicBool>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let (runtime, is_dropped) = (runtime(), Arc::new(AtomicBool::new(false)));
        let held = Dropped(is_dropped.clone());
        begin(runtime.handle(), async move {
            let _held = held;
            std::panic::resume_unwind(Box::new("in the first poll"));
        });
        assert!(is_dropped.load(Ordering::SeqCst));
    }

    #[test]
    fn what_nobody_can_wake_any_more_is_dropped() {
        let (runtime, drops) = (runtime(), Arc::new(AtomicUsize::new(0)));
        let (go, told) = oneshot::channel::<()>();
        let counted = drops.clone();
        begin(runtime.handle(), async move {
            let _ = told.await;
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let ended = Arc::downgrade(&drops);
        drop((runtime, drops));
        drop(go); // wakes it; its runtime is gone
        assert_eq!(ended.strong_count(), 0);
    }
}
