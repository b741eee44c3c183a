//! Times in texts for people. Pure.

use std::{fmt, time::Duration};

/// The time with at most one decimal: `10s`, `1.8s`, `436.2ms`. Whole times have none.
pub(crate) struct ShownTime(pub(crate) Duration);

impl fmt::Display for ShownTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{:.1?}", self.0).replace(".0", ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_at_most_one_decimal() {
        let shown = |nanos| ShownTime(Duration::from_nanos(nanos)).to_string();
        assert_eq!(shown(1_797_063_804), "1.8s");
        assert_eq!(shown(436_249_000), "436.2ms");
        assert_eq!([shown(2_000_000_000), shown(9_999_999_999), shown(50_001_000)], ["2s", "10s", "50ms"]);
        assert_eq!([shown(0), shown(100_040_000_000)], ["0ns", "100s"]);
    }
}
