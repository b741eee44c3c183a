//! What the small examples share: the one option they take, and errors that read well when `main` returns them.

use std::{error::Error, fmt, process};

/// The server that `--url redis://...` names; `None` without arguments. Ends the process on anything else.
pub fn url() -> Option<String> {
    let mut arguments = std::env::args().skip(1);
    let (flag, value) = (arguments.next()?, arguments.next());
    match (flag.as_str(), value, arguments.next()) {
        ("--url", Some(url), None) => Some(url),
        ("--help" | "-h", None, None) => usage(0),
        _ => usage(2),
    }
}

// What was written is not repeated: a URL may carry a password.
fn usage(code: i32) -> ! {
    eprintln!(
        "Runs in memory without arguments, or with: --url redis://[[user]:password@]host[:port][/database]"
    );
    process::exit(code)
}

/// Any error, shown by its own words. (`main` shows what it returns with `Debug`.)
pub struct Trouble(Box<dyn Error + Send + Sync>);

impl<E: Error + Send + Sync + 'static> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Debug for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The first screen of the project compiles.
#[doc = include_str!("../README.md")]
#[cfg(doctest)]
mod first_screen {}
