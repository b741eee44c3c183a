//! The page of metrics has a row for each metric of the engine's table, and no other.

use std::fmt::Write;

use leasehold::metrics::descriptors::{ALL, Descriptor, Kind, Label, Unit};

#[test]
fn the_page_of_metrics_is_the_table() {
    let page = include_str!("../../dashboards/METRICS.md");
    let (begin, end) = (page.find(BEGIN).expect("a beginning"), page.find(END).expect("an end"));
    let written = page[begin + BEGIN.len()..end].trim();
    let expected = table();
    assert!(written == expected.trim(), "dashboards/METRICS.md should have between its marks:\n\n{expected}");
}

fn table() -> String {
    let mut table = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
    for metric in ALL {
        let labels: Vec<_> = metric.labels.iter().map(label).collect();
        writeln!(
            table,
            "| `{}` | {} | {} | {} |",
            metric.name,
            kind(&metric),
            labels.join(", "),
            metric.help
        )
        .expect("a string takes everything");
    }
    table
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
        _ => unreachable!("no other kind"),
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
