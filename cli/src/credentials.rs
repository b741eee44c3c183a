//! Credentials in arguments. Pure.

/// The text with `***` in place of each argument that it repeats and that may be a URL or a connection string.
pub(crate) fn hidden(text: &str, arguments: impl IntoIterator<Item = String>) -> String {
    let parts = |argument: String| {
        let value = argument.strip_prefix("--").and_then(|option| option.split_once('='));
        value.map_or(argument.clone(), |(_, value)| value.to_owned())
    };
    let mut secrets: Vec<_> = arguments.into_iter().map(parts).filter(|text| may_be_secret(text)).collect();
    // One that is a part of another is hidden after it.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
}

fn may_be_secret(text: &str) -> bool {
    text.contains("://") || text.contains(|c: char| c.is_whitespace() || "@=,;&|".contains(c))
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
    fn an_argument_that_may_be_a_url_or_a_connection_string_is_hidden() {
        for argument in [
            "redis://app:hunter2@h:1/0",
            "redis-sentinel://h?sentinelPassword=hunter2",
            "cache,password=hunter2",
            "host=cache password=hunter2",
            "cache hunter2",
            "--servers=cache;hunter2",
        ] {
            let value = argument.trim_start_matches("--servers=");
            let said = hidden(&format!("unexpected '{value}', as '{value}'"), [argument.to_owned()]);
            assert_eq!(said, "unexpected '***', as '***'", "{argument}");
        }
        let overlapping = ["a=b", "a=b,hunter2"].map(str::to_owned);
        assert_eq!(hidden("'a=b,hunter2'", overlapping), "'***'");
        assert_eq!(hidden("unexpected '--fast'", ["--fast".to_owned()]), "unexpected '--fast'");
    }

    #[test]
    fn a_password_in_a_url_is_noticed() {
        assert!(has_password("redis://:hunter2@h"));
        assert!(has_password("redis-sentinel://h?sentinelServiceName=m&sentinelPassword=hunter2"));
        assert!(!has_password("redis://h:6379") && !has_password("redis://app@h:6379"));
    }
}
