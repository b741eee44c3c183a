//! Colours do not lie: what was granted is green, what was lost is red, and no outcome is without its own.

use std::collections::BTreeSet;

use leasehold::metrics::descriptors::LOSS_REASON;

use crate::{
    boards::{self, Panel, Target},
    catalogue::{self, Catalogue},
    expression, queries,
};

#[test]
fn every_outcome_that_a_panel_can_show_has_its_colour() {
    let known = catalogue::exported();
    let mut looked_at = 0;
    for panel in boards::panels() {
        for target in &panel.targets {
            let values = values_shown(target, &known);
            looked_at += values.len();
            values.iter().for_each(|value| assert_coloured(&panel, value));
        }
    }
    assert!(looked_at > 60, "{looked_at} outcomes are shown");
}

#[test]
fn granted_is_green_and_lost_is_red() {
    let panels = boards::panels();
    for (name, colour) in panels.iter().flat_map(|panel| &panel.colours) {
        if ["acquired", "granted", "renewed", "ok"].contains(&name.as_str()) {
            assert_eq!(colour, "green", "{name}");
        }
        if name == "lost" || name == "not_ours" || LOSS_REASON.values.contains(&name.as_str()) {
            assert!(colour.ends_with("red"), "{name} is {colour}");
        }
    }
}

#[test]
fn what_failed_is_never_green() {
    let of_failures = |panel: &&Panel| FAILURES.iter().any(|part| panel.title.contains(part));
    let panels = boards::panels();
    let failed: Vec<_> = panels.iter().filter(of_failures).collect();
    assert!(failed.len() >= FAILURES.len(), "{} panels of failures", failed.len());
    for panel in failed {
        let green: Vec<_> = panel.colours.iter().filter(|(_, colour)| colour.ends_with("green")).collect();
        assert!(green.is_empty(), "{} / {}: {green:?}", panel.board, panel.title);
    }
}

/// Parts of the titles of panels that show nothing but failures.
const FAILURES: [&str; 5] = ["failed", "not confirmed", "not clean", "Did not", "may have been executed"];

fn assert_coloured(panel: &Panel, value: &str) {
    let names: BTreeSet<_> = panel.colours.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(value), "{} / {}: {value} has no colour", panel.board, panel.title);
}

// Where the legend is nothing but one label, and its values are known.
fn values_shown(target: &Target, known: &Catalogue) -> Vec<&'static str> {
    let labels: Vec<_> = queries::labels_in(&target.legend).collect();
    let [label] = labels[..] else { return Vec::new() };
    if target.legend != format!("{{{{{label}}}}}") {
        return Vec::new();
    }
    let selectors = expression::check(&target.expression, known).selectors;
    let first = selectors.first().expect("a selector");
    let values = first.series.label(label).map_or(&[][..], |label| label.values);
    values.iter().copied().filter(|value| first.admits(label, value)).collect()
}
