//! The boards' files.

use std::{fs, path::Path};

use serde_json::Value;

pub(crate) struct Panel {
    pub(crate) board: String,
    pub(crate) title: String,
    pub(crate) targets: Vec<Target>,
    /// Names of lines that have a colour of their own.
    pub(crate) colours: Vec<(String, String)>,
}

pub(crate) struct Target {
    /// With the board's variables as they are at "All".
    pub(crate) expression: String,
    pub(crate) legend: String,
}

/// All panels with queries.
pub(crate) fn panels() -> Vec<Panel> {
    let mut panels = Vec::new();
    for board in boards() {
        let name = text(&board["title"]).trim_start_matches("Leasehold / ").to_owned();
        let own = list(&board["panels"]).iter().filter(|panel| panel["type"] != "row");
        panels.extend(own.map(|panel| read(&name, panel)));
    }
    assert!(panels.len() > 40, "{} panels", panels.len());
    panels
}

/// What annotations ask for.
pub(crate) fn annotations() -> Vec<String> {
    let all = boards();
    let marks = all.iter().flat_map(|board| list(&board["annotations"]["list"]));
    marks.map(|mark| at_all(text(&mark["expr"]))).collect()
}

/// The series that variables are read from, with the label each takes.
pub(crate) fn variables() -> Vec<(String, String)> {
    let all = boards();
    let variables = all.iter().flat_map(|board| list(&board["templating"]["list"]));
    variables
        .filter(|variable| variable["type"] == "query")
        .map(|variable| source(&variable["query"]["query"]))
        .collect()
}

fn source(query: &Value) -> (String, String) {
    let inside = text(query).strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
    let (series, label) =
        inside.and_then(|inside| inside.rsplit_once(", ")).expect("label_values(series, label)");
    (at_all(series), label.to_owned())
}

fn boards() -> Vec<Value> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../dashboards/boards"));
    let names = ["overview", "contention", "leases", "backend"];
    let files = names.map(|name| folder.join(format!("leasehold-{name}.json")));
    assert_eq!(
        fs::read_dir(folder).expect("the boards").count(),
        files.len(),
        "a board this test does not read"
    );
    files.map(|file| serde_json::from_str(&fs::read_to_string(file).expect("a board")).expect("JSON")).into()
}

fn read(board: &str, panel: &Value) -> Panel {
    let targets = list(&panel["targets"]).iter();
    let overrides = list(&panel["fieldConfig"]["overrides"]).iter();
    Panel {
        board: board.to_owned(),
        title: text(&panel["title"]).to_owned(),
        targets: targets
            .map(|target| Target {
                expression: at_all(text(&target["expr"])),
                legend: text(&target["legendFormat"]).to_owned(),
            })
            .collect(),
        colours: overrides
            .map(|own| {
                let colour = &own["properties"][0]["value"]["fixedColor"];
                (text(&own["matcher"]["options"]).to_owned(), text(colour).to_owned())
            })
            .collect(),
    }
}

fn at_all(expression: &str) -> String {
    let mut filled = expression.replace("$__rate_interval", "1m").replace("$__range", "1h");
    for variable in ["job", "instance", "class", "kind"] {
        filled = filled.replace(&format!("${variable}"), ".+");
    }
    assert!(!filled.contains('$'), "{filled}");
    filled
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
