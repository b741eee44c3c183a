//! Settings in environment variables, which override those of the file. Pure.
//!
//! `LEASEHOLD_<SECTION>__<KEY>`, in upper case: `LEASEHOLD_ENGINE__TTL_MS` is `ttl_ms` of `[engine]`, and
//! `LEASEHOLD_REDIS__TLS__CA` is `ca` of `[redis.tls]`. Every variable whose name begins with `LEASEHOLD_` and has `__` in
//! it is such a setting, so a misspelt one is refused. So is one that has a setting's name without the section, or with
//! `_` in place of `__`. An empty one is as one that is not set.

use std::ffi::OsString;

use super::{
    fault::{Fault, Subject},
    keys,
    node::{Content, Node, is_secret},
};

/// A variable that sets one setting.
#[derive(Debug)]
pub(super) struct Override {
    variable: Box<str>,
    keys: Vec<String>,
    /// `None`: it is not UTF-8.
    value: Option<Value>,
}

#[derive(Debug)]
enum Value {
    /// A text, a number, or the entries of a list with commas between them.
    Text(String),
    /// Turns a section on that needs no key, as `[redis.tls]`.
    EmptySection,
}

/// The overrides in an environment, sections before their keys.
pub(super) fn of(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<Override> {
    let mut found: Vec<_> = environment.into_iter().filter_map(Override::of).collect();
    found.sort_by(|a, b| a.variable.cmp(&b.variable));
    found
}

/// Refuses a variable that was probably meant to override a setting: its name has the key without the section, or one `_`
/// in place of the two between them. One that the file names is for `${NAME}` or `{ env = "NAME" }`.
///
/// # Errors
/// The first such variable by name, and the variable that was probably meant.
pub(super) fn refuse_near_misses(environment: &[(OsString, OsString)], text: &str) -> Result<(), Fault> {
    let set = environment.iter().filter(|(_, value)| !value.is_empty()).filter_map(|(name, _)| name.to_str());
    let missed = set.filter(|name| !text.contains(name)).filter_map(|name| Some((name, meant(name)?)));
    let Some((variable, key)) = missed.min() else { return Ok(()) };
    let remedy = format!("it sets nothing; the variable of `{key}` is {}", variable_of(&key));
    let subject = Subject { offset: 0, variable: Some(variable.into()), key: None, value: None };
    Err(subject.refused(remedy))
}

/// The full key that the variable nearly names. Passwords are left out: variables with such names are often set for other
/// programs, and a password that is missing is told at the first connect.
fn meant(variable: &str) -> Option<String> {
    let name = variable.strip_prefix(PREFIX).filter(|name| !name.contains(BETWEEN))?.to_ascii_lowercase();
    let is_meant = |section: &str, key: &str| {
        let is_whole = name == format!("{}_{key}", section.replace('.', "_"));
        !is_secret(key) && (is_whole || (!section.contains('.') && name == key))
    };
    keys::sections().into_iter().find_map(|(section, keys)| {
        let key = keys.iter().find(|key| is_meant(section, key))?;
        Some(format!("{section}.{key}"))
    })
}

/// The variable of a full key.
pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.to_ascii_uppercase().replace('.', BETWEEN))
}

impl Override {
    /// Sets `key` of `[redis]` to a text. `source`: what errors name in place of a variable.
    pub(super) fn of_text(source: &str, key: &str, text: String) -> Self {
        Self::of_redis(source, key, Value::Text(text))
    }

    /// Turns the section `key` of `[redis]` on, with the default of each of its keys.
    pub(super) fn of_section(source: &str, key: &str) -> Self {
        Self::of_redis(source, key, Value::EmptySection)
    }

    fn of_redis(source: &str, key: &str, value: Value) -> Self {
        Self { variable: source.into(), keys: vec!["redis".into(), key.into()], value: Some(value) }
    }

    fn of((variable, value): (OsString, OsString)) -> Option<Self> {
        let variable = variable.into_string().ok()?;
        let name = variable.strip_prefix(PREFIX).filter(|name| name.contains(BETWEEN))?;
        let keys = name.split(BETWEEN).map(str::to_ascii_lowercase).collect();
        let value = value.into_string().ok();
        let is_set = value.as_ref().is_none_or(|value| !value.is_empty());
        is_set.then(|| Self { variable: variable.into(), keys, value: value.map(Value::of_variable) })
    }

    /// The variable.
    pub(super) fn variable(&self) -> &str {
        &self.variable
    }

    /// Whether it sets this key of `[redis]`, or a part of it.
    pub(super) fn is_of_redis(&self, key: &str) -> bool {
        matches!(&self.keys[..], [section, first, ..] if section == "redis" && first == key)
    }

    /// Puts the value in the place of that of the file.
    ///
    /// # Errors
    /// The value is not UTF-8, or the key cannot be set so.
    pub(super) fn apply(self, root: &mut Node) -> Result<(), Fault> {
        let Self { variable, keys, value } = self;
        let node = keys.iter().fold(root, |node, key| node.overridden(key, &variable));
        let Some(value) = value else { return Err(node.refused("it is not UTF-8; correct the variable")) };
        let has_free_keys = FREE.iter().any(|free| node.is_at_or_below(free));
        node.fill(&value);
        if has_free_keys {
            return Err(
                node.refused("no variable can set it, because its keys are free texts; set it in the file")
            );
        }
        Ok(())
    }
}

impl Value {
    fn of_variable(value: String) -> Self {
        if value == EMPTY_SECTION { Value::EmptySection } else { Value::Text(value) }
    }

    fn written(&self) -> String {
        match self {
            Value::Text(text) => format!("{text:?}"),
            Value::EmptySection => format!("{EMPTY_SECTION:?}"),
        }
    }
}

impl Node {
    // The text is put in as it is: no quotes, no ${NAME}.
    fn fill(&mut self, value: &Value) {
        self.write(value.written());
        self.content = match value {
            Value::EmptySection => Content::Table(Vec::new()),
            Value::Text(entries) if self.is_at_or_below(LIST) => Content::List(self.entries(entries)),
            Value::Text(value) => text(value),
        };
    }

    fn entries(&self, value: &str) -> Vec<Node> {
        let entry = |entry: &str| {
            let mut node = self.sibling();
            node.write(format!("{entry:?}"));
            node.content = text(entry);
            node
        };
        value.split(',').map(str::trim).map(entry).collect()
    }
}

// A number is given as a text too.
fn text(value: &str) -> Content {
    Content::Text { text: value.to_owned(), from_variables: true }
}

const PREFIX: &str = "LEASEHOLD_";
const BETWEEN: &str = "__";
/// What a variable says for an empty section.
const EMPTY_SECTION: &str = "{}";
/// The setting that is a list: texts with commas between them.
const LIST: &str = "redis.addresses";
/// The settings whose keys are free texts, in which upper and lower case differ.
const FREE: [&str; 2] = ["engine.classes", "redis.address_map"];
