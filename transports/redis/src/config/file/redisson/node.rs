//! A value of a Redisson YAML, with its place, its key, and how it may be shown. Pure.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};

use super::{
    super::{
        super::credentials::{is_connection_text, shown},
        error::ConfigFileError,
        expansion::Variables,
    },
    keys,
    variables::{Refusal, expand},
};

type Fault = ConfigFileError;

/// A value with its place.
#[derive(Debug)]
pub(super) struct Node {
    /// The key with its section as they are in the file, with [`BETWEEN`] between them. Empty for the whole file. It is not
    /// shown.
    path: String,
    /// The last part of the path as it is in the file. It is not shown.
    name: String,
    /// Line and column, both from 1, of the key or of the entry of a list.
    spot: (usize, usize),
    /// The last part of a Java class: `EqualJitterDelay` of `!<org.redisson.config.EqualJitterDelay>`.
    class: Option<String>,
    /// As written, for errors.
    written: String,
    /// Whether it is a text without quotes and without a tag.
    is_plain: bool,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    /// `null`, `~` or nothing: as if the key were not there.
    Null,
    Text(String),
    List(Vec<Node>),
    Map(Vec<Node>),
}

impl Node {
    /// Parses the file's syntax, and substitutes its variables.
    pub(super) fn parse(text: &str, variables: Variables<'_>) -> Result<Node, Fault> {
        let mut builder = Builder { events: Parser::new_from_str(text), variables };
        let root = builder.document()?;
        match root.content {
            Content::Map(_) => Ok(root),
            _ => {
                Err(root.refused("write keys with values: a Redisson YAML begins with a section of servers"))
            }
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The key with its section, such as `singleServerConfig.address`. It is made when it is asked for, because a file may
    /// have very many keys.
    pub(super) fn path(&self) -> String {
        let mut shown = String::new();
        for name in self.path.split(BETWEEN) {
            // If the password was written as a key below this one, no error may show that key.
            if is_secret(&shown) {
                break;
            }
            let between = if shown.is_empty() { "" } else { "." };
            shown.extend([between, shown_name(name)]);
        }
        shown
    }

    pub(super) fn line(&self) -> usize {
        self.spot.0
    }

    /// The last part of the name of a Java class: behind `!`, or in JSON as the text of `class`.
    pub(super) fn class(&self) -> Option<&str> {
        let of_json = || {
            let class = self.members().ok()?.find(|member| member.name == "class")?;
            last_part(class.text().ok()?)
        };
        self.class.as_deref().or_else(of_json)
    }

    /// Whether another node has the same value, which is a text or nothing.
    pub(super) fn has_value_of(&self, other: &Node) -> bool {
        match (&self.content, &other.content) {
            (Content::Text(text), Content::Text(other)) => text == other,
            (Content::Null, Content::Null) => true,
            _ => false,
        }
    }

    /// The keys below this one. Keys without a value are left out.
    pub(super) fn members(&self) -> Result<impl Iterator<Item = &Node>, Fault> {
        match &self.content {
            Content::Map(members) => Ok(members.iter().filter(|member| !member.is_null())),
            _ => Err(self.refused("write keys with values below it")),
        }
    }

    /// The entries of a list. A text alone is a list of one.
    pub(super) fn entries(&self) -> &[Node] {
        match &self.content {
            Content::List(entries) => entries,
            _ => std::slice::from_ref(self),
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.content, Content::Null)
    }

    pub(super) fn text(&self) -> Result<&str, Fault> {
        match &self.content {
            Content::Text(text) if !text.is_empty() => Ok(text),
            Content::Text(_) => Err(self.refused("it is empty; give a value, or leave the key out")),
            _ => Err(self.refused("give a text")),
        }
    }

    /// A whole number from `least` to `most`. With a leading 0 it is octal, as in YAML 1.1, which Redisson reads. In quotes,
    /// or with another digit than those of octal numbers, the versions of Redisson differ, so it is refused.
    pub(super) fn number(&self, least: u64, most: u64) -> Result<u64, Fault> {
        let text = self.text()?;
        let has_zero = text.len() > 1 && text.starts_with('0');
        let number = match has_zero {
            true => u64::from_str_radix(text, 8).ok().filter(|_| self.is_plain),
            false => text.parse().ok().filter(|_| !text.starts_with('+')),
        };
        let remedy = format!("give a whole number from {least} to {most}");
        let remedy = if has_zero { format!("{remedy} without a leading 0: {OCTAL}") } else { remedy };
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| self.refused(remedy))
    }

    pub(super) fn boolean(&self) -> Result<bool, Fault> {
        match self.text()? {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.refused("give true or false")),
        }
    }

