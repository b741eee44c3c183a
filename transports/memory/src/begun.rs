//! Calls that were begun without a future. A task of the lane executes them in their order when its turn comes: a caller
//! whose acquires were executed at once would leave no turn to other clients.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use leasehold::transport::{AnswerTo, Call};
use tokio::{
    sync::Notify,
    task::{AbortHandle, consume_budget},
};

/// The begun calls of one lane. Dropping it ends its task.
#[derive(Debug)]
pub(crate) struct BegunCalls {
    queue: Arc<Queue>,
    task: AbortHandle,
}

/// The calls that are not executed yet.
#[derive(Debug)]
struct Queue {
    /// `None`: the task has ended.
    calls: Mutex<Option<VecDeque<(Call, AnswerTo)>>>,
    news: Notify,
}

/// Ends the queue when the task ends, also with its runtime.
struct EndOnDrop(Arc<Queue>);

impl BegunCalls {
    /// Starts the task on the current runtime. It executes calls with this function.
    pub(crate) fn start(execute: impl Fn(Call, AnswerTo) + Send + 'static) -> Self {
        let queue = Arc::new(Queue { calls: Mutex::new(Some(VecDeque::new())), news: Notify::new() });
        let end = EndOnDrop(queue.clone());
        let task = tokio::spawn(async move {
            loop {
                end.0.news.notified().await;
                while let Some((call, answer_to)) = end.0.next() {
                    execute(call, answer_to);
                    consume_budget().await; // other tasks of the thread get turns, however many calls come
                }
            }
        });
        Self { queue, task: task.abort_handle() }
    }

    /// Adds a call. Returns both if the task has ended.
    pub(crate) fn put(&self, call: Call, answer_to: AnswerTo) -> Option<(Call, AnswerTo)> {
        self.queue.put(call, answer_to)
    }
}

impl Drop for BegunCalls {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Queue {
    fn put(&self, call: Call, answer_to: AnswerTo) -> Option<(Call, AnswerTo)> {
        match self.lock().as_mut() {
            Some(calls) => calls.push_back((call, answer_to)),
            None => return Some((call, answer_to)),
        }
        self.news.notify_one();
        None
    }

    fn next(&self) -> Option<(Call, AnswerTo)> {
        self.lock().as_mut().and_then(VecDeque::pop_front)
    }

    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<(Call, AnswerTo)>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let unanswered = self.0.lock().take();
        drop(unanswered); // runs the engine's code, so not under the lock
    }
}
