//! Limits of what is sent to one node: how many calls are unanswered, and how many background retries a second.

pub(crate) mod per_node_limit;
pub(crate) mod retry_rate;
