//! Proxies between an engine and its servers.

mod kinds;
mod wrong_answers;
