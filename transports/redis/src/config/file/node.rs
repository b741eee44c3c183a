//! A value of the file, with its place, its key, and how it may be shown. Pure.

use std::path::Path;

use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

use super::{
    super::{
        Address,
        credentials::{is_connection_text, shown},
    },
    expansion::{Variables, expand},
    fault::{Fault, Subject},
    keys,
    spot::line_of,
    syntax,
};

/// A value with its place.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// The key with its sections, such as `redis.tls.ca`. Empty for the whole file.
    path: String,
    /// The last part of the path, which may contain dots.
    name: String,
    /// The offset of the first byte of the key.
    pub(super) key_offset: usize,
    /// The offset of the first byte of the value.
    pub(super) offset: usize,
    /// The environment variable that gives the value, if the file does not.
    pub(super) variable: Option<Box<str>>,
    /// The text of the value in the file.
    written: String,
    pub(super) content: Content,
}

#[derive(Debug, Default)]
pub(super) enum Content {
    Text {
        text: String,
        from_variables: bool,
    },
    /// A TOML integer has 64 bits with a sign. `None`: the number does not fit.
    Integer(Option<i64>),
    Boolean(bool),
    /// A float, a date or a time. No setting has such a value.
    #[default]
    Other,
    List(Vec<Node>),
    Table(Vec<Node>),
}

impl Node {
    /// Parses the file's syntax, and substitutes its variables.
    pub(super) fn parse(text: &str, variables: Variables<'_>) -> Result<Node, Fault> {
        let table = DeTable::parse(text).map_err(|error| syntax_fault(text, &error))?;
        let content = Builder { text, variables }.table("", table.into_inner())?;
        Ok(Node { content, ..Node::default() })
    }

    /// Returns the last part of the key.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the full key of a key in this table.
    pub(super) fn key_of(&self, name: &str) -> String {
        join(&self.path, name)
    }

    /// Returns the value of a full key.
    pub(super) fn find(&self, path: &str) -> Option<&Node> {
        match &self.content {
            _ if self.path == path => Some(self),
            Content::Table(members) => members.iter().find_map(|member| member.find(path)),
            _ => None,
        }
    }

    pub(super) fn itself(&self) -> Subject {
        let key = Some(self.path.as_str()).filter(|path| !path.is_empty());
        let value = key.map(|_| self.shown().into());
        Subject { offset: self.offset, variable: self.variable.clone(), key: key.map(Into::into), value }
    }

    pub(super) fn refused(&self, remedy: impl Into<Box<str>>) -> Fault {
        self.itself().refused(remedy)
    }

    /// Returns the place of a setting that a check has refused: the value of this key, or one of its entries. If
    /// the file does not have the key, `value` is its default.
    pub(super) fn subject(&self, path: &str, entry: Option<usize>, value: String) -> Subject {
        if let Some(node) = self.find(path) {
            return node.entry(entry).itself();
        }
        let section = path.rsplit_once('.').and_then(|(section, _)| self.find(section));
        let offset = section.map_or(0, |section| section.offset);
        Subject { offset, variable: None, key: Some(path.into()), value: Some(value.into()) }
    }

    /// Returns the member of this table with this name, whose value the variable gives. A value that is no table becomes
    /// one.
    pub(super) fn overridden(&mut self, name: &str, variable: &str) -> &mut Node {
        if !matches!(self.content, Content::Table(_)) {
            self.content = Content::Table(Vec::new());
        }
        let path = self.key_of(name);
        let Content::Table(members) = &mut self.content else { unreachable!("it was made a table") };
        let at = members.iter().position(|member| member.name == name).unwrap_or(members.len());
        if at == members.len() {
            members.push(Node { path, name: name.to_owned(), ..Node::default() });
        }
        let member = &mut members[at];
        member.variable = Some(variable.into());
        member
    }

