//! What other clients and servers have written is kept in the program as a type that is shown safely.

use crate::sources::all;

/// The fields of the program's structs that hold such texts, and how each is declared.
const FIELDS: [&str; 6] = ["owner", "line", "address", "server", "name", "id"];
/// The files whose structs hold them. Their own `name` of a lock is shown with `{:?}`.
const FILES: [&str; 2] = ["cli/src/report.rs", "cli/src/owners.rs"];

#[test]
fn foreign_texts_of_the_program_have_a_type_of_their_own() {
    let (sources, mut safe) = (all(), 0);
    for file in FILES {
        let source = sources.iter().find(|source| source.path.ends_with(file)).expect("the file");
        for line in source.text.lines().map(str::trim) {
            let field = line.trim_start_matches("pub(crate) ").split_once(": ");
            let Some((_, kind)) = field.filter(|(name, _)| FIELDS.contains(name)) else { continue };
            let is_lock = file.ends_with("report.rs") && line == "pub(crate) name: String,";
            safe += usize::from(kind.contains("ForeignText<"));
            assert!(
                is_lock || !kind.starts_with("String") && !kind.contains("Vec<String>"),
                "{file}: {line}"
            );
        }
    }
    assert_eq!(safe, 7, "the fields were not found");
}

#[test]
fn the_owner_of_the_engines_api_is_not_written_raw() {
    for source in all().iter().filter(|source| source.path.components().any(|part| part.as_os_str() == "src"))
    {
        for line in source.text.lines().filter(|line| line.contains("write!(") || line.contains("format!(")) {
            let is_raw = [", self.owner", ", &self.owner", ", hold.owner", ", holder.owner", ", place.owner"]
                .into_iter()
                .any(|argument| {
                    line.contains(&format!("{argument})")) || line.contains(&format!("{argument},"))
                });
            let is_typed = FILES.iter().any(|file| source.path.ends_with(file)); // by the test above
            assert!(!is_raw || is_typed, "{:?}: {line}", source.path);
        }
    }
}
