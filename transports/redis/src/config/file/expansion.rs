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

/// Substitutes the variables. `$${` becomes `${`.
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
        let (name, behind) =
            behind.split_once('}').ok_or("close the variable with }, or write $${ for ${ itself")?;
        if !is_name(name) {
            return Err("name one variable between ${ and }, or write $${ for ${ itself".into());
        }
        let value =
            variables(name).ok_or_else(|| format!("the variable {name} is not set (or no UTF-8); set it"))?;
        expanded.text.extend([before, &value]);
        expanded.from_variables = true;
        rest = behind;
    }
    expanded.text.push_str(rest);
    Ok(expanded)
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
            ("", "", false),
        ] {
            assert_eq!(expanded(text), Ok((expected.to_owned(), from_variables)), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_put_in_is_an_error_that_names_the_variable_only() {
        assert!(expanded("${NOT_HERE}").unwrap_err().contains("NOT_HERE is not set"));
        for wrong in ["${HOST", "${}", "${hunter2!}", "${1A}", "${HOST:-x}"] {
            let said = expanded(wrong).unwrap_err();
            assert!(said.contains("$${") && !said.contains("hunter2"), "{said}");
        }
    }
}
