//! What is sent to each node: one outbox per node.
//!
//! `outbox` (pure) has the calls that wait to be sent (`call_queue`), alone or together with others, as far as `window` allows,
//! and the work that waits for a permit to start (`permit_queue`, `rate`): retries, calls of lists, releases of unconfirmed
//! owners. `dispatcher` is the state of one engine. `calls` sends calls (`unsent_call`), those that go together by `group`, and
//! `unanswered` is a command on its way. `permits` starts work (`work`) and takes its permit back (`permit`).

mod call_queue;
pub(crate) mod calls;
pub(crate) mod dispatcher;
mod group;
pub(crate) mod in_turn;
pub(crate) mod outbox;
pub(crate) mod permit;
mod permit_queue;
pub(crate) mod permits;
mod rate;
mod unanswered;
mod unsent_call;
mod window;
pub(crate) mod work;
