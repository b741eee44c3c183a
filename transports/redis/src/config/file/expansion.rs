//! The substitution of `${NAME}`. Pure.
//!
//! It is applied once to each text. The value of a variable is not expanded again.

/// The environment. `None`: the variable is not set, or not UTF-8.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A text after substitution.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expanded {
    pub(super) text: String,
    /// Whether the text contains the value of a variable. If so, it must not be shown.
    pub(super) from_variables: bool,
}

/// Substitutes the variables. `$${` becomes `${`. `${NAME:-default}` is the default, as it stands, if the variable is not
/// set or empty.
///
/// # Errors
/// A text that says what to do. It names the variable, never a value.
pub(super) fn expand(text: &str, variables: Variables<'_>) -> Result<Expanded, String> {
    let mut expanded = Expanded { text: String::new(), from_variables: false };
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            expanded.text.extend([before, "${"]);
            rest = behind;
            continue;
        }
        let (inside, behind) =
            behind.split_once('}').ok_or("close the variable with }, or write $${ for ${ itself")?;
        expanded.text.extend([before, &value_of(inside, variables)?]);
        expanded.from_variables = true;
        rest = behind;
    }
    expanded.text.push_str(rest);
    Ok(expanded)
}

fn value_of(inside: &str, variables: Variables<'_>) -> Result<String, String> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if !is_name(name) {
        return Err("name one variable between ${ and }, or write $${ for ${ itself".into());
    }
    match (variables(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(format!(
            "the variable {name} is not set (or no UTF-8); set it, or write ${{{name}:-default}}"
        )),
    }
}

// Other characters are not valid in a shell variable. Such a text may be anything, even a password.
fn is_name(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<(String, bool), String> {
        let variables = |name: &str| match name {
            "HOST" => Some("cache".to_owned()),
            "EMPTY" => Some(String::new()),
            "ODD" => Some("${HOST}\"\n[engine]".to_owned()),
            _ => None,
        };
        expand(text, &variables).map(|expanded| (expanded.text, expanded.from_variables))
    }

    #[test]
    fn variables_are_put_in_once() {
        for (text, expected, from_variables) in [
            ("plain $HOST $ {HOST}", "plain $HOST $ {HOST}", false),
            ("${HOST}:${HOST}1", "cache:cache1", true),
            ("$${HOST}", "${HOST}", false),
            ("a$$${HOST}", "a$${HOST}", false),
            ("$${x}-${HOST}", "${x}-cache", true),
            ("${ODD}", "${HOST}\"\n[engine]", true),
            ("${HOST:-x}:${PORT:-6379}", "cache:6379", true),
            ("${EMPTY:-x}${EMPTY}", "x", true),
            ("${NONE:-}", "", true),
            ("${NONE:-a:-b $${c} d", "a:-b $${c d", true),
            ("", "", false),
        ] {
            assert_eq!(expanded(text), Ok((expected.to_owned(), from_variables)), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_put_in_is_an_error_that_names_the_variable_only() {
        assert!(expanded("${NOT_HERE}").unwrap_err().contains("NOT_HERE is not set"));
        for wrong in ["${HOST", "${}", "${hunter2!}", "${1A}", "${:-x}", "${HOST:-x"] {
            let said = expanded(wrong).unwrap_err();
            assert!(said.contains("$${") && !said.contains("hunter2"), "{said}");
        }
    }
}
