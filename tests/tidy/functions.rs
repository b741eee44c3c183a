//! How long functions are, measured as a reader sees them: from the `fn` to its closing brace at the same indent.

use crate::sources;

/// Lines of every function of the published crates, tests left out.
fn lengths() -> Vec<(usize, String)> {
    let mut lengths = Vec::new();
    for source in sources::all() {
        let path = source.path.strip_prefix(sources::root()).expect("in the checkout");
        let path = path.to_string_lossy().into_owned();
        let ours = path.starts_with("engine/src/") || path.starts_with("transports/");
        let published = ours && !path.contains("test");
        if published && !path.ends_with("model.rs") {
            let code = source.text.split("\n#[cfg(test)]\nmod tests {").next().expect("a first part");
            collect(code, &path, &mut lengths);
        }
    }
    lengths.sort();
    assert!(lengths.len() > 500, "the functions were not found: {}", lengths.len());
    lengths
}

fn collect(code: &str, path: &str, lengths: &mut Vec<(usize, String)>) {
    let lines: Vec<&str> = code.lines().collect();
    for (start, line) in lines.iter().enumerate() {
        let bare = line.trim_start();
        let is_function = bare.split(' ').take(4).any(|word| word == "fn") && !bare.starts_with("//");
        if is_function && let Some(length) = length(&lines[start..], line.len() - bare.len()) {
            lengths.push((length, format!("{path}:{}", start + 1)));
        }
    }
}

fn length(lines: &[&str], indent: usize) -> Option<usize> {
    if lines[0].ends_with('}') {
        return Some(1);
    }
    if lines[0].ends_with(';') {
        return None; // a declaration
    }
    let brace = format!("{}}}", " ".repeat(indent));
    let ends_here = |line: &str| line == brace || is_end_of_declaration(line, indent);
    let end = lines.iter().position(|line| ends_here(line))?;
    (lines[end] == brace).then_some(end + 1)
}

// The last line of a declaration over several lines: `) -> impl Future;`.
fn is_end_of_declaration(line: &str, indent: usize) -> bool {
    line.starts_with(&format!("{})", " ".repeat(indent))) && line.ends_with(';')
}

#[test]
fn the_median_function_has_under_ten_lines() {
    let lengths = lengths();
    let median = lengths[lengths.len() / 2].0;
    assert!(median < 10, "the median function has {median} lines");
}

#[test]
fn no_function_is_longer_than_a_screen() {
    let long: Vec<_> = lengths().into_iter().filter(|(length, _)| *length > 60).collect();
    assert!(long.is_empty(), "{long:?}");
}
