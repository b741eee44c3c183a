//! The reply to `CLIENT LIST`. Pure.

/// The prefix of the name of every connection of a Leasehold engine.
pub(crate) const NAME_PREFIX: &str = "leasehold-";

/// Returns the name of a connection: its purpose, and the client id and the label of its engine, if the engine has told
/// them. A label may have a colon, so it is last.
pub(crate) fn connection_name(
    purpose: &str,
    client: Option<&dyn std::fmt::Display>,
    label: Option<&str>,
) -> String {
    match (client, label) {
        (Some(client), Some(label)) => format!("{NAME_PREFIX}{purpose}:{client}:{label}"),
        (Some(client), None) => format!("{NAME_PREFIX}{purpose}:{client}"),
        (None, _) => format!("{NAME_PREFIX}{purpose}"),
    }
}

/// One connection, as a server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed<'t> {
    pub(crate) address: &'t str,
    pub(crate) name: &'t str,
    pub(crate) age_seconds: u64,
}

/// Parses the lines `id=3 addr=127.0.0.1:5 ... name=leasehold-calls age=7 ...`. Lines without an address are left out.
pub(crate) fn read(text: &str) -> impl Iterator<Item = Listed<'_>> {
    text.lines().filter_map(|line| {
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let age_seconds = field("age").and_then(|age| age.parse().ok()).unwrap_or(0);
        Some(Listed { address: field("addr")?, name: field("name").unwrap_or_default(), age_seconds })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_connection() {
        let text = "id=3 addr=127.0.0.1:5 laddr=127.0.0.1:6379 fd=8 name=leasehold-calls:c-1 age=7 idle=0 flags=N\n\
                    id=4 addr=[::1]:9 name= age=x\n\nid=5 name=without\n";
        let listed: Vec<_> = read(text).collect();
        let first = Listed { address: "127.0.0.1:5", name: "leasehold-calls:c-1", age_seconds: 7 };
        assert_eq!(listed, [first, Listed { address: "[::1]:9", name: "", age_seconds: 0 }]);
    }

    #[test]
    fn the_name_has_the_client_if_it_is_known() {
        assert_eq!(connection_name("calls", None, Some("a@b")), "leasehold-calls");
        assert_eq!(connection_name("calls", Some(&"c-1"), None), "leasehold-calls:c-1");
        assert_eq!(connection_name("calls", Some(&"c-1"), Some("a@b:2")), "leasehold-calls:c-1:a@b:2");
    }
}
