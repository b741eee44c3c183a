//! The substitution of `${NAME}` and `${NAME:-default}` as Redisson does it, but on single values. Pure.

use super::super::expansion::{Expanded, Variables};

/// Why a variable cannot be put in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal<'t> {
    /// The variable of this name is not set and has no default.
    NotSet(&'t str),
    /// It is `${NAME:default}`, the form of Spring. Redisson takes that text as it stands.
    OneColon,
}

/// Substitutes the variables. Text that is no variable stays as it is.
///
/// # Errors
/// The first variable that cannot be put in.
pub(super) fn expand<'t>(text: &'t str, variables: Variables<'_>) -> Result<Expanded, Refusal<'t>> {
    let mut expanded = Expanded { text: String::new(), from_variables: false };
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        expanded.text.push_str(before);
        let Some((name, default, behind)) = variable(behind)? else {
            expanded.text.push_str("${");
            rest = behind;
            continue;
        };
        let value = variables(name).or_else(|| default.map(str::to_owned)).ok_or(Refusal::NotSet(name))?;
        expanded.text.push_str(&value);
        expanded.from_variables = true;
        rest = behind;
    }
    expanded.text.push_str(rest);
    Ok(expanded)
}

/// A variable: the name, the default, and what is behind the brace.
type Variable<'t> = (&'t str, Option<&'t str>, &'t str);

fn variable(text: &str) -> Result<Option<Variable<'_>>, Refusal<'_>> {
    let Some((inside, behind)) = text.split_once('}') else { return Ok(None) };
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let (name, default) = inside.split_at(inside.find(|c| !is_part(c)).unwrap_or(inside.len()));
    match default.strip_prefix(":-") {
        _ if name.is_empty() => Ok(None),
        None if default.is_empty() => Ok(Some((name, None, behind))),
        None if default.starts_with(':') => Err(Refusal::OneColon),
        None => Ok(None),
        default => Ok(Some((name, default, behind))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_their_defaults_are_put_in() {
        let variables = |name: &str| (name == "HOST").then(|| "cache".to_owned());
        let put_in = |text| expand(text, &variables).map(|expanded| expanded.text);
        for (text, expected) in [
            ("redis://${HOST}:6379", "redis://cache:6379"),
            ("redis://${OTHER:-localhost}:${PORT:-6379}", "redis://localhost:6379"),
            ("${HOST:-x}", "cache"),
            ("a${b c}${", "a${b c}${"),
            ("", ""),
        ] {
            assert_eq!(put_in(text), Ok(expected.to_owned()), "{text}");
        }
        assert_eq!(put_in("${OTHER}"), Err(Refusal::NotSet("OTHER")));
        for springs in ["${OTHER:secret}", "${HOST:}", "a${redis.password:${HOST:-x}}"] {
            assert_eq!(put_in(springs), Err(Refusal::OneColon), "{springs}");
        }
    }
}
