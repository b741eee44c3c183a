//! Every valid name is a lock of its own.

use std::sync::Arc;

use leasehold::{
    key::{LockKey, NAME_BYTES_MAX},
    transport::{Effect, ErrorKind},
};

use super::{Context, Fixture, LONG, granted, held};

/// Braces, NUL, line ends, spaces, wildcards and letters of all kinds.
pub async fn odd_names_are_names<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for name in ODD {
        is_a_lock::<G>(&context, &context.key(name)).await;
    }
}

/// 8 KiB, prefix included.
pub async fn the_longest_name_is_a_name<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let longest = "x".repeat(NAME_BYTES_MAX - context.prefix_bytes());
    is_a_lock::<G>(&context, &context.key(&longest)).await;
}

/// Nothing is trimmed, folded, cut off or put into a normal form.
pub async fn similar_names_are_different_locks<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let long = "x".repeat(4000);
    let (longer, other) = (format!("{long}1"), format!("{long}2"));
    let names = ["a", "A", "a ", " a", "a\0", "a\n", "\u{e4}", "a\u{308}", &long, &longer, &other];
    for name in names {
        granted(&context.acquire(&context.key(name), context.owner(), LONG).await);
    }
}

async fn is_a_lock<G: Fixture>(context: &Context, key: &Arc<LockKey>) {
    let owner = context.owner();
    let reply = match context.calls.call_one(context.acquire_request(key, owner, LONG)).await.into_result() {
        Ok(reply) => reply,
        Err(error) => {
            let refused = (error.kind, error.effect) == (ErrorKind::Misconfigured, Effect::None);
            assert!(refused && !G::EVERY_NAME, "{key:?}: {error:?}");
            return;
        }
    };
    granted(&reply);
    assert!(context.is_held_by(key, owner).await, "{key:?}");
    held(&context.acquire(key, context.owner(), LONG).await);
    context.release(key, owner).await;
    assert!(context.is_free(key).await, "{key:?}");
}

const ODD: &[&str] = &[
    "a{b",
    "a}b",
    "}a{",
    "{}x",
    "{",
    "}",
    "{{a}}",
    "{a}b",
    "a{b}c{d}",
    " ",
    "*",
    "a:b:c",
    "%s",
    "'; --",
    "\"",
    "\\",
    "a\0b",
    "\0",
    "line\nend",
    "line\r\nend",
    "\t",
    "\u{7f}",
    "Schl\u{fc}ssel",
    "\u{9375}",
    "\u{1f512}",
    "\u{202e}rtl",
];
