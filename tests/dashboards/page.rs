//! `dashboards/METRICS.md` is made of the engine's table. `LEASEHOLD_WRITE=1 cargo test -p leasehold-tests --test
//! dashboards` writes it anew.

use std::{env, fmt::Write as _, fs, path::Path};

use leasehold::metrics::descriptors::{ALL, Descriptor, Kind, Label};

use crate::{boards, catalogue, queries};

#[test]
fn the_page_of_metrics_is_the_engines_table_with_the_panels() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../dashboards/METRICS.md"));
    let page = page();
    if env::var_os("LEASEHOLD_WRITE").is_some() {
        fs::write(path, &page).expect("the page");
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    assert!(kept == page, "METRICS.md is not of today; write it with LEASEHOLD_WRITE=1");
}

fn page() -> String {
    let known = catalogue::exported();
    let panels: Vec<_> =
        boards::panels().into_iter().map(|panel| (queries::metrics_of(&panel, &known), panel)).collect();
    let mut page = HEAD.to_owned();
    for metric in &ALL {
        let showing = panels.iter().filter(|(metrics, _)| metrics.contains(&metric.name));
        let places: Vec<_> = showing.map(|(_, panel)| format!("{} › {}", panel.board, panel.title)).collect();
        let cells =
            [format!("`{}`", metric.name), kind(metric).to_owned(), labels(metric), metric.help.to_owned()];
        writeln!(page, "| {} | {} |", cells.join(" | "), places.join("<br>")).expect("a text");
    }
    page + "\n## Labels\n\n| label | values |\n|---|---|\n" + &values()
}

fn kind(metric: &Descriptor) -> &'static str {
    match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram(_) => "histogram",
        other => panic!("{} is a {other:?}, which this page does not know", metric.name),
    }
}

fn labels(metric: &Descriptor) -> String {
    metric.labels.iter().map(|label| format!("`{}`", label.name)).collect::<Vec<_>>().join(" ")
}

// Some names stand for different values on different metrics.
fn values() -> String {
    let mut known: Vec<Label> = Vec::new();
    for label in ALL.iter().flat_map(|metric| metric.labels) {
        if !label.values.is_empty() && !known.contains(label) {
            known.push(*label);
        }
    }
    known.iter().map(|label| format!("| `{}` | {} |\n", label.name, quoted(label.values))).collect()
}

fn quoted(values: &[&str]) -> String {
    values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" ")
}

const HEAD: &str = "\
# Metrics

Every metric of the engine, in the order of `leasehold::metrics::descriptors::ALL`, of which this page is made.
`class` is the lock's class (at most 64, then `_other`), `backend` the transport, `node` a server's address; no label
holds the name of a lock or an owner.

| metric | kind | labels | meaning | shown on |
|---|---|---|---|---|
";
