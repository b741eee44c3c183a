//! What the boards ask for exists, and everything that exists is asked for.

use std::collections::BTreeSet;

use leasehold::metrics::descriptors::ALL;

use crate::{
    boards::{self, Panel},
    catalogue,
    expression::{self, Selector},
};

#[test]
fn panels_ask_for_metrics_labels_and_values_that_there_are() {
    let known = catalogue::exported();
    for panel in boards::panels() {
        for target in &panel.targets {
            let checked = expression::check(&target.expression, &known);
            for label in labels_in(&target.legend) {
                assert!(checked.labels.contains(label), "{}: no {label} for the legend", panel.title);
            }
            checked.selectors.iter().for_each(|selector| assert_chosen(&panel, selector, &checked.selectors));
        }
    }
}

// By class and kind where all metrics of the query belong to locks. A panel that compares with a number of the process
// shows the whole process.
fn assert_chosen(panel: &Panel, selector: &Selector, all: &[Selector]) {
    let of_locks =
        all.iter().all(|one| one.series.labels.contains("class")) && !panel.title.contains("most allowed");
    let wanted = ["job", "instance"].into_iter().chain(["class", "kind"].into_iter().filter(|_| of_locks));
    for label in wanted {
        let exempt = !["job", "instance"].contains(&label) && panel.title == "Subscriptions";
        assert!(
            exempt || selector.asks_by(label),
            "{} / {} does not follow ${label}",
            panel.board,
            panel.title
        );
    }
}

#[test]
fn annotations_and_variables_ask_for_what_there_is() {
    let known = catalogue::exported();
    for mark in boards::annotations() {
        expression::check(&mark, &known);
    }
    for (series, label) in boards::variables() {
        assert!(expression::check(&series, &known).labels.contains(&label), "{series} has no {label}");
    }
}

#[test]
fn every_metric_has_a_panel() {
    let known = catalogue::exported();
    let shown: BTreeSet<_> = boards::panels().iter().flat_map(|panel| metrics_of(panel, &known)).collect();
    let missing: Vec<_> = ALL.iter().map(|metric| metric.name).filter(|name| !shown.contains(name)).collect();
    assert!(missing.is_empty(), "no panel shows {missing:?}");
}

pub(crate) fn metrics_of(panel: &Panel, known: &catalogue::Catalogue) -> Vec<&'static str> {
    let checked = panel.targets.iter().map(|target| expression::check(&target.expression, known));
    let selectors = checked.flat_map(|checked| checked.selectors);
    selectors.filter_map(|selector| selector.series.metric).map(|metric| metric.name).collect()
}

pub(crate) fn labels_in(legend: &str) -> impl Iterator<Item = &str> {
    legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap_or_default())
}
