//! Puts a problem at its place in the file. Pure.

use super::{
    fault::{Fault, Other, Subject, What, nearest},
    keys,
    node::Node,
};

impl Fault {
    /// Adds the other key of a contradiction, with its default value.
    pub(super) fn but(self, root: &Node, other: Option<(String, String)>) -> Self {
        let against = other.map(|(key, value)| match root.find(&key) {
            Some(node) => Other {
                offset: Some(node.offset),
                variable: node.variable.clone(),
                key: key.into(),
                value: node.shown().into(),
            },
            None => Other { offset: None, variable: None, key: key.into(), value: value.into() },
        });
        Fault { against: against.map(Box::new), ..self }
    }

    /// Sets the place, for a problem that was found while this value was parsed.
    pub(super) fn at(self, node: &Node) -> Self {
        match (&self.subject, &self.what) {
            (Some(_), _) => self,
            (None, What::Missing(name)) => Subject {
                offset: node.offset,
                variable: node.variable.clone(),
                key: Some(node.key_of(name).into()),
                value: Some("not set".into()),
            }
            .refused(how_to_add(name)),
            (None, What::Remedy(_) | What::NoSuchKey(_)) => Fault { subject: Some(node.itself()), ..self },
        }
    }

    /// Sets the place, for a problem that was found while the key of this value was parsed.
    pub(super) fn at_key(self, node: &Node) -> Self {
        let What::NoSuchKey(known) = self.what else { return self.at(node) };
        let nearest = nearest(node.name(), known);
        let value = node.shown_as(nearest.unwrap_or(node.name())).into();
        let subject = Subject { offset: node.key_offset, value: Some(value), ..node.itself() };
        subject.refused(no_such_key(node.name(), known, nearest))
    }
}

fn how_to_add(name: &str) -> &'static str {
    match name {
        "redis" => "write a section [redis] with `addresses`",
        "addresses" => "add addresses = [\"host:port\"]",
        _ => "add it; leasehold.example.toml shows every key",
    }
}

fn no_such_key(name: &str, known: &[&str], nearest: Option<&'static str>) -> String {
    if let Some(nearest) = nearest {
        return format!("no such key; did you mean `{nearest}`?");
    }
    let elsewhere = keys::sections().into_iter().find(|(_, keys)| keys.contains(&name));
    match elsewhere {
        Some((section, _)) => format!("no such key here; it belongs to [{section}]"),
        None => format!("no such key; there are {}", known.join(", ")),
    }
}
