//! The transport against a redis-server that each test starts for itself.

mod failures;
mod locks;
mod server;
