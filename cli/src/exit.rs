//! The exit codes. Pure. Those above 63 are those of `sysexits.h`, as far as it has one; `flock` uses them, too.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use leasehold::transport::ErrorKind;

pub(crate) const SUCCESS: u8 = 0;
/// `run`: the lock was not acquired in time. `release`: nothing was released. `doctor`: there is a finding of the level of `--fail-on` or above.
pub(crate) const NO: u8 = 1;
/// The arguments cannot be used.
pub(crate) const USAGE: u8 = 64;
/// The key holds a value that is no lock.
pub(crate) const NO_LOCK: u8 = 65;
/// The output cannot be written.
pub(crate) const OUTPUT: u8 = 74;
/// No server answered in time. The command can be repeated.
pub(crate) const UNAVAILABLE: u8 = 75;
/// A server answered what makes no sense.
pub(crate) const PROTOCOL: u8 = 76;
/// The server refuses the user: a wrong password, or a missing right.
pub(crate) const DENIED: u8 = 77;
/// The configuration cannot be used.
pub(crate) const CONFIG: u8 = 78;
/// `run`: the lease was lost, or nearly, and the command was stopped.
pub(crate) const LOST: u8 = 79;
/// `run`: the command cannot be started.
pub(crate) const CANNOT_START: u8 = 126;
/// `run`: the command was not found.
pub(crate) const NOT_FOUND: u8 = 127;
/// The reader of the output has gone, as a shell shows it: 128 and the number of SIGPIPE.
pub(crate) const NO_READER: u8 = 141;

/// The code for an error of a server.
pub(crate) fn of_error(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Denied => DENIED,
        ErrorKind::WrongType => NO_LOCK,
        ErrorKind::Misconfigured => CONFIG,
        ErrorKind::Protocol => PROTOCOL,
        _ => UNAVAILABLE,
    }
}

/// The code of a command: its own, or 128 and the number of the signal that ended it.
pub(crate) fn of_command(status: ExitStatus) -> u8 {
    let by_signal = || status.signal().map(of_signal);
    status.code().and_then(|code| u8::try_from(code).ok()).or_else(by_signal).unwrap_or(NO)
}

/// 128 and the number of the signal.
pub(crate) fn of_signal(signal: i32) -> u8 {
    u8::try_from(signal.saturating_add(128)).unwrap_or(NO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_command_is_passed_on() {
        assert_eq!(of_command(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(of_command(ExitStatus::from_raw(9)), 137);
        assert_eq!(of_command(ExitStatus::from_raw(0)), SUCCESS);
    }

    #[test]
    fn held_and_unavailable_and_refused_differ() {
        let codes = [NO, of_error(ErrorKind::Unreachable), of_error(ErrorKind::Denied), USAGE, LOST, CONFIG];
        assert_eq!(codes, [1, 75, 77, 64, 79, 78]);
    }
}
