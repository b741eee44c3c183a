//! The rules' files, in the few forms their generator writes.

use std::{fs, path::Path};

use crate::{catalogue, expression};

pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) expression: String,
}

pub(crate) fn recording() -> Vec<Rule> {
    read("recording.yml", "- record: '")
}

fn alerts() -> Vec<Rule> {
    read("alerts.yml", "- alert: '")
}

fn read(file: &str, opening: &str) -> Vec<Rule> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../dashboards/rules")).join(file);
    let text = fs::read_to_string(path).expect("the rules");
    let mut lines = text.lines().map(str::trim_start);
    let mut rules = Vec::new();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix(opening) {
            let expression =
                lines.next().and_then(|next| next.strip_prefix("expr: '")).expect("its expression");
            rules.push(Rule { name: unquoted(name), expression: unquoted(expression) });
        }
    }
    rules
}

fn unquoted(text: &str) -> String {
    text.strip_suffix('\'').expect("a closing quote").replace("''", "'")
}

#[test]
fn recorded_names_tell_their_labels_and_are_computed_from_what_there_is() {
    let known = catalogue::exported();
    let rules = recording();
    assert!(rules.len() >= 8, "{} rules", rules.len());
    for rule in rules {
        let labels = expression::check(&rule.expression, &known).labels;
        let level = rule.name.split(':').next().expect("a level");
        let told = level.split('_').map(str::to_owned).collect();
        assert_eq!(labels, told, "{}", rule.name);
    }
}

#[test]
fn alerts_ask_for_what_there_is_and_tell_the_job() {
    let known = catalogue::with_recorded();
    let alerts = alerts();
    assert_eq!(alerts.len(), 15);
    for alert in alerts {
        let labels = expression::check(&alert.expression, &known).labels;
        assert!(labels.contains("job"), "{}", alert.name);
    }
}