    /// The error about this value.
    pub(super) fn refused(&self, remedy: impl Into<Box<str>>) -> Fault {
        self.fault(Some(self.shown()), remedy.into())
    }

    /// The error about this value, whose text is not shown.
    pub(super) fn refused_hidden(&self, remedy: impl Into<Box<str>>) -> Fault {
        self.fault(Some("***".to_owned()), remedy.into())
    }

    /// The error about this key, whose value has no meaning.
    pub(super) fn refused_key(&self, remedy: impl Into<Box<str>>) -> Fault {
        self.fault(None, remedy.into())
    }

    fn refused_variable(&self, refusal: &Refusal<'_>) -> Fault {
        let Refusal::NotSet(name) = refusal else { return self.refused_key(ONE_COLON) };
        let is_name =
            name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        // A password may have `${` in it, and is not shown.
        let name = if is_name || !is_secret(&self.path) { name } else { "in it" };
        self.refused_key(format!("the variable {name} is not set (or no UTF-8); set it"))
    }

    fn fault(&self, value: Option<String>, remedy: Box<str>) -> Fault {
        let key = Some(self.path()).filter(|path| !path.is_empty());
        let value = value.filter(|_| key.is_some()).map(String::into_boxed_str);
        Fault {
            file: "".into(),
            spot: Some(self.spot),
            key: key.map(Into::into),
            value,
            against: None,
            remedy,
            is_variable_against_url: false,
        }
    }

    fn may_be_url(&self) -> bool {
        is_connection_text(&self.written) || self.name.contains("ddress")
    }

    /// The value as it is written, without passwords and without the values of variables.
    fn shown(&self) -> String {
        // A value with spaces in it may be several lines that a mistyped one has joined.
        let is_joined = self.written.contains(char::is_whitespace) || self.name.ends_with("Config");
        let is_hidden = is_joined || is_secret(&self.path) || keys::find(self.name.as_str()).is_none();
        match &self.content {
            Content::Map(_) => "a table".to_owned(),
            Content::List(_) => "a list".to_owned(),
            Content::Null => "empty".to_owned(),
            Content::Text(_) if is_hidden => "***".to_owned(),
            Content::Text(_) if self.may_be_url() => format!("{:?}", shown(&self.written)),
            Content::Text(_) => format!("{:?}", self.written.chars().take(SHOWN_MAX).collect::<String>()),
        }
    }
}

/// Builds the nodes from the parser's events.
struct Builder<'t, 'v> {
    events: Parser<'t, StrInput<'t>>,
    variables: Variables<'v>,
}

/// What is known of a value before it is read.
struct Start {
    path: String,
    name: String,
    spot: (usize, usize),
    depth: usize,
}

impl<'t> Builder<'t, '_> {
    fn document(&mut self) -> Result<Node, Fault> {
        let root = Start { path: String::new(), name: String::new(), spot: (1, 1), depth: 0 };
        loop {
            match self.next()? {
                (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
                (Event::StreamEnd, _) => return Ok(root.node(None, String::new(), Content::Null)),
                (event, span) => {
                    let node = self.value(root, event, span)?;
                    return self.end().map(|()| node);
                }
            }
        }
    }

    // A second document would be left out without a word.
    fn end(&mut self) -> Result<(), Fault> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentStart(_), span) => {
                    return Err(misplaced(span, "the file has a second document; leave only one"));
                }
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), Fault> {
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            // The words of the parser may repeat a part of the file, so they are not shown.
            Some(Err(error)) => Err(at((error.marker().line(), error.marker().col() + 1), SYNTAX)),
            None => Err(at((1, 1), SYNTAX)),
        }
    }

    fn value(&mut self, start: Start, event: Event<'t>, span: Span) -> Result<Node, Fault> {
        match event {
            _ if start.depth > DEPTH_MAX => Err(misplaced(span, "the file is nested too deeply")),
            Event::Scalar(_, _, 1.., _) | Event::SequenceStart(1.., _) | Event::MappingStart(1.., _) => {
                Err(start.node(None, String::new(), Content::Null).refused_key(ANCHORS))
            }
            Event::Alias(_) => Err(start.node(None, String::new(), Content::Null).refused_key(ANCHORS)),
            Event::Scalar(text, style, _, tag) => self.scalar(start, &text, style, tag.as_deref()),
            Event::SequenceStart(_, tag) => self.list(start, tag.as_deref()),
            Event::MappingStart(_, tag) => self.map(start, tag.as_deref()),
            _ => Err(misplaced(span, SYNTAX)),
        }
    }

    fn scalar(&self, start: Start, text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Node, Fault> {
        let is_null = style == ScalarStyle::Plain && ["", "~", "null", "Null", "NULL"].contains(&text);
        let as_written = if is_null { Content::Null } else { Content::Text(text.to_owned()) };
        let node = start.node(tag, text.to_owned(), as_written);
        if node.is_null() {
            return Ok(node);
        }
        let expanded = expand(text, self.variables).map_err(|refusal| node.refused_variable(&refusal))?;
        let node = Node { is_plain: style == ScalarStyle::Plain && tag.is_none(), ..node };
        Ok(Node { content: Content::Text(expanded.text), ..node })
    }

    fn list(&mut self, start: Start, tag: Option<&Tag>) -> Result<Node, Fault> {
        let mut entries = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(start.node(tag, String::new(), Content::List(entries))),
                (event, span) => {
                    let entry = Start { spot: spot(span), ..start.below(&start.path, &start.name) };
                    entries.push(self.value(entry, event, span)?);
                }
            }
        }
    }

    fn map(&mut self, start: Start, tag: Option<&Tag>) -> Result<Node, Fault> {
        let mut members: Vec<Node> = Vec::new();
        let mut places = HashMap::new();
        loop {
            let (key, span) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(start.node(tag, String::new(), Content::Map(members))),
                (Event::Scalar(key, ..), span) => (key, span),
                (_, span) => return Err(misplaced(span, "a key must be a text")),
            };
            let member = Start { spot: spot(span), ..start.below(&join(&start.path, &key), &key) };
            let (event, span) = self.next()?;
            let member = self.value(member, event, span)?;
            let place = *places.entry(member.name.clone()).or_insert(members.len());
            match members.get(place) {
                None => members.push(member),
                Some(twice) if twice.has_value_of(&member) => {}
                Some(twice) => {
                    let line = twice.line();
                    return Err(member.refused_key(format!("it is in line {line} too; leave one out")));
                }
            }
        }
    }
}

