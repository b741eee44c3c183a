//! Acquires keys: the callers queued for a key, the one attempt to get the key, and fairness towards other processes.
//!
//! `entry`, `queue`, `queue_index`, `caller_deadlines`, `fairness`, `attempt` and `caller` are pure. `table` keeps the
//! entries, `enqueue` adds and removes callers. `first_ask` sends the first ask of a key, and `driver` serves an entry that
//! needs more. `ask` is one ask with its answer, and `delivery` hands a grant out.
//!
//! `wait` is one acquire call, `bulk` is one name of a bulk call, and `reply_to` is the destination of the answer of
//! either. `pending_grant` gives a lease back unless its caller takes it. `watch_cursor` turns the counters of a watch
//! into events. `forced_release` is a release by force in progress. `contended_keys` counts the names with waiting callers on each node, and `warn_once` remembers the
//! locks without expiry that were reported.

mod ask;
pub(crate) mod attempt;
pub(crate) mod bulk;
pub(crate) mod caller;
mod caller_deadlines;
mod clarity;
pub(crate) mod contended_keys;
pub(crate) mod delivery;
mod driver;
pub(crate) mod enqueue;
pub(crate) mod entry;
mod fair_driver;
pub(crate) mod fair_entry;
pub(crate) mod fairness;
mod first_ask;
pub(crate) mod forced_release;
mod held_here;
pub(crate) mod pending_grant;
mod queue;
mod queue_index;
pub(crate) mod reply_to;
pub(crate) mod table;
mod turns;
pub(crate) mod wait;
pub(crate) mod warn_once;
pub(crate) mod watch_cursor;
