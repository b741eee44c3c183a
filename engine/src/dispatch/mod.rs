//! Limits for one node: how many calls may be unanswered, and how many background retries are sent per second.

pub(crate) mod per_node_limit;
pub(crate) mod retry_rate;
