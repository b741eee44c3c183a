//! Wrong configuration files and what is said to them: each `bad_config/NAME.toml` is refused with the words in
//! `bad_config/NAME.txt`.
//!
//! `LEASEHOLD_WRITE_EXPECTED=1 cargo test --workspace --test bad_config` writes the words anew, to be read in the
//! diff.

use std::{
    fs,
    path::{Path, PathBuf},
};

use leasehold_redis::{ConfigFile, ConfigFileError, RedisConfig};

fn wrong_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad_config");
    let entries = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    assert!(files.len() >= 25, "{} files", files.len());
    files
}

fn refusal(path: &Path) -> ConfigFileError {
    let text = fs::read_to_string(path).expect("UTF-8");
    let name = path.file_name().expect("a name").to_string_lossy();
    ConfigFile::parse(&text, &name).err().unwrap_or_else(|| panic!("{name} is accepted"))
}

#[test]
fn each_is_refused_with_the_words_beside_it() {
    let mut wrong = Vec::new();
    for path in wrong_files() {
        let (said, beside) = (format!("{}\n", refusal(&path)), path.with_extension("txt"));
        if std::env::var_os("LEASEHOLD_WRITE_EXPECTED").is_some() {
            fs::write(&beside, &said).expect("written");
        } else if fs::read_to_string(&beside).ok().as_ref() != Some(&said) {
            wrong.push(said);
        }
    }
    assert!(wrong.is_empty(), "not the words beside the file:\n{}", wrong.join(""));
}

/// The line that must be named ends in `# here` and the key, if the syntax lets it be told.
#[test]
fn each_names_the_line_to_change_and_its_key() {
    for path in wrong_files() {
        let (text, error) = (fs::read_to_string(&path).expect("UTF-8"), refusal(&path));
        let marked = text.lines().position(|line| line.contains("# here")).map(|line| line + 1);
        assert!(marked.is_some(), "{path:?} marks no line");
        assert_eq!(error.line(), marked, "{path:?}: {error}");
        let line = text.lines().nth(error.line().expect("a line") - 1).expect("it is in the file");
        let key = line.split("# here").nth(1).expect("marked").trim();
        assert_eq!(error.key().unwrap_or_default(), key, "{path:?}: {error}");
        assert!(error.column().is_some_and(|column| column <= line.chars().count() + 1), "{path:?}: {error}");
        assert!(error.remedy().len() > 10, "{error}");
    }
}

#[test]
fn no_secret_is_repeated() {
    for path in wrong_files() {
        let error = refusal(&path);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{path:?}: {error}");
    }
}

/// A file is mistyped anywhere, and cut off anywhere: there is an answer, and nothing of the secret is in it.
#[test]
fn wherever_a_letter_is_missing_no_secret_is_repeated() {
    let mut refused = 0;
    for path in wrong_files() {
        let text = fs::read_to_string(&path).expect("UTF-8");
        for (at, letter) in text.char_indices() {
            let (before, behind) = (&text[..at], &text[at + letter.len_utf8()..]);
            for mistyped in
                [before.to_owned(), format!("{before}{behind}"), format!("{before}\"{letter}{behind}")]
            {
                let Err(error) = ConfigFile::parse(&mistyped, "leasehold.toml") else { continue };
                refused += 1;
                let said = format!("{error} {error:?}");
                let leaks = ["hun", "ter2"].iter().find(|part| said.contains(**part));
                assert_eq!(leaks, None, "{said}\nsaid to\n{mistyped}");
            }
        }
    }
    assert!(refused > 10_000, "{refused} refused");
}

#[test]
fn no_words_are_left_without_their_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad_config");
    let words = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    for path in words.filter(|path| path.extension().is_some_and(|end| end == "txt")) {
        assert!(path.with_extension("toml").exists(), "{path:?}");
    }
}

/// URLs that cannot be used, and what is said to them.
const URLS: &[(&str, &str)] = &[
    ("http://cache", SCHEMES),
    ("cache:6379", SCHEMES),
    ("unix:///tmp/redis.sock", SCHEMES),
    ("redis-ring://cache", SCHEMES),
    ("redis:/cache", SPELLING),
    ("redis://cache-1,cache-2", SPELLING),
    ("redis://cache/name", SPELLING),
    ("redis://cache?db=3", "leave the query out: one server has no options in its URL"),
    ("redis-cluster://cache?db=3", "only node=host:port is allowed after the ?"),
];
const SCHEMES: &str = "start it with redis://, redis-sentinel:// or redis-cluster://, or over TLS with rediss://, \
                       rediss-sentinel:// or rediss-cluster://";
const SPELLING: &str = "spell it redis://[[username]:password@]host[:port][/database]";

#[test]
fn each_wrong_url_is_refused_word_for_word() {
    for (url, remedy) in URLS {
        let error = RedisConfig::from_url(url).expect_err(url).to_string();
        let (before, said) = error.split_once(": ").expect("a value and a remedy");
        let shown = before.strip_prefix("`url` is ").expect("the value");
        assert!(shown.starts_with(url.split('?').next().unwrap_or(url)) || shown.ends_with("***"), "{error}");
        assert!(error.ends_with(remedy) && said.len() >= remedy.len(), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_refused_word_for_word() {
    let said = |path: &Path| ConfigFile::read(path).expect_err("refused").to_string();
    let remedy = "correct the path, its rights, or its encoding (UTF-8)";
    let missing = Path::new("/nowhere/leasehold.toml");
    let expected = format!("/nowhere/leasehold.toml: cannot be read: No such file or directory; {remedy}");
    assert_eq!(said(missing), expected);
    let folder = tempfile::tempdir().expect("a folder");
    let expected = format!("{}: cannot be read: Is a directory; {remedy}", folder.path().display());
    assert_eq!(said(folder.path()), expected);
}
