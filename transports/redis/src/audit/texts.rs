//! Texts in requests and replies.

use fred::types::Resp3Frame as Frame;

use crate::wire::{arg::Arg, reply};

/// A text that is known at compile time.
pub(super) fn literal(text: &'static str) -> Arg {
    Arg::word(text)
}

/// The texts of a list.
pub(super) fn texts(frame: &Frame) -> Vec<String> {
    let items = reply::array(frame).unwrap_or_default();
    items.iter().filter_map(reply::text).map(str::to_owned).collect()
}
