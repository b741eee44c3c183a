//! Sources of a password. Neither `Debug` nor an error ever shows its text.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::system_error::words;

/// The source of a password. A file or variable is read again at each connect, so the password can be rotated.
///
/// In a configuration file: `"the password"`, `{ file = "/run/secrets/redis" }` or `{ env = "REDIS_PASSWORD" }`.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Spelling")]
#[non_exhaustive]
pub enum Password {
    /// The password itself.
    Value(Secret),
    /// A file with the password. White space at its end is ignored.
    File(PathBuf),
    /// An environment variable with the password.
    Env(String),
}

/// Untagged, because the error of a tagged enum would show a misspelled value, which may be the password.
#[derive(Deserialize)]
#[serde(untagged, expecting = "write the password in quotes, or { file = \"...\" }, or { env = \"...\" }")]
enum Spelling {
    Value(Secret),
    Source(Source),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Source {
    File(PathBuf),
    Env(String),
}

impl From<Spelling> for Password {
    fn from(spelling: Spelling) -> Self {
        match spelling {
            Spelling::Value(secret) => Password::Value(secret),
            Spelling::Source(Source::File(path)) => Password::File(path),
            Spelling::Source(Source::Env(name)) => Password::Env(name),
        }
    }
}

/// A text that is never shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Password {
    /// Reads the password now.
    ///
    /// # Errors
    /// A text with the setting, the source and the remedy.
    pub(crate) fn read(&self, setting: &str) -> Result<String, String> {
        let text = match self {
            Password::Value(secret) => secret.0.clone(),
            Password::File(path) => read_file(setting, path)?,
            Password::Env(name) => read_variable(setting, name)?,
        };
        if text.is_empty() {
            Err(format!("`{setting}` ({self}) is empty; put the password there"))
        } else {
            Ok(text)
        }
    }
}

impl Secret {
    /// Wraps a text that is never shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

fn read_file(setting: &str, path: &Path) -> Result<String, String> {
    let fault = |error| {
        let (path, why) = (path.display(), words(&error));
        format!("`{setting}` file {path} cannot be read: {why}; correct the path or its rights")
    };
    Ok(std::fs::read_to_string(path).map_err(fault)?.trim_end().to_owned())
}

fn read_variable(setting: &str, name: &str) -> Result<String, String> {
    // The error of `var` would show a value that is not UTF-8.
    std::env::var(name).map_err(|_| format!("`{setting}` variable {name} is not set, or no UTF-8; set it"))
}

/// Shows the source, never the text.
impl fmt::Display for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Password::Value(_) => f.write_str("given as a value"),
            Password::File(path) => write!(f, "from file {}", path.display()),
            Password::Env(name) => write!(f, "from variable {name}"),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let password = Password::Value(Secret::new("hunter2"));
        let shown =
            format!("{password:?} {password} {:?} {}", Secret::new("hunter2"), Secret::new("hunter2"));
        assert!(!shown.contains("hunter2"), "{shown}");
        assert_eq!(password.read("password").unwrap(), "hunter2");
    }

    #[test]
    fn a_configuration_file_spells_it_in_three_ways_and_its_errors_show_nothing() {
        let read = |text: &str| serde_json::from_str::<Password>(text);
        assert!(matches!(read(r#""hunter2""#), Ok(Password::Value(_))));
        assert!(matches!(read(r#"{ "file": "/x" }"#), Ok(Password::File(_))));
        assert!(matches!(read(r#"{ "env": "X" }"#), Ok(Password::Env(_))));
        for wrong in [r#"{ "vale": "hunter2" }"#, r#"["hunter2"]"#, r#"{ "hunter2": 1 }"#] {
            assert!(!read(wrong).unwrap_err().to_string().contains("hunter2"), "{wrong}");
        }
    }

    #[test]
    fn a_file_is_read_each_time_and_its_faults_name_it() {
        let path = std::env::temp_dir().join(format!("leasehold-password-{}", std::process::id()));
        let password = Password::File(path.clone());
        std::fs::write(&path, "first\n").unwrap();
        assert_eq!(password.read("password").unwrap(), "first");
        std::fs::write(&path, "second\n").unwrap();
        assert_eq!(password.read("password").unwrap(), "second");
        std::fs::write(&path, "\n").unwrap();
        assert!(password.read("password").unwrap_err().contains("is empty"));
        std::fs::remove_file(&path).unwrap();
        assert!(password.read("password").unwrap_err().contains(path.to_str().unwrap()));
        assert!(
            Password::Env("LEASEHOLD_NO_SUCH_VARIABLE".into())
                .read("password")
                .unwrap_err()
                .contains("LEASEHOLD_NO_SUCH")
        );
    }
}
