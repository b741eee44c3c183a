//! What may be shown of a text that was given as a URL, an address or a host. Pure.
//!
//! Such a text may be the connection string of another library, or a bare password. So it is shown only if it has the
//! form of our own URLs and addresses, without login and query. Of every other text the scheme is shown at most.

use super::host::{is_host, split};

/// The parts of a URL as they are written: `scheme://[login@]server[/path][?query][#fragment]`.
pub(super) struct Parts<'u> {
    pub(super) scheme: &'u str,
    pub(super) login: Option<&'u str>,
    pub(super) server: &'u str,
    /// With its first slash.
    pub(super) path: &'u str,
    pub(super) query: Option<&'u str>,
    pub(super) fragment: Option<&'u str>,
}

impl<'u> Parts<'u> {
    /// Splits a URL. `None`: it has no `://`.
    pub(super) fn of(url: &'u str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (rest, fragment) = split_off(rest, '#');
        let (rest, query) = split_off(rest, '?');
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (login, server) = match authority.rsplit_once('@') {
            Some((login, server)) => (Some(login), server),
            None => (None, authority),
        };
        Some(Self { scheme, login, server, path, query, fragment })
    }

    // An `@` behind the server may end a password that has a mark of URLs in it.
    fn has_our_form(&self) -> bool {
        let database = self.path.strip_prefix('/').unwrap_or_default();
        let query = self.query.unwrap_or("=");
        is_server(self.server)
            && is_number(database, DATABASE_DIGITS)
            && query.contains('=')
            && !query.contains('@')
            && self.fragment.is_none()
    }
}

/// Returns what may be shown of a URL, an address or a host.
pub(super) fn shown(text: &str) -> String {
    let Some(parts) = Parts::of(text) else {
        return if text.is_empty() || is_server(text) { text } else { HIDDEN }.to_owned();
    };
    let scheme = parts.scheme;
    if !SCHEMES.contains(&scheme) {
        return HIDDEN.to_owned();
    }
    if !parts.has_our_form() {
        return format!("{scheme}://{HIDDEN}");
    }
    let login = parts.login.map_or("", |_| "***@");
    let query = parts.query.map_or("", |_| "?***");
    format!("{scheme}://{login}{}{}{query}", parts.server, parts.path)
}

/// Returns what may be shown of the text of any other setting, in which a URL may have been written by mistake.
pub(super) fn shown_of_other(text: &str) -> String {
    if is_connection_text(text) { shown(text) } else { text.to_owned() }
}

/// Whether a text has a mark of a URL or of a connection string. No name of ours has one.
pub(super) fn is_connection_text(text: &str) -> bool {
    text.contains("://") || text.contains(['@', '=', ',', ';', '&', '|'])
}

// A longer number is no port, and may be a password.
fn is_server(text: &str) -> bool {
    let (host, port) = split(text.trim());
    is_host(host.trim_matches(['[', ']'])) && port.is_none_or(|port| is_number(port, PORT_DIGITS))
}

fn is_number(text: &str, digits_max: usize) -> bool {
    text.len() <= digits_max && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn split_off(text: &str, mark: char) -> (&str, Option<&str>) {
    text.split_once(mark).map_or((text, None), |(before, behind)| (before, Some(behind)))
}

/// Every other text before `://` may be a part of a password.
const SCHEMES: [&str; 17] = [
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "redis-sentinel",
    "rediss-sentinel",
    "valkey-sentinel",
    "valkeys-sentinel",
    "redis-cluster",
    "rediss-cluster",
    "valkey-cluster",
    "valkeys-cluster",
    "http",
    "https",
    "tcp",
    "unix",
    "file",
];
const HIDDEN: &str = "***";
const PORT_DIGITS: usize = 5;
const DATABASE_DIGITS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_our_form_is_shown_without_login_and_query() {
        for (text, expected) in [
            ("redis://u:hunter2@cache:70000", "redis://***@cache:70000"),
            ("rediss-cluster://cache/999", "rediss-cluster://cache/999"),
            ("redis-sentinel://[::1]:1/0?sentinelPassword=hunter2", "redis-sentinel://[::1]:1/0?***"),
            ("http://u:hunter2@cache", "http://***@cache"),
            ("cache:70000", "cache:70000"),
            ("fe80::1%eth0", "fe80::1%eth0"),
            ("", ""),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn of_every_other_text_the_scheme_is_shown_at_most() {
        for text in [
            "cache.example.net,abortConnect=false,ssl=true,password=hunter2",
            "cache.example.net:6380,password=hunter2",
            "host=cache port=6379 password=hunter2",
            "hunter2 cache",
            "cache;hunter2",
            "cache&hunter2",
            "cache|hunter2",
            "cache#hunter2",
            "cache%hunter2!",
            "::1%hunter2!",
            "app:hunter2",
            "app:hunter2@cache:1",
            "app:192837465",
            "hunter2://cache",
            "redis-hunter2://cache",
        ] {
            assert_eq!(shown(text), "***", "{text}");
        }
        for text in [
            "redis://cache,password=hunter2",
            "redis://cache password=hunter2",
            "redis://cache/0;password=hunter2",
            "redis://cache/hunter2",
            "redis://cache/192837465",
            "redis://app:hunter2",
            "redis://app:57?hunter2",
            "redis://app:57?a=hunter2@cache",
            "redis://app:57#hunter2@cache",
            "redis://app:57#hunter2",
            "redis://app:57/hunter2@cache",
            "redis://u:hun@ter2=",
        ] {
            assert_eq!(shown(text), "redis://***", "{text}");
        }
    }

    #[test]
    fn a_text_of_another_setting_is_hidden_if_it_may_be_a_connection_string() {
        for text in ["cache,hunter2", "a=hunter2", "u:hunter2@a", "hunter2;a", "hunter2://a", "a&b", "a|b"] {
            assert_eq!(shown_of_other(text), "***", "{text}");
        }
        assert_eq!(shown_of_other("20 s"), "20 s");
    }
}
