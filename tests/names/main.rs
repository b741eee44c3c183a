//! What is on the server, byte for byte, against Redisson's traces and a real server.
