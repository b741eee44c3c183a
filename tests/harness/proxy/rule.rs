//! Which request is struck, and how.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Strikes the `nth` matching request from now on, and those behind it, `times` in all.
///
/// Rules are asked in the order they were added. A request goes to the first rule that fires for it; the rules behind
/// do not count it, so the same rule added twice strikes the first and the second match.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Which requests count.
    pub matching: Match,
    /// The first match that is struck; 1 is the next one.
    pub nth: u64,
    /// How many matches are struck, from that one on.
    pub times: u64,
    /// What happens to them.
    pub fault: Fault,
}

impl Rule {
    /// Strikes the next match and no other.
    pub fn once(matching: Match, fault: Fault) -> Self {
        Self { matching, nth: 1, times: 1, fault }
    }

    /// Strikes every match.
    pub fn always(matching: Match, fault: Fault) -> Self {
        Self { matching, nth: 1, times: u64::MAX, fault }
    }

    /// Whether the `count`th match is struck.
    pub(super) fn strikes(&self, count: u64) -> bool {
        count >= self.nth && count - self.nth < self.times
    }
}

/// Looks at the arguments of a request, the command's name first.
#[derive(Clone)]
pub struct Match(Arc<Looks>);

type Looks = dyn Fn(&[Vec<u8>]) -> bool + Send + Sync;

impl Match {
    /// Every request, also those of a client's own handshake.
    pub fn any() -> Self {
        Self::with(|_| true)
    }

    /// By the command's name, in any case.
    pub fn command(name: &str) -> Self {
        let name = name.as_bytes().to_vec();
        Self::with(move |arguments| arguments.first().is_some_and(|first| first.eq_ignore_ascii_case(&name)))
    }

    /// By bytes inside any one argument: a lock's name, the uuid of an owner, the hash of a script.
    pub fn containing(bytes: impl Into<Vec<u8>>) -> Self {
        let part = bytes.into();
        Self::with(move |arguments| arguments.iter().any(|argument| contains(argument, &part)))
    }

    /// By a closure.
    pub fn with(looks: impl Fn(&[Vec<u8>]) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(looks))
    }

    /// Both of two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::with(move |arguments| self.fits(arguments) && other.fits(arguments))
    }

    pub(super) fn fits(&self, arguments: &[Vec<u8>]) -> bool {
        (self.0)(arguments)
    }
}

impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Match(..)")
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}

/// What happens to a request that is struck, or to its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request never reaches the server, and nothing comes back for it.
    LoseRequest,
    /// The server executes the request; its reply is swallowed.
    LoseReply,
    /// The request, and all behind it on the connection, reach the server so much later. They do so even if the client
    /// has closed the connection by then.
    DelayRequest(Duration),
    /// The reply, and all behind it on the connection, reach the client so much later.
    DelayReply(Duration),
    /// The server gets the request twice; the client gets the first reply.
    RepeatRequest,
    /// The client gets the reply twice: from then on its replies are one off, on purpose.
    RepeatReply,
    /// The request is kept until [`deliver`](super::RuleHandle::deliver); those behind it pass. What the server then
    /// answers goes to the test, never to the client.
    HoldRequest,
    /// The client's connection is closed and the request goes nowhere. Those before it still reach the server.
    CutBefore,
    /// The server executes the request, and the client's connection is closed before the reply.
    CutAfter,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn matches_by_name_by_part_and_by_both() {
        let acquire = request(&["evalsha", "sha", "1", "orders:42", "uuid:7"]);
        assert!(Match::command("EVALSHA").fits(&acquire));
        assert!(!Match::command("EVAL").fits(&acquire));
        assert!(Match::containing("uuid:").fits(&acquire));
        assert!(!Match::containing("orders:43").fits(&acquire));
        assert!(!Match::command("GET").and(Match::containing("uuid")).fits(&acquire));
        assert!(Match::with(|arguments| arguments.len() == 5).and(Match::any()).fits(&acquire));
        assert!(!Match::command("GET").fits(&[]));
    }

    #[test]
    fn a_rule_strikes_from_the_nth_so_many_times() {
        let rule = Rule { nth: 2, times: 2, ..Rule::once(Match::any(), Fault::LoseReply) };
        let struck: Vec<u64> = (1..6).filter(|count| rule.strikes(*count)).collect();
        assert_eq!(struck, [2, 3]);
        assert!(Rule::always(Match::any(), Fault::LoseReply).strikes(u64::MAX));
    }
}
