//! Renewal of leases: one hashed timing wheel has the due times, renewals are sent in batches per node, and a loss is
//! noticed at the lease's deadline without any reply.
//!
//! Pure files: `wheel`, `slab`, `batch`, `batch_outcomes`, `deadline_queue`, `ttl_check`, `manual`, `in_flight`,
//! `log_limiter`, `slot_alignment`, `smoothing` and `scheduler`. `inbox` carries orders from other threads to the
//! scheduler. `driver` ticks the scheduler and sends its batches. `stall_watchdog` runs on the calls thread and detects
//! that the renewal thread has stopped ticking.

pub(crate) mod batch;
pub(crate) mod batch_outcomes;
mod deadline_queue;
pub(crate) mod driver;
mod in_flight;
pub(crate) mod inbox;
mod log_limiter;
pub(crate) mod manual;
pub(crate) mod scheduler;
pub(crate) mod slab;
mod slot_alignment;
mod smoothing;
pub(crate) mod stall_watchdog;
pub(crate) mod ttl_check;
pub(crate) mod wheel;
#[cfg(test)]
mod wheel_model;
