//! Combines the errors of several servers that could not be used into one. Pure.

use leasehold::transport::TransportError;

/// Returns the error for a call that could use none of several servers. The error is final only if all of them are:
/// a server that is away may come back, and one server is enough. The text also contains the final errors of the
/// other servers.
pub(crate) fn most_helpful(errors: impl IntoIterator<Item = TransportError>) -> Option<TransportError> {
    let (mut passing, mut lasting): (Vec<_>, Vec<_>) =
        errors.into_iter().partition(|error| !error.kind.is_final());
    let Some(chosen) = passing.pop() else { return (!lasting.is_empty()).then(|| lasting.swap_remove(0)) };
    let detail =
        lasting.iter().fold(chosen.detail.to_string(), |text, error| format!("{text}; {}", error.detail));
    Some(chosen.with_detail(detail))
}

#[cfg(test)]
mod tests {
    use leasehold::transport::ErrorKind::{self, Denied, Misconfigured, Unreachable};

    use super::*;

    fn chosen(of: &[(ErrorKind, &str)]) -> Option<(ErrorKind, String)> {
        let error = |(kind, detail): &(ErrorKind, &str)| TransportError::without_effect(*kind, None, *detail);
        most_helpful(of.iter().map(error)).map(|error| (error.kind, error.detail.to_string()))
    }

    #[test]
    fn an_error_of_several_servers_is_final_only_if_each_is() {
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[(Denied, "a"), (Misconfigured, "b")]), Some((Denied, "a".into())));
        assert_eq!(chosen(&[(Denied, "a"), (Unreachable, "b")]), Some((Unreachable, "b; a".into())));
    }
}
