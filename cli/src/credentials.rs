//! Hides the credentials of URLs in a text. Pure.

/// The text with `***` in place of what stands between `://` and the last `@` of each word.
pub(crate) fn hidden(text: &str) -> String {
    text.split_inclusive(char::is_whitespace).map(hidden_in_word).collect()
}

fn hidden_in_word(word: &str) -> String {
    let parts = || {
        let (scheme, rest) = word.split_once("://")?;
        let (_, server) = rest.rsplit_once('@')?;
        Some(format!("{scheme}://***@{server}"))
    };
    parts().unwrap_or_else(|| word.to_owned())
}

/// Whether a URL has a password: a `:` before the last `@`, or a password among its parameters.
pub(crate) fn has_password(url: &str) -> bool {
    let authority = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
    authority.is_some_and(|(login, _)| login.contains(':')) || url.contains("sentinelPassword=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_hidden_wherever_they_stand() {
        let text = "unrecognized 'redis://app:hunter2@h:1/0' and\nrediss://:hunter2@x@h";
        assert_eq!(hidden(text), "unrecognized 'redis://***@h:1/0' and\nrediss://***@h");
        assert_eq!(hidden("a@b redis://h:1"), "a@b redis://h:1");
    }

    #[test]
    fn a_password_in_a_url_is_noticed() {
        assert!(has_password("redis://:hunter2@h"));
        assert!(has_password("redis-sentinel://h?sentinelServiceName=m&sentinelPassword=hunter2"));
        assert!(!has_password("redis://h:6379") && !has_password("redis://app@h:6379"));
    }
}
