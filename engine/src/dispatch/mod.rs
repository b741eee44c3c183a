//! What is sent to one node: acquires and releases, alone or together; how many calls may be unanswered, and how many
//! background retries are sent per second.

pub(crate) mod group_commit;
pub(crate) mod in_turn;
pub(crate) mod node_queue;
pub(crate) mod per_node_limit;
pub(crate) mod retry_rate;
