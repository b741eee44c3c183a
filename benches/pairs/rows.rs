//! The rows of one number of tasks.

use super::{
    contestant::{ALONE, MEMORY, ON_CALLERS, OWN_THREAD, PEER, RAW, SHIPPED},
    place::Place,
    used::Round,
};
use crate::{rounds::Spread, table::Table};

pub(super) struct Rows<'a> {
    pub(super) place: &'a Place,
    pub(super) tasks: usize,
    /// Of each contestant, by its name.
    pub(super) rounds: Vec<(&'static str, Vec<Round>)>,
}

impl Rows<'_> {
    pub(super) fn add_to(&self, table: &mut Table) {
        self.add_rate(table, MEMORY);
        for ours in [SHIPPED, ON_CALLERS] {
            self.add_rate(table, ours);
            self.add(table, ours, "commands a pair", |round| round.commands, "commands");
            self.add_times(table, ours);
            self.add_ratio(table, ours, PEER, PEER);
            self.add_ratio(table, ours, RAW, &format!("raw(1, {})", self.tasks));
        }
        self.add_rate(table, ALONE);
        self.add_ratio(table, SHIPPED, ALONE, "a command for each call");
        self.add_rate(table, OWN_THREAD);
        self.add_ratio(table, SHIPPED, OWN_THREAD, "connections on the engine's thread");
        self.add_rate(table, PEER);
        self.add_times(table, PEER);
        self.add_rate(table, RAW);
        self.add_times(table, RAW);
    }

    fn title(&self, name: &str) -> String {
        format!("{name}, {} tasks, {}", self.tasks, self.place)
    }

    /// `None`: this contestant was not measured here.
    fn figures(&self, name: &str, figure: fn(&Round) -> f64) -> Option<Vec<f64>> {
        let (_, rounds) = self.rounds.iter().find(|(own, _)| *own == name)?;
        Some(rounds.iter().map(figure).collect())
    }

    fn add_rate(&self, table: &mut Table, name: &str) {
        if let Some(rates) = self.figures(name, |round| round.rate) {
            table.add("", self.title(name), Spread::of(rates), "pairs/s");
        }
    }

    fn add_ratio(&self, table: &mut Table, ours: &str, theirs: &str, shown: &str) {
        let rates = |name| self.figures(name, |round| round.rate);
        if let (Some(own), Some(others)) = (rates(ours), rates(theirs)) {
            let ratio = Spread::of_ratios(&own, &others);
            table.add("", format!("{} / {shown}", self.title(ours)), ratio, "x");
        }
    }

    fn add_times(&self, table: &mut Table, name: &str) {
        self.add(table, name, "processor time of the server a pair", |round| round.server_micros, "us");
        // The threads of the link are of this process, too.
        if !self.place.is_far() {
            self.add(table, name, "processor time of the client a pair", |round| round.client_micros, "us");
        }
    }

    fn add(&self, table: &mut Table, name: &str, what: &str, figure: fn(&Round) -> f64, unit: &'static str) {
        if let Some(figures) = self.figures(name, figure) {
            table.add("", format!("{}: {what}", self.title(name)), Spread::of(figures), unit);
        }
    }
}
