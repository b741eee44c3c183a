use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Wake, Waker},
    thread,
    time::Duration,
};

use super::*;

/// A waker that calls this function.
struct Calls<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn waker(call: impl Fn() + Send + Sync + 'static) -> Waker {
    Arc::new(Calls(call)).into()
}

fn poll<T>(receiver: &mut AnswerReceiver<T>, waker: &Waker) -> Poll<Result<T, RecvError>> {
    Pin::new(receiver).poll(&mut Context::from_waker(waker))
}

fn is_there<T>(receiver: &mut AnswerReceiver<T>) -> bool {
    receiver.try_recv().is_ok()
}

#[test]
fn an_answer_alone_is_given_at_once() {
    let (sender, mut receiver) = channel();
    sender.send(7);
    assert_eq!(receiver.try_recv(), Ok(7));
}

#[test]
fn answers_are_kept_to_the_end_also_of_the_outer_of_two_calls() {
    let (first, mut one) = channel();
    let (second, mut two) = channel();
    give_together(|| {
        give_together(|| first.send(1));
        assert_eq!(one.try_recv(), Err(TryRecvError::Empty));
        second.send(2);
    });
    assert_eq!((one.try_recv(), two.try_recv()), (Ok(1), Ok(2)));
}

#[test]
fn they_are_given_if_the_handling_panics() {
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| channel()).unzip();
    let panicked = guard::call(|| {
        give_together(|| {
            senders.into_iter().for_each(|sender| sender.send(()));
            std::panic::resume_unwind(Box::new("text"));
        })
    });
    assert_eq!(panicked, None::<()>);
    assert!(receivers.iter_mut().all(is_there));
    let (sender, mut receiver) = channel();
    sender.send(());
    assert!(is_there(&mut receiver), "nothing is kept any more");
}

#[test]
fn at_most_64_are_kept() {
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..65).map(|_| channel()).unzip();
    give_together(|| {
        senders.into_iter().for_each(|sender| sender.send(()));
        assert!(receivers[..64].iter_mut().all(is_there));
        assert!(!is_there(&mut receivers[64]));
    });
    assert!(is_there(&mut receivers[64]));
}

#[test]
fn who_dropped_its_receiver_keeps_no_answer_from_others() {
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| channel()).unzip();
    receivers.remove(1);
    let answer = Arc::new(());
    give_together(|| senders.into_iter().for_each(|sender| sender.send(answer.clone())));
    assert!(receivers.iter_mut().all(is_there));
    assert_eq!(Arc::strong_count(&answer), 1, "that of nobody was dropped");
}

#[test]
fn a_waker_that_panics_keeps_no_answer_from_others() {
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| channel()).unzip();
    let panics = waker(|| std::panic::resume_unwind(Box::new("text")));
    for receiver in &mut receivers {
        assert!(poll(receiver, &panics).is_pending());
    }
    give_together(|| senders.into_iter().for_each(|sender| sender.send(())));
    assert!(receivers.iter_mut().all(is_there));
}

// The waker of the first stands for a thread that the system stops in the middle of its answers.
#[test]
fn the_first_caller_that_runs_gives_the_answers_that_are_left() {
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..10).map(|_| channel()).unzip();
    let (woken, is_woken) = mpsc::channel();
    let (runs, goes_on) = mpsc::channel::<()>();
    let goes_on = Mutex::new(goes_on);
    let stops = waker(move || {
        woken.send(()).unwrap();
        let goes_on = goes_on.lock().unwrap();
        goes_on.recv_timeout(SOON).expect("the first caller ran, and all have their answers");
    });
    assert!(poll(&mut receivers[0], &stops).is_pending());
    thread::scope(|scope| {
        let giver = scope.spawn(|| give_together(|| senders.into_iter().for_each(|sender| sender.send(()))));
        is_woken.recv_timeout(SOON).expect("the first is woken");
        assert!(receivers[1..].iter_mut().all(|receiver| receiver.try_recv() == Err(TryRecvError::Empty)));
        assert!(poll(&mut receivers[0], Waker::noop()).is_ready());
        assert!(receivers[1..].iter_mut().all(is_there));
        runs.send(()).unwrap();
        giver.join().expect("no panic");
    });
}

// A waker may poll its task at once, inside the call that gives the answer.
#[test]
fn a_task_that_its_waker_polls_gives_no_others() {
    const MANY: usize = 10_000;
    let (deep, deepest) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..MANY).map(|_| channel::<()>()).unzip();
    let answered = Arc::new(AtomicUsize::new(0));
    for receiver in receivers {
        let receiver = Arc::new(Mutex::new(receiver));
        let (polled, deep, deepest, answered) =
            (receiver.clone(), deep.clone(), deepest.clone(), answered.clone());
        let polls = waker(move || {
            deepest.fetch_max(deep.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            answered.fetch_add(usize::from(is_there(&mut polled.lock().unwrap())), Ordering::SeqCst);
            deep.fetch_sub(1, Ordering::SeqCst);
        });
        assert!(poll(&mut receiver.lock().unwrap(), &polls).is_pending());
    }
    give_together(|| senders.into_iter().for_each(|sender| sender.send(())));
    assert_eq!((answered.load(Ordering::SeqCst), deepest.load(Ordering::SeqCst)), (MANY, 1));
}

const SOON: Duration = Duration::from_secs(20);

/// The first caller blocks its thread until the second has run, as user code may. The thread that keeps the answers stands
/// still meanwhile, so the first caller gives the second its answer.
#[test]
fn a_caller_that_blocks_its_thread_does_not_keep_another_from_running() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (first, mut of_first) = channel();
    let (second, of_second) = channel();
    let (has_run, waits_for_run) = mpsc::channel();
    let (is_done, waits_for_end) = mpsc::channel::<()>();
    let waits_for_end = Mutex::new(waits_for_end);
    let blocks = async move {
        let own = std::future::poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        let stops = waker(move || {
            own.wake_by_ref();
            let _ = waits_for_end.lock().unwrap().recv(); // an error: the end
        });
        std::future::poll_fn(|_| poll(&mut of_first, &stops)).await.unwrap();
        waits_for_run.recv_timeout(Duration::from_secs(5))
    };
    let blocks = runtime.spawn(blocks);
    runtime.spawn(async move {
        of_second.await.unwrap();
        has_run.send(()).unwrap();
    });
    thread::sleep(Duration::from_millis(50)); // both wait: if they did not, each would find its answer there
    let keeps = thread::spawn(|| {
        give_together(|| {
            first.send(());
            second.send(());
        })
    });
    let waited = runtime.block_on(blocks).unwrap();
    drop(is_done);
    keeps.join().unwrap();
    waited.expect("the second caller runs on the other thread");
}