impl Start {
    fn below(&self, path: &str, name: &str) -> Self {
        Self { path: path.to_owned(), name: name.to_owned(), spot: self.spot, depth: self.depth + 1 }
    }

    fn node(self, tag: Option<&Tag>, written: String, content: Content) -> Node {
        let class = tag.and_then(|tag| last_part(&tag.suffix)).map(str::to_owned);
        let Self { path, name, spot, .. } = self;
        Node { path, name, spot, class, written, is_plain: false, content }
    }
}

/// Whether the values of this key, and of the keys below it, must be hidden.
fn is_secret(path: &str) -> bool {
    path.to_ascii_lowercase().contains("password")
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}{BETWEEN}{name}") }
}

/// The last part of the name of a Java class.
fn last_part(class: &str) -> Option<&str> {
    class.rsplit(['.', '$']).next()
}

/// A known key, or a name of that kind. Another text may be a password that was mistyped into the place of a key.
fn shown_name(name: &str) -> &str {
    let is_known = || keys::find(name).is_some() || is_inner(name) || keys::nearest(name).is_some();
    if name.is_empty() || is_of_letters(name) || is_known() { name } else { "***" }
}

/// Whether a name is spelled as Redisson spells its keys of several words: `lockWatchdogTimeout`.
fn is_of_letters(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    starts_well && name.len() <= KEY_MAX && name.bytes().all(|byte| byte.is_ascii_alphabetic()) && {
        name.bytes().any(|byte| byte.is_ascii_uppercase())
    }
}

/// Keys inside of the values of Redisson's classes that are read here.
fn is_inner(name: &str) -> bool {
    ["hostsPortMap", "hostsMap"].contains(&name)
}

fn spot(span: Span) -> (usize, usize) {
    (span.start.line(), span.start.col() + 1)
}

fn misplaced(span: Span, remedy: &str) -> Fault {
    at(spot(span), remedy)
}

fn at(spot: (usize, usize), remedy: &str) -> Fault {
    Fault { spot: Some(spot), ..Fault::without_key("".into(), remedy.into()) }
}

const SYNTAX: &str = "correct the YAML: `key: value`, the same indentation for keys of one section, text with `: ` or \
    ` #` in it in quotes";
const ANCHORS: &str = "anchors and aliases (& and *) are not followed; write the value where it is used";
const ONE_COLON: &str =
    "Redisson does not fill in ${NAME:default}, and takes it as it stands; write ${NAME:-default}, with :-";
const OCTAL: &str = "versions of Redisson read such a number differently";
/// No key of Redisson has it.
const BETWEEN: char = '\u{0}';
const KEY_MAX: usize = 64;
const DEPTH_MAX: usize = 16;
const SHOWN_MAX: usize = 80;
