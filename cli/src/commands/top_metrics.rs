//! `leasehold top --metrics URL`: the locks that callers waited for, as the processes themselves count it.

use serde_json::{Value, json};

use super::top::clear;
use crate::{
    arguments::Top,
    duration::{millis, shown},
    endpoints::{self, Hottest},
    exit,
    failure::Failure,
    output::Output,
};

/// `is_server_named`: an option names servers, which are not asked.
pub(crate) async fn top(top: Top, is_server_named: bool, output: Output) -> Result<u8, Failure> {
    if is_server_named {
        return Err(Failure::new(exit::USAGE, BOTH));
    }
    loop {
        let found = endpoints::read(&top.metrics, &top.pattern).await;
        output.result(
            &format_args!("{}{}", clear(output, &top), text(&found, top.limit)),
            &document(&found, top.limit),
        )?;
        if top.once {
            return is_whole(&found).map(|()| exit::SUCCESS);
        }
        tokio::time::sleep(top.interval).await;
    }
}

fn is_whole(found: &Hottest) -> Result<(), Failure> {
    let not_read = found.not_read().len();
    if not_read == 0 {
        return Ok(());
    }
    // The list itself names each of them with the cause.
    let all = found.read() + not_read;
    let text = format!("the list is incomplete: {not_read} of {all} processes could not be read");
    Err(Failure::new(exit::UNAVAILABLE, text))
}

fn text(found: &Hottest, limit: usize) -> String {
    let (read, all) = (found.read(), found.read() + found.not_read().len());
    let head = format!(
        "{read} of {all} processes read, {} locks with waits in the last one to two minutes",
        found.named()
    );
    let lines = found
        .most(limit)
        .into_iter()
        .map(|(name, waited)| format!("{:>10}  {:>9}  {name:?}", shown(waited.time), waited.processes));
    let heading =
        if found.named() > 0 { Some(HEADING.to_owned()) } else { (read > 0).then(|| NO_NAMES.to_owned()) };
    let errors = found.not_read().iter().map(|(address, error)| format!("not read: {address}: {error}"));
    [head].into_iter().chain(heading).chain(lines).chain(errors).collect::<Vec<_>>().join("\n")
}

fn document(found: &Hottest, limit: usize) -> Value {
    let locks = found.most(limit).into_iter().map(|(name, waited)| {
        json!({ "name": name, "waited_ms": millis(waited.time), "processes": waited.processes })
    });
    let errors =
        found.not_read().iter().map(|(address, error)| json!({ "url": address.to_string(), "error": error }));
    json!({
        "processes": found.read(),
        "named": found.named(),
        "locks": locks.collect::<Vec<_>>(),
        "not_read": errors.collect::<Vec<_>>(),
    })
}

const BOTH: &str =
    "--metrics cannot be combined with --config or --url: it asks processes, and no server; leave one out";
const HEADING: &str = "    waited  processes  name";
const NO_NAMES: &str = "no names: no wait has ended lately, or the processes do not name locks; set hot_lock_names = true \
                        in [engine] of their settings";
