//! The live line on stderr: rewritten in place on a terminal, one line now and then elsewhere.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use crate::{
    crew::{Shared, now},
    terminal::write,
};

/// Shows the line until it is aborted.
pub(crate) async fn show(crew: Shared) {
    let (pause, end) = if io::stderr().is_terminal() { (ON_TERMINAL, "") } else { (ELSEWHERE, "\n") };
    let mut before = Rates::of(&crew);
    loop {
        tokio::time::sleep(pause).await;
        let rates = Rates::of(&crew);
        write(&format!("{}{end}", line(&crew, &before, &rates)));
        before = rates;
    }
}

/// Counts from which rates are made.
struct Rates {
    seconds: f64,
    granted: u64,
    renewals: u64,
}

impl Rates {
    fn of(crew: &Shared) -> Self {
        let (granted, renewals) = (crew.tally.counts().granted, crew.engine.snapshot().renewals);
        Self { seconds: crew.tally.seconds(now()), granted, renewals }
    }
}

fn line(crew: &Shared, before: &Rates, rates: &Rates) -> String {
    let (counts, engine) = (crew.tally.counts(), crew.engine.snapshot());
    let per_second = |more: u64| more as f64 / (rates.seconds - before.seconds).max(0.001);
    let wait = |share| crew.waits.quantile_ms(share).map_or("-".to_owned(), |ms| format!("{ms:.1}"));
    let connection = if engine.connected { "" } else { "  NOT CONNECTED" };
    format!(
        "{:6.1} s  held {}  waiting {}  grants/s {:.0}  renewals/s {:.0}  jeopardy {}  lost {}  wait ms p50 {} p99 {}{connection}",
        rates.seconds,
        engine.held,
        engine.waiting,
        per_second(rates.granted - before.granted),
        per_second(rates.renewals - before.renewals),
        engine.jeopardy,
        counts.lost,
        wait(0.5),
        wait(0.99),
    )
}

const ON_TERMINAL: Duration = Duration::from_millis(250);
const ELSEWHERE: Duration = Duration::from_secs(1);
