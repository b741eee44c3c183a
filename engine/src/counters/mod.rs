//! Counters: semaphores, latches and totals of permits. They have no owner, no ttl and no renewal.
//!
//! A counter's entry has one writing operation in flight at a time, so that the server has to remember only the last
//! number of each engine. Callers that want permits are queued in their order; the wants of up to 64 callers go to the
//! server in one operation. Releases and count-downs that wait are added up.
//!
//! - `entry/` decides what is sent next, and what an answer means. Pure; `entry/model.rs` checks every order of events.
//! - `table.rs` has the entries by name, `call.rs` queues callers, `driver.rs` sends, `wait.rs` records how a call ended.

pub(crate) mod call;
mod driver;
pub(crate) mod entry;
mod reply_to;
pub(crate) mod table;
pub(crate) mod wait;
