//! `leasehold watch NAME`.

use leasehold::clock::{Clock, Instant};
use leasehold_redis::ConfigFile;
use serde_json::{Value, json};

use crate::{
    arguments::{Until, Watch},
    duration::{millis, seconds},
    exit,
    failure::Failure,
    look::look,
    output::Output,
    report::Report,
    servers,
};

/// What was seen at one look. A server that does not answer is something to see, too.
type Seen = Result<Report, String>;

pub(crate) async fn watch(watch: Watch, configuration: ConfigFile, output: Output) -> Result<u8, Failure> {
    let engine = servers::engine(configuration, output).await?;
    let (since, mut before) = (Clock::Boot.now(), None::<Seen>);
    loop {
        let looked = look(&engine, &watch.lock.name, watch.lock.kind).await;
        let seen = seen(looked.map(Report::of).map_err(Failure::from))?;
        if is_news(before.as_ref(), &seen) {
            tell(output, since, &watch.lock.name, &seen)?;
        }
        if is_over(watch.until, &seen) {
            return Ok(exit::SUCCESS);
        }
        before = Some(seen);
        tokio::time::sleep(watch.interval).await;
    }
}

// What another look would not change ends the command.
fn seen(looked: Result<Report, Failure>) -> Result<Seen, Failure> {
    match looked {
        Ok(report) => Ok(Ok(report)),
        Err(failure) if [exit::UNAVAILABLE, exit::PROTOCOL].contains(&failure.code) => Ok(Err(failure.text)),
        Err(failure) => Err(failure),
    }
}

fn tell(output: Output, since: Instant, name: &str, seen: &Seen) -> Result<(), Failure> {
    let after = Clock::Boot.now().since(since);
    match seen {
        Ok(report) => {
            output.result(&format_args!("+{} {report}", seconds(after)), &at(report.json(), millis(after)))
        }
        Err(error) => {
            let text = format!("+{} {name:?}: not known: {error}", seconds(after));
            output.result(&text, &at(json!({ "name": name, "error": error }), millis(after)))
        }
    }
}

fn at(mut document: Value, after_ms: u64) -> Value {
    if let Value::Object(fields) = &mut document {
        fields.insert("after_ms".to_owned(), after_ms.into());
    }
    document
}

/// Whether something has changed besides the time that is left, which renewals change all the time.
fn is_news(before: Option<&Seen>, now: &Seen) -> bool {
    match (before, now) {
        (Some(Ok(before)), Ok(now)) => before.without_times() != now.without_times(),
        (Some(Err(_)), Err(_)) => false,
        (Some(Ok(_)), Err(_)) | (Some(Err(_)), Ok(_)) | (None, _) => true,
    }
}

fn is_over(until: Option<Until>, seen: &Seen) -> bool {
    match (until, seen) {
        (Some(Until::Free), Ok(report)) => report.is_free(),
        (Some(Until::Held), Ok(report)) => !report.is_free(),
        (None, _) | (_, Err(_)) => false,
    }
}
