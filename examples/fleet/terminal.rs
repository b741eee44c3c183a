//! Lines on stderr: those that stay, and the live one, which is rewritten in place.

use std::io::{self, IsTerminal, Write};

/// Writes one line that stays.
pub(crate) fn say(text: &str) {
    write(&format!("{text}\n"));
}

/// Replaces the live line. A stderr that is closed is no reason to stop.
pub(crate) fn write(text: &str) {
    let clear = if io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
    let _ = write!(io::stderr().lock(), "{clear}{text}");
}
