//! How reports are written with serde: times in whole milliseconds, under keys that end in `_ms`. Pure.

use std::time::Duration;

use serde::Serializer;

pub(crate) fn millis<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(whole_millis(*time))
}

pub(crate) fn millis_if_known<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.serialize_some(&whole_millis(*time)),
        None => to.serialize_none(),
    }
}

/// A shared text as a text: serde itself does so with a feature that concerns all crates of a build.
pub(crate) fn text<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
