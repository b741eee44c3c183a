//! Texts of users without the parts that may be secret. Pure.

/// Returns the URL without the parts that may be secret: everything before its last `@`, and its query. The `@` may
/// have been forgotten, so without one only a valid host and port are shown. An `@` after a `?` or `#` may end a
/// password that contains one of them, or may be part of a password in the query. In that case nothing is shown.
pub(super) fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let behind_scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let (authority, query) = rest.split_at(end);
    let (before, server) = match authority.rsplit_once('@') {
        Some((_, server)) => ("***@", server),
        None => ("", authority),
    };
    if reads_as_server(server) && !query.contains('@') {
        let hidden = query.get(..1).map(|mark| format!("{mark}***")).unwrap_or_default();
        format!("{behind_scheme}{before}{server}{hidden}")
    } else {
        format!("{behind_scheme}***")
    }
}

fn reads_as_server(text: &str) -> bool {
    let behind_host = text.split_once(':').map_or("", |(_, behind)| behind);
    let port = behind_host.split('/').next().unwrap_or_default();
    port.bytes().all(|byte| byte.is_ascii_digit())
}
