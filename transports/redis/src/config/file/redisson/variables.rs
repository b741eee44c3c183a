//! The substitution of `${NAME}` and `${NAME:-default}` as Redisson does it, but on single values. Pure.

use super::super::expansion::{Expanded, Variables};

/// Substitutes the variables. Text that is no variable stays as it is.
///
/// # Errors
/// The name of a variable that is not set and has no default.
pub(super) fn expand<'a>(text: &'a str, variables: Variables<'_>) -> Result<Expanded, &'a str> {
    let mut expanded = Expanded { text: String::new(), from_variables: false };
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        expanded.text.push_str(before);
        let Some((name, default, behind)) = variable(behind) else {
            expanded.text.push_str("${");
            rest = behind;
            continue;
        };
        let value = variables(name).or_else(|| default.map(str::to_owned)).ok_or(name)?;
        expanded.text.push_str(&value);
        expanded.from_variables = true;
        rest = behind;
    }
    expanded.text.push_str(rest);
    Ok(expanded)
}

/// The name, the default, and what is behind the brace.
fn variable(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let (inside, behind) = text.split_once('}')?;
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    (!name.is_empty() && name.chars().all(is_part)).then_some((name, default, behind))
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
        assert_eq!(put_in("${OTHER}"), Err("OTHER"));
    }
}