    /// Whether this is the setting with this full key, or a part of it.
    pub(super) fn is_at_or_below(&self, path: &str) -> bool {
        self.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Sets the text of the value as errors show it.
    pub(super) fn write(&mut self, written: String) {
        self.written = written;
    }

    /// Returns a node with the same place and without a value.
    pub(super) fn sibling(&self) -> Node {
        let (path, name, variable) = (self.path.clone(), self.name.clone(), self.variable.clone());
        Node { path, name, variable, key_offset: self.key_offset, offset: self.offset, ..Node::default() }
    }

    /// Makes the relative paths of files in this value begin at the folder.
    pub(super) fn begin_paths_at(&mut self, folder: &Path) {
        let is_path = self.is_path();
        match &mut self.content {
            Content::Text { text, .. } if is_path && !text.is_empty() => {
                *text = folder.join(&*text).to_string_lossy().into_owned();
            }
            Content::Table(members) => members.iter_mut().for_each(|member| member.begin_paths_at(folder)),
            _ => {}
        }
    }

    fn is_path(&self) -> bool {
        let is_in_tls =
            ["redis.tls", "redis.sentinel_tls"].iter().any(|section| self.is_at_or_below(section));
        is_in_tls && ["ca", "cert", "key"].contains(&self.name())
            || is_secret(&self.path) && self.name == "file"
    }

    fn is_host(&self, name: &str) -> bool {
        ["addresses", "server_name"].contains(&name) || self.path.starts_with(ADDRESS_MAP)
    }

    fn entry(&self, entry: Option<usize>) -> &Node {
        match (&self.content, entry) {
            (Content::List(entries), Some(entry)) => entries.get(entry).unwrap_or(self),
            _ => self,
        }
    }

    /// Returns the value as it is written in the file, on one line, without passwords and without the values of
    /// variables.
    pub(super) fn shown(&self) -> String {
        self.shown_as(&self.name)
    }

    /// Returns the value as [`shown`](Self::shown) does, for the key that was probably meant. The value of an
    /// unknown key may be a password, so it is hidden.
    pub(super) fn shown_as(&self, name: &str) -> String {
        let is_known = keys::is_known(name) || self.path.starts_with(ADDRESS_MAP);
        let is_hidden = is_secret(&self.path) || is_secret(name) || !is_known;
        match &self.content {
            Content::Table(_) => "a table".to_owned(),
            Content::Boolean(value) => value.to_string(),
            _ if is_hidden => "***".to_owned(),
            Content::Text { text, .. } if self.is_host(name) || is_connection_text(text) => {
                format!("{:?}", shown(self.written.trim_matches(['"', '\''])))
            }
            Content::List(entries) => {
                let entries: Vec<_> = entries.iter().map(|entry| entry.shown_as(name)).collect();
                shortened(&format!("[{}]", entries.join(", ")))
            }
            Content::Text { .. } | Content::Integer(_) | Content::Other => shortened(&self.written),
        }
    }
}

/// Builds the nodes from the parser's result.
struct Builder<'a> {
    text: &'a str,
    variables: Variables<'a>,
}

impl Builder<'_> {
    fn table(&self, path: &str, table: DeTable<'_>) -> Result<Content, Fault> {
        let mut members = Vec::new();
        for (key, value) in table {
            let (path, name, key_offset) =
                (join(path, key.get_ref()), key.get_ref().to_string(), key.span().start);
            members.push(self.filled(Node { path, name, key_offset, ..Node::default() }, value)?);
        }
        // The parser sorts by name, but the first problem in the file should be reported.
        members.sort_by_key(|member| member.key_offset);
        Ok(Content::Table(members))
    }

    fn filled(&self, mut node: Node, value: Spanned<DeValue<'_>>) -> Result<Node, Fault> {
        node.offset = value.span().start;
        node.written = self.text.get(value.span()).unwrap_or_default().to_owned();
        node.content = match value.into_inner() {
            DeValue::String(text) => return self.expanded(node, &text),
            DeValue::Integer(number) => {
                Content::Integer(i64::from_str_radix(number.as_str(), number.radix()).ok())
            }
            DeValue::Boolean(value) => Content::Boolean(value),
            DeValue::Float(_) | DeValue::Datetime(_) => Content::Other,
            DeValue::Array(entries) => self.list(&node, entries)?,
            DeValue::Table(table) => self.table(&node.path, table)?,
        };
        Ok(node)
    }

    fn list(&self, list: &Node, entries: DeArray<'_>) -> Result<Content, Fault> {
        let mut nodes = Vec::new();
        for entry in entries {
            let (path, name, key_offset) = (list.path.clone(), list.name.clone(), entry.span().start);
            nodes.push(self.filled(Node { path, name, key_offset, ..Node::default() }, entry)?);
        }
        Ok(Content::List(nodes))
    }

    fn expanded(&self, node: Node, text: &str) -> Result<Node, Fault> {
        let as_written = Content::Text { text: text.to_owned(), from_variables: false };
        let node = Node { content: as_written, ..node };
        let expanded = expand(text, self.variables).map_err(|remedy| node.refused(remedy))?;
        let content = Content::Text { text: expanded.text, from_variables: expanded.from_variables };
        Ok(Node { content, ..node })
    }
}

/// Whether the values of this key, and of the keys below it, must be hidden.
pub(super) fn is_secret(path: &str) -> bool {
    path.ends_with("password")
}

// An invalid line may contain a password, so only a known key in it is shown.
fn syntax_fault(text: &str, error: &toml::de::Error) -> Fault {
    let offset = error.span().map_or(0, |span| span.start);
    let before_equals = line_of(text, offset).split('=').next().unwrap_or_default().trim();
    let key = Some(before_equals).filter(|key| keys::is_known(key)).map(Into::into);
    Subject { offset, variable: None, key, value: None }.refused(syntax::remedy(error.message()))
}

fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        // If the password was written as a key below this one, no error may show that key.
        _ if is_secret(path) => path.to_owned(),
        // A text that is no address may contain a password.
        _ if path == ADDRESS_MAP && Address::read(name, 1).is_none() => format!("{path}.***"),
        _ => format!("{path}.{name}"),
    }
}

fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// The keys of this table are addresses.
const ADDRESS_MAP: &str = "redis.address_map";
const SHOWN_MAX: usize = 80;
