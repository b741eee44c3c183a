//! Proxies between an engine and its servers.

mod groups;
mod kinds;
mod wrong_answers;
