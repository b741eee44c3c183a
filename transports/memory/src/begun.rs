//! Calls that were begun without a future. A task of the lane executes them in their order when its turn comes: a caller
//! whose acquires were executed at once would leave no turn to other clients. A release is executed at once if no call is before
//! it.

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
    calls: Mutex<Option<Calls>>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Calls {
    waiting: VecDeque<(Call, AnswerTo)>,
    /// Whether the task executes a call that it has taken.
    is_executing: bool,
}

/// Ends the queue when the task ends, also with its runtime.
struct EndOnDrop(Arc<Queue>);

impl BegunCalls {
    /// Starts the task on the current runtime. It executes calls with this function.
    pub(crate) fn start(execute: impl Fn(Call, AnswerTo) + Send + 'static) -> Self {
        let queue = Arc::new(Queue { calls: Mutex::new(Some(Calls::default())), news: Notify::new() });
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

    /// Whether a call that is begun now comes behind no other.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.lock().as_ref().is_some_and(|calls| calls.waiting.is_empty() && !calls.is_executing)
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
            Some(calls) => calls.waiting.push_back((call, answer_to)),
            None => return Some((call, answer_to)),
        }
        self.news.notify_one();
        None
    }

    fn next(&self) -> Option<(Call, AnswerTo)> {
        let mut calls = self.lock();
        let calls = calls.as_mut()?;
        let next = calls.waiting.pop_front();
        calls.is_executing = next.is_some();
        next
    }

    fn lock(&self) -> MutexGuard<'_, Option<Calls>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let unanswered = self.0.lock().take();
        drop(unanswered); // runs the engine's code, so not under the lock
    }
}
