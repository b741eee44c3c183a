//! The shipped boards and rules against the engine's own table of metrics. A metric, its panel and its row in
//! `dashboards/METRICS.md` come together.

mod boards;
mod catalogue;
mod colours;
mod expression;
mod page;
mod queries;
mod rules;
