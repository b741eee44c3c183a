//! `--kind`: what contenders contend for. Each kind is one file, and a line in [`KINDS`] and in the text of `--help`.

mod exclusive;
mod fair;
mod fenced;
mod kind;
mod latch;
mod permits;
mod read_write;
mod semaphore;
mod spin;

pub(crate) use self::kind::{Contest, Kind};
use crate::options::Wrong;

/// Every kind, in the order of `--help`.
const KINDS: [Kind; 8] = [
    exclusive::EXCLUSIVE,
    spin::SPIN,
    fenced::FENCED,
    fair::FAIR,
    read_write::READ_WRITE,
    semaphore::SEMAPHORE,
    permits::PERMITS,
    latch::LATCH,
];

/// The kind of this name.
///
/// # Errors
/// There is none: the names that there are.
pub(crate) fn find(name: &str) -> Result<Kind, Wrong> {
    let found = KINDS.into_iter().find(|kind| kind.name == name);
    found.ok_or_else(|| {
        let names = KINDS.map(|kind| kind.name).join(", ");
        Wrong::new("--kind", Some(name.to_owned()), format!("give one of {names}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{HELP, Options};

    #[test]
    fn the_help_names_every_kind() {
        for kind in KINDS {
            assert!(HELP.contains(&format!("\n    {} ", kind.name)), "{}", kind.name);
            assert_eq!(find(kind.name).ok().map(|found| found.name), Some(kind.name));
        }
    }

    #[test]
    fn without_the_option_the_kind_is_the_first() {
        assert_eq!(Options::default().kind, KINDS[0].name);
    }

    #[test]
    fn an_unknown_kind_is_refused_with_those_that_there_are() {
        let said = find("lock").err().map(|wrong| wrong.to_string()).unwrap_or_default();
        assert!(said.starts_with(r#"--kind is "lock": give one of exclusive, spin, "#), "{said}");
    }
}
