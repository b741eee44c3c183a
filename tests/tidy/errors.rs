//! Every public error type is a `std::error::Error` that `?` turns into `Box<dyn Error>` and `anyhow::Error`.

use std::{error::Error, io};

use leasehold::{
    AcquireError, BoxedError, BuildError, CountError, DowngradeError, InspectError, Invalid, LabelFault,
    LossReason, MultiError, NotHeld, ReleaseError, RenewError, RunError, key::NameFault,
    transport::TransportError,
};
use leasehold_redis::{ConfigError, ConfigFileError};

use crate::growth::published;

/// The name of an error type, if it is one that `?` takes.
fn an_error<E: Error + Send + Sync + 'static>() -> &'static str {
    let into_a_box = |error: E| -> Result<(), Box<dyn Error>> { Err(error)? };
    let into_any = |error: E| -> anyhow::Result<()> { Err(error)? };
    let _ = (into_a_box, into_any);
    let path = std::any::type_name::<E>();
    let path = path.split('<').next().unwrap_or(path);
    path.rsplit("::").next().unwrap_or(path)
}

fn all() -> Vec<&'static str> {
    vec![
        an_error::<AcquireError>(),
        an_error::<BoxedError>(),
        an_error::<BuildError>(),
        an_error::<ConfigError>(),
        an_error::<ConfigFileError>(),
        an_error::<CountError>(),
        an_error::<DowngradeError>(),
        an_error::<InspectError>(),
        an_error::<Invalid>(),
        an_error::<LabelFault>(),
        an_error::<LossReason>(),
        an_error::<MultiError>(),
        an_error::<NameFault>(),
        an_error::<NotHeld>(),
        an_error::<ReleaseError>(),
        an_error::<RenewError>(),
        an_error::<RunError<io::Error>>(),
        an_error::<TransportError>(),
    ]
}

/// The names of public types that a caller is told as an error: those called so, and those that a public function
/// returns in `Err`.
fn told() -> Vec<String> {
    let mut told = Vec::new();
    for (_, text) in published() {
        for line in text.lines() {
            let line = line.trim_start();
            let rest = line.strip_prefix("pub enum ").or_else(|| line.strip_prefix("pub struct "));
            told.extend(rest.map(first_word).filter(|name| name.ends_with("Error")));
            if line.starts_with("pub ") && !line.starts_with("pub(") {
                told.extend(returned(line));
            }
        }
    }
    told
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric()).collect()
}

/// The error in the first `Result<_, Error>` that a line returns.
fn returned(line: &str) -> Option<String> {
    let (_, result) = line.split_once("-> ")?.1.split_once("Result<")?;
    let mut depth = 0;
    let (at, _) = result.char_indices().find(|(_, letter)| {
        depth += i32::from("<([".contains(*letter)) - i32::from(">)]".contains(*letter));
        *letter == ',' && depth == 0
    })?;
    Some(first_word(result[at + 1..].trim_start()))
}

#[test]
fn every_public_error_type_goes_with_a_question_mark() {
    let (all, told) = (all(), told());
    assert!(told.len() > 40, "the functions were not found: {told:?}");
    // One letter: a parameter of a generic function.
    let unlisted: Vec<_> =
        told.iter().filter(|name| name.len() > 1 && !all.contains(&name.as_str())).collect();
    assert!(unlisted.is_empty(), "implement std::error::Error and add to the list: {unlisted:?}");
}

/// Work that fails with a box or an `anyhow::Error`, which are no `Error`, goes with `RunError::boxed`.
#[test]
fn the_errors_of_any_work_go_with_a_question_mark() {
    fn through(error: RunError<anyhow::Error>) -> anyhow::Result<()> {
        Err(error.boxed())?
    }
    fn through_a_box(error: RunError<Box<dyn Error + Send + Sync>>) -> Result<(), Box<dyn Error>> {
        Err(error.boxed())?
    }
    let work = anyhow::anyhow!("the printer is out of paper").context("page 3");
    let texts: Vec<_> = through(RunError::Work(work)).unwrap_err().chain().map(ToString::to_string).collect();
    assert_eq!(texts, ["page 3", "the printer is out of paper"]);
    let boxed = through_a_box(RunError::Work("no paper".into())).unwrap_err();
    assert_eq!(boxed.to_string(), "no paper");
    let lost = through(RunError::Lost(LossReason::Expired)).unwrap_err();
    assert_eq!(
        lost.to_string(),
        "the lease was lost and the work dropped: no renewal was confirmed before the deadline"
    );
}

#[test]
fn a_text_is_not_repeated_by_the_source() {
    let last_error = || {
        TransportError::without_effect(leasehold::transport::ErrorKind::Unreachable, None, "cannot connect")
            .because(io::Error::other("no route"))
    };
    let counted = CountError::Refused(last_error());
    let multi = MultiError::Member { name: "a".into(), place: 0, error: AcquireError::Refused(last_error()) };
    for error in [&counted as &dyn Error, &multi, &RunError::<io::Error, _>::Acquire(multi.clone())] {
        let source = error.source().expect("the cause").to_string();
        assert_eq!(source, "no route");
        assert!(!error.to_string().contains(&source), "{error}");
    }
}
