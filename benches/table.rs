//! The figures: what was measured, its target, and the spread.

use std::fmt;

use crate::rounds::Spread;

/// One row.
pub(crate) struct Row {
    /// The number of the target it belongs to, or nothing.
    pub(crate) target: &'static str,
    pub(crate) what: String,
    pub(crate) figure: Spread,
    pub(crate) unit: &'static str,
    /// It must not be larger, where the project promises so.
    pub(crate) at_most: Option<f64>,
}

/// All rows of one run.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    pub(crate) fn add(
        &mut self,
        target: &'static str,
        what: impl Into<String>,
        figure: Spread,
        unit: &'static str,
    ) {
        self.rows.push(Row { target, what: what.into(), figure, unit, at_most: None });
        eprintln!("{}", self.rows[self.rows.len() - 1]);
    }

    /// The row that was added last must not be larger than this.
    pub(crate) fn at_most(&mut self, limit: f64) {
        self.rows.last_mut().expect("a row was added").at_most = Some(limit);
    }

    /// Adds the rows of a run that was kept apart until it came to its end.
    pub(crate) fn append(&mut self, mut other: Table) {
        self.rows.append(&mut other.rows);
    }

    /// 0 if every limit is kept, else 1; names what is not.
    pub(crate) fn check(&self) -> i32 {
        let broken: Vec<&Row> = self.rows.iter().filter(|row| row.is_broken()).collect();
        broken.iter().for_each(|row| println!("beyond its limit: {row}"));
        println!("{} figures, {} beyond their limits", self.rows.len(), broken.len());
        i32::from(!broken.is_empty())
    }

    pub(crate) fn as_json(&self) -> String {
        let rows: Vec<_> = self.rows.iter().map(Row::as_json).collect();
        serde_json::json!({ "machine": machine(), "rows": rows }).to_string()
    }
}

impl Row {
    fn is_broken(&self) -> bool {
        self.at_most.is_some_and(|limit| self.figure.median > limit)
    }

    fn as_json(&self) -> serde_json::Value {
        serde_json::json!({
            "target": self.target, "what": self.what, "unit": self.unit, "median": self.figure.median,
            "min": self.figure.min, "max": self.figure.max, "at_most": self.at_most,
        })
    }

    fn limit(&self) -> String {
        self.at_most.map_or(String::new(), |most| format!("<= {most}"))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:6} {:94} {:>28} {:9} {}", self.target, self.what, self.figure, self.unit, self.limit())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "machine: {}", machine())?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown", |m| m.1);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cores} cores")
}
