//! Several processes on one server.
