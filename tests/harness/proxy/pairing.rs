//! Which reply answers which request of one connection. Pure.
//!
//! A server answers in order, one frame for a request, with two exceptions that this file is about. A subscription
//! command is confirmed once per channel: in RESP2 by an array, in RESP3 by a push. And messages and other pushes
//! answer nothing. An error answers a whole subscription command.

use std::collections::{BTreeSet, VecDeque};

use crate::harness::frames::Frame;
use crate::harness::resp::Value;

/// The requests of one connection that wait for their reply, each with what its sender wants to remember.
#[derive(Debug)]
pub(super) struct Pairing<T> {
    waiting: VecDeque<Waiting<T>>,
    subscribed: BTreeSet<(Family, Vec<u8>)>,
}

/// A frame that answers a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Paired<T> {
    pub(super) tag: T,
    /// The first frame of this answer.
    pub(super) first: bool,
    /// The last frame of this answer.
    pub(super) last: bool,
}

impl<T: Clone> Pairing<T> {
    pub(super) fn new() -> Self {
        Self { waiting: VecDeque::new(), subscribed: BTreeSet::new() }
    }

    /// A request has gone to the server.
    pub(super) fn expect(&mut self, arguments: &[Vec<u8>], tag: T) {
        let confirmations = Confirmations::of(arguments);
        self.waiting.push_back(Waiting { tag, confirmations, begun: false });
    }

    /// A frame has come from the server; `None` if it answers nothing.
    pub(super) fn pair(&mut self, frame: &Frame) -> Option<Paired<T>> {
        match self.notice(frame) {
            Some(Notice::Message) => None,
            Some(Notice::Confirmation { verb, channel }) => self.confirm(verb, channel),
            None if frame.is_push() => None,
            None => self.waiting.pop_front().map(Waiting::answered_whole),
        }
    }

    /// Only a connection that listens gets notices as plain arrays; on others a reply may look like one.
    fn notice(&self, frame: &Frame) -> Option<Notice> {
        let listens = || !self.subscribed.is_empty() || self.waiting.front().is_some_and(Waiting::subscribes);
        let possible = frame.is_push() || (frame.kind == b'*' && listens());
        possible.then(|| Notice::read(&frame.bytes)).flatten()
    }

    fn confirm(&mut self, verb: Verb, channel: Vec<u8>) -> Option<Paired<T>> {
        match verb.begins {
            true => self.subscribed.insert((verb.family, channel)),
            false => self.subscribed.remove(&(verb.family, channel)),
        };
        let still_subscribed = self.subscribed.iter().any(|(family, _)| *family == verb.family);
        // One that nobody asked for: a server ends sharded subscriptions itself when a slot moves away.
        let front = self.waiting.front_mut()?;
        let last = front.confirmations.as_mut()?.confirmed(verb, still_subscribed)?;
        let paired = Paired { tag: front.tag.clone(), first: !front.begun, last };
        front.begun = true;
        if last {
            self.waiting.pop_front();
        }
        Some(paired)
    }
}

#[derive(Debug)]
struct Waiting<T> {
    tag: T,
    confirmations: Option<Confirmations>,
    begun: bool,
}

impl<T> Waiting<T> {
    fn subscribes(&self) -> bool {
        self.confirmations.is_some()
    }

    fn answered_whole(self) -> Paired<T> {
        Paired { tag: self.tag, first: !self.begun, last: true }
    }
}

/// What a subscription command waits for.
#[derive(Debug)]
struct Confirmations {
    verb: Verb,
    /// `None`: one for each channel that is subscribed when the server gets to it.
    left: Option<usize>,
}

impl Confirmations {
    fn of(arguments: &[Vec<u8>]) -> Option<Self> {
        let (name, channels) = arguments.split_first()?;
        let left = (!channels.is_empty()).then_some(channels.len());
        Some(Self { verb: Verb::read(name)?, left })
    }

    /// Whether this was the last; `None` if it is none of ours.
    fn confirmed(&mut self, verb: Verb, still_subscribed: bool) -> Option<bool> {
        if verb != self.verb {
            return None;
        }
        let Some(left) = &mut self.left else { return Some(!still_subscribed) };
        *left -= 1;
        Some(*left == 0)
    }
}

#[derive(Debug)]
enum Notice {
    Message,
    Confirmation { verb: Verb, channel: Vec<u8> },
}

impl Notice {
    fn read(bytes: &[u8]) -> Option<Self> {
        let value = Value::parse(bytes)?;
        let word = value.items().first()?.bytes()?;
        if MESSAGES.contains(&word) {
            return Some(Self::Message);
        }
        let channel = value.items().get(1).and_then(Value::bytes).unwrap_or_default().to_vec();
        Some(Self::Confirmation { verb: Verb::read(word)?, channel })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verb {
    family: Family,
    begins: bool,
}

impl Verb {
    fn read(word: &[u8]) -> Option<Self> {
        let (_, verb) = VERBS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word))?;
        Some(*verb)
    }
}

/// The three kinds of subscription, each with channels of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    Classic,
    Pattern,
    Sharded,
}

const MESSAGES: [&[u8]; 3] = [b"message", b"pmessage", b"smessage"];

