//! The hottest locks in the text format of Prometheus. Pure.

use std::time::Duration;

/// The locks that a process names, with the time that callers waited for each.
///
/// # Errors
/// The text has no metric of Leasehold.
pub(super) fn hot_locks(text: &str) -> Result<Vec<(String, Duration)>, String> {
    if !text.lines().any(|line| line.starts_with(PREFIX)) {
        return Err(NO_ENGINE.to_owned());
    }
    Ok(text.lines().filter_map(sample).collect())
}

/// `leasehold_hot_lock_wait_seconds{lock="orders:42"} 3.5`, perhaps with more labels and a time stamp.
fn sample(line: &str) -> Option<(String, Duration)> {
    let (labels, rest) = labels(line.strip_prefix(METRIC)?.strip_prefix('{')?)?;
    let (_, name) = labels.into_iter().find(|(label, _)| *label == LABEL)?;
    let seconds = rest.split_whitespace().next()?.parse().ok()?;
    Some((name, Duration::try_from_secs_f64(seconds).ok()?))
}

/// The labels, and what stands behind them.
fn labels(mut text: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, value) = text.split_once("=\"")?;
        let (value, rest) = unquoted(value)?;
        labels.push((name.trim_end(), value));
        text = rest;
    }
}

/// The text up to the quotation mark, and what stands behind it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut letters) = (String::new(), text.char_indices());
    while let Some((place, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[place + 1..])),
            '\\' => value.push(unescaped(letters.next()?.1)),
            letter => value.push(letter),
        }
    }
    None
}

fn unescaped(letter: char) -> char {
    if letter == 'n' { '\n' } else { letter }
}

const PREFIX: &str = "leasehold_";
const METRIC: &str = "leasehold_hot_lock_wait_seconds";
const LABEL: &str = "lock";
const NO_ENGINE: &str = "no metric of Leasehold is there; give the address of a process whose engine was built \
                         with metrics, and leave their names unchanged";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_the_exporter_wrote_them() {
        let text = concat!(
            "# HELP leasehold_hot_lock_wait_seconds Time.\n",
            "leasehold_held{class=\"default\",kind=\"exclusive\"} 3\n",
            "leasehold_hot_lock_wait_seconds{engine=\"a\",lock=\"orders:42\"} 3.5\n",
            "leasehold_hot_lock_wait_seconds{lock=\"a \\\"b\\\" \\\\ \\n}\"} 1e-3 1700000000000\n",
            "leasehold_hot_lock_wait_seconds{lock=\"cut\n",
            "leasehold_hot_lock_wait_seconds_more{lock=\"other\"} 1\n",
            "leasehold_hot_lock_wait_seconds{lock=\"none\"} NaN\n",
        );
        let expected = [
            ("orders:42".to_owned(), Duration::from_millis(3_500)),
            ("a \"b\" \\ \n}".to_owned(), Duration::from_millis(1)),
        ];
        assert_eq!(hot_locks(text).unwrap(), expected);
    }

    #[test]
    fn a_page_of_another_program_is_an_error() {
        assert!(hot_locks("go_goroutines 7\n").unwrap_err().starts_with("no metric of Leasehold"));
        assert_eq!(hot_locks("leasehold_build_info{} 1\n"), Ok(vec![]));
    }
}
