//! The table in `dashboards/METRICS.md` is made of the engine's own, and of the panels that show each metric.
//! `LEASEHOLD_WRITE=1 cargo test --workspace --test dashboards` writes it anew.

use std::{env, fmt::Write as _, fs, path::Path};

use leasehold::metrics::descriptors::{ALL, Descriptor, Kind, Label, Unit};

use crate::{
    boards::{self, Panel},
    catalogue, queries,
};

#[test]
fn the_page_of_metrics_is_the_engines_table_with_the_panels() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../dashboards/METRICS.md"));
    let page = fs::read_to_string(path).expect("the page");
    let (head, rest) = page.split_once(BEGIN).expect("a beginning");
    let (_, tail) = rest.split_once(END).expect("an end");
    let expected = format!("{head}{BEGIN}\n\n{}\n{END}{tail}", table());
    if env::var_os("LEASEHOLD_WRITE").is_some() {
        fs::write(path, expected).expect("the page");
    } else {
        assert!(page == expected, "the table in METRICS.md is not of today; write it with LEASEHOLD_WRITE=1");
    }
}

#[test]
fn the_readme_counts_the_metrics() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let wanted = format!("It has {} metrics", ALL.len());
    assert!(
        fs::read_to_string(path).expect("the page").contains(&wanted),
        "README.md does not say {wanted:?}"
    );
}

fn table() -> String {
    let known = catalogue::exported();
    let panels: Vec<_> =
        boards::panels().into_iter().map(|panel| (queries::metrics_of(&panel, &known), panel)).collect();
    let mut table = HEAD.to_owned();
    for metric in ALL {
        let showing = panels.iter().filter(|(metrics, _)| metrics.contains(&metric.name));
        writeln!(table, "{}", row(metric, showing.map(|(_, panel)| panel)))
            .expect("a string takes everything");
    }
    table
}

fn row<'a>(metric: &Descriptor, showing: impl Iterator<Item = &'a Panel>) -> String {
    let labels: Vec<_> = metric.labels.iter().map(label).collect();
    let places: Vec<_> = showing.map(|panel| format!("{} › {}", panel.board, panel.title)).collect();
    let (name, help) = (metric.name, metric.help);
    format!("| `{name}` | {} | {} | {help} | {} |", kind(metric), labels.join(", "), places.join("<br>"))
}

fn kind(metric: &Descriptor) -> String {
    let unit = if metric.unit == Unit::Seconds { ", s" } else { "" };
    match metric.kind {
        Kind::Counter => "counter".to_owned(),
        Kind::Gauge => format!("gauge{unit}"),
        Kind::Histogram(bounds) => {
            let (first, last) = (bounds[0], bounds[bounds.len() - 1]);
            format!("histogram{unit}, {} bounds from {first} to {last}", bounds.len())
        }
        other => panic!("{} is a {other:?}, which this page does not know", metric.name),
    }
}

fn label(label: &Label) -> String {
    match label.values {
        [] => format!("`{}`", label.name),
        values => format!("`{}`: {}", label.name, values.join(" ")),
    }
}

const BEGIN: &str = "<!-- metrics -->";
const END: &str = "<!-- end of metrics -->";
const HEAD: &str = "| metric | kind | labels | meaning | shown on |\n|---|---|---|---|---|\n";