const VERBS: [(&[u8], Verb); 6] = [
    (b"subscribe", Verb { family: Family::Classic, begins: true }),
    (b"unsubscribe", Verb { family: Family::Classic, begins: false }),
    (b"psubscribe", Verb { family: Family::Pattern, begins: true }),
    (b"punsubscribe", Verb { family: Family::Pattern, begins: false }),
    (b"ssubscribe", Verb { family: Family::Sharded, begins: true }),
    (b"sunsubscribe", Verb { family: Family::Sharded, begins: false }),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::frames::FrameReader;

    fn frame(bytes: &str) -> Frame {
        let mut reader = FrameReader::of_replies();
        reader.feed(bytes.as_bytes());
        reader.next_frame().expect("RESP").expect("complete")
    }

    /// `["message", "c", ...]` as an array or as a push.
    fn notice(kind: char, words: &[&str]) -> Frame {
        let members: String = words.iter().map(|word| format!("+{word}\r\n")).collect();
        frame(&format!("{kind}{}\r\n{members}", words.len()))
    }

    fn pairing_of(requests: &[&str]) -> Pairing<usize> {
        let mut pairing = Pairing::new();
        for (tag, request) in requests.iter().enumerate() {
            let arguments: Vec<_> = request.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            pairing.expect(&arguments, tag);
        }
        pairing
    }

    fn paired(tag: usize, first: bool, last: bool) -> Option<Paired<usize>> {
        Some(Paired { tag, first, last })
    }

    #[test]
    fn replies_answer_in_order_and_one_too_many_answers_nothing() {
        let mut pairing = pairing_of(&["GET a", "GET b"]);
        assert_eq!(pairing.pair(&frame("$1\r\nx\r\n")), paired(0, true, true));
        assert_eq!(pairing.pair(&frame("-ERR no\r\n")), paired(1, true, true));
        assert_eq!(pairing.pair(&frame("+OK\r\n")), None);
    }

    #[test]
    fn pushes_and_messages_answer_nothing() {
        for kind in ['*', '>'] {
            let mut pairing = pairing_of(&["SUBSCRIBE c", "PING"]);
            assert_eq!(pairing.pair(&notice(kind, &["subscribe", "c", "1"])), paired(0, true, true));
            assert_eq!(pairing.pair(&notice(kind, &["message", "c", "0"])), None);
            assert_eq!(pairing.pair(&notice('>', &["invalidate", "k"])), None);
            assert_eq!(pairing.pair(&frame("*2\r\n+pong\r\n+\r\n")), paired(1, true, true));
        }
    }

    #[test]
    fn a_subscription_is_confirmed_once_per_channel() {
        for kind in ['*', '>'] {
            let mut pairing = pairing_of(&["ssubscribe a b", "PING"]);
            assert_eq!(pairing.pair(&notice(kind, &["ssubscribe", "a", "1"])), paired(0, true, false));
            assert_eq!(pairing.pair(&notice(kind, &["smessage", "a", "0"])), None);
            assert_eq!(pairing.pair(&notice(kind, &["ssubscribe", "b", "2"])), paired(0, false, true));
            assert_eq!(pairing.pair(&frame("+PONG\r\n")), paired(1, true, true));
        }
    }

    #[test]
    fn an_unsubscribe_of_all_is_over_when_nothing_is_left() {
        let mut pairing = pairing_of(&["SUBSCRIBE a b", "UNSUBSCRIBE", "UNSUBSCRIBE", "PING"]);
        pairing.pair(&notice('*', &["subscribe", "a", "1"]));
        pairing.pair(&notice('*', &["subscribe", "b", "2"]));
        assert_eq!(pairing.pair(&notice('*', &["unsubscribe", "a", "1"])), paired(1, true, false));
        assert_eq!(pairing.pair(&notice('*', &["unsubscribe", "b", "0"])), paired(1, false, true));
        assert_eq!(pairing.pair(&frame("*3\r\n+unsubscribe\r\n$-1\r\n:0\r\n")), paired(2, true, true));
        assert_eq!(pairing.pair(&frame("+PONG\r\n")), paired(3, true, true));
    }

    #[test]
    fn an_error_answers_the_whole_subscription() {
        let mut pairing = pairing_of(&["SUBSCRIBE a b", "PING"]);
        assert_eq!(pairing.pair(&frame("-NOPERM no\r\n")), paired(0, true, true));
        assert_eq!(pairing.pair(&frame("+PONG\r\n")), paired(1, true, true));
    }

    #[test]
    fn a_subscription_that_the_server_ends_answers_nothing() {
        let mut pairing = pairing_of(&["SSUBSCRIBE a", "PING"]);
        pairing.pair(&notice('>', &["ssubscribe", "a", "1"]));
        assert_eq!(pairing.pair(&notice('>', &["sunsubscribe", "a", "0"])), None);
        assert_eq!(pairing.pair(&frame("+PONG\r\n")), paired(1, true, true));
    }

    #[test]
    fn a_list_that_begins_with_message_is_a_reply_where_nobody_listens() {
        let mut pairing = pairing_of(&["LRANGE l 0 -1"]);
        assert_eq!(pairing.pair(&notice('*', &["message", "c", "0"])), paired(0, true, true));
    }
}
