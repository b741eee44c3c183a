//! One connection to one server: connecting, handshake, watchdog, and the requests on it.

pub(crate) mod backoff;
pub(crate) mod batching;
mod call_error;
mod calls;
pub(crate) mod connect;
mod counting;
mod deadline;
pub(crate) mod features;
mod files;
mod group_commit;
pub(crate) mod handshake;
pub(crate) mod identity;
pub(crate) mod link;
mod node_connection;
mod offset;
mod one_server;
pub(crate) mod plain_error;
mod relay;
mod renewal;
mod renewal_scripts;
pub(crate) mod requests;
mod script_call;
mod tls;
mod tls_errors;
pub(crate) mod warn_interval;
pub(crate) mod watchdog;

pub(crate) use batching::Batches;
pub(crate) use call_error::CallError;
pub(crate) use calls::{KINDS, permits_of, refusal};
pub(crate) use counting::channel as counter_channel;
pub(crate) use node_connection::{Connection, Terms};
pub(crate) use one_server::Together;
pub(crate) use renewal::{answer_all, is_about_the_batch, is_passing};
pub(crate) use renewal_scripts::{Part, is_read};
pub(crate) use script_call::Asking;
