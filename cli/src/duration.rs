//! Durations as a user writes and reads them. Pure.

use std::time::Duration;

/// Parses `500ms`, `10s`, `1.5m`, `2h` or `0`.
///
/// # Errors
/// The text is no duration. A number without a unit is refused: it may be meant in seconds or in milliseconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if text.starts_with('-') {
        return Err(format!("must be a duration, and not negative; {FORM}"));
    }
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| format!("not a duration; {FORM}"))?;
    let seconds = match unit {
        "ms" => number / 1_000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3_600.0,
        "" if number == 0.0 => 0.0,
        "" => return Err(format!("has no unit; write {text}s or {text}ms")),
        _ => return Err(format!("the unit {unit:?} is not known; {FORM}")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("is too long; {FORM}"))
}

/// The duration in whole milliseconds, as JSON has it.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Always in seconds: `0.0s`, `27.3s`.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1}s", duration.as_secs_f64())
}

/// At most one decimal: `27.3s`, `436ms`.
pub(crate) fn shown(duration: Duration) -> String {
    format!("{duration:.1?}").replace(".0", "")
}

const FORM: &str = "write for example 500ms, 10s, 5m or 2h";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, millis) in
            [("500ms", 500), ("10s", 10_000), ("1.5m", 90_000), ("2h", 7_200_000), ("0", 0), ("0s", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn durations_are_shown_with_at_most_one_decimal() {
        let times = [Duration::from_micros(436), Duration::from_nanos(1_797_063_804)];
        assert_eq!(times.map(seconds), ["0.0s", "1.8s"]);
        assert_eq!(times.map(shown), ["436µs", "1.8s"]);
    }

    #[test]
    fn other_texts_are_refused_with_the_remedy() {
        assert_eq!(parse("10").unwrap_err(), "has no unit; write 10s or 10ms");
        assert!(parse("-1s").unwrap_err().contains("not negative"));
        for text in ["", "s", "10 s", "-1s", "1d", "1.2.3s", "99999999999999999999h", "NaNs"] {
            assert!(parse(text).unwrap_err().contains("500ms"), "{text}");
        }
    }
}
