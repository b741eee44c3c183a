//! One PromQL expression: parsed, and held against what there is. Panics with what is wrong.
//!
//! Follows the labels through it: what is summed by a label has that label, two sides that are matched have the same
//! ones, what only grows stands in a range, and a matcher asks for values that there are.

use std::collections::BTreeSet;

use promql_parser::{
    label::{MatchOp, Matcher},
    parser::{
        self, AggregateExpr, BinaryExpr, Call, Expr, LabelModifier, VectorMatchCardinality, VectorSelector,
    },
};

use crate::catalogue::{Catalogue, Series};

/// What an expression asks for and gives.
pub(crate) struct Checked {
    /// The labels of its results.
    pub(crate) labels: BTreeSet<String>,
    pub(crate) selectors: Vec<Selector>,
}

/// One selector in it.
pub(crate) struct Selector {
    pub(crate) series: Series,
    pub(crate) matchers: Vec<Matcher>,
}

pub(crate) fn check(text: &str, known: &Catalogue) -> Checked {
    let expression = parser::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut walk = Walk { text, known, selectors: Vec::new() };
    let labels = walk.labels(&expression);
    Checked { labels, selectors: walk.selectors }
}

struct Walk<'a> {
    text: &'a str,
    known: &'a Catalogue,
    selectors: Vec<Selector>,
}

impl Walk<'_> {
    fn labels(&mut self, expression: &Expr) -> BTreeSet<String> {
        match expression {
            Expr::Aggregate(aggregate) => self.aggregate(aggregate),
            Expr::Binary(binary) => self.binary(binary),
            Expr::Paren(inner) => self.labels(&inner.expr),
            Expr::Unary(inner) => self.labels(&inner.expr),
            Expr::VectorSelector(selector) => self.selector(selector, false),
            Expr::MatrixSelector(range) => self.selector(&range.vs, true),
            Expr::Call(call) => self.call(call),
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) => BTreeSet::new(),
            Expr::Subquery(_) | Expr::Extension(_) => panic!("{}: not known to this test", self.text),
        }
    }

    fn aggregate(&mut self, aggregate: &AggregateExpr) -> BTreeSet<String> {
        let inner = self.labels(&aggregate.expr);
        let by = match &aggregate.modifier {
            None => BTreeSet::new(),
            Some(LabelModifier::Include(labels)) => labels.labels.iter().cloned().collect(),
            Some(LabelModifier::Exclude(_)) => panic!("{}: say what is kept, by (...)", self.text),
        };
        assert!(by.is_subset(&inner), "{}: by {by:?}, of {inner:?}", self.text);
        // The highest of a kind keep all their labels.
        if aggregate.op.to_string() == "topk" { inner } else { by }
    }

    fn binary(&mut self, binary: &BinaryExpr) -> BTreeSet<String> {
        let (left, right) = (self.labels(&binary.lhs), self.labels(&binary.rhs));
        if is_number(&binary.lhs) || is_number(&binary.rhs) {
            return if is_number(&binary.lhs) { right } else { left };
        }
        let matching = binary.modifier.as_ref().and_then(|modifier| modifier.matching.as_ref());
        match matching {
            None => assert_eq!(left, right, "{}: the sides have not the same labels", self.text),
            Some(LabelModifier::Include(on)) => {
                let on: BTreeSet<_> = on.labels.iter().cloned().collect();
                assert!(on.is_subset(&left) && on.is_subset(&right), "{}: on {on:?}", self.text);
            }
            Some(LabelModifier::Exclude(_)) => panic!("{}: say what is matched, on (...)", self.text),
        }
        let card = binary.modifier.as_ref().map(|modifier| &modifier.card);
        if matches!(card, Some(VectorMatchCardinality::OneToMany(_))) { right } else { left }
    }

    fn call(&mut self, call: &Call) -> BTreeSet<String> {
        let (name, arguments) = (call.func.name, &call.args.args);
        let mut labels = BTreeSet::new();
        for argument in arguments.iter().filter(|argument| !is_number(argument)) {
            labels = self.labels(argument);
        }
        match name {
            "rate" | "increase" => self.assert_last_grows(true, name),
            "changes" => self.assert_last_grows(false, name),
            "histogram_quantile" => {
                assert!(labels.remove("le"), "{}: a quantile needs le", self.text);
            }
            "clamp_min" => {}
            _ => panic!("{}: {name} is not known to this test", self.text),
        }
        labels
    }

    fn selector(&mut self, selector: &VectorSelector, in_range: bool) -> BTreeSet<String> {
        let name = selector.name.as_deref().unwrap_or_else(|| panic!("{}: no name", self.text));
        let series =
            self.known.get(name).unwrap_or_else(|| panic!("{}: there is no {name}", self.text)).clone();
        let whole = MEANT_AS_A_WHOLE.contains(&name);
        assert!(in_range || whole || !series.grows, "{}: {name} only grows: take its rate", self.text);
        let matchers = selector.matchers.matchers.clone();
        matchers.iter().for_each(|matcher| self.matcher(name, &series, matcher));
        let labels = series.labels.clone();
        self.selectors.push(Selector { series, matchers });
        labels
    }

    fn matcher(&self, name: &str, series: &Series, matcher: &Matcher) {
        let text = self.text;
        assert!(series.labels.contains(&matcher.name), "{text}: {name} has no label {}", matcher.name);
        if matcher.name == "le" {
            assert!(series.has_bound(&matcher.value), "{text}: {name} has no bound {}", matcher.value);
        }
        let values = series.label(&matcher.name).map_or(&[][..], |label| label.values);
        for value in asked_for(matcher).filter(|_| !values.is_empty()) {
            assert!(values.contains(&value), "{text}: {} is never {value}", matcher.name);
        }
    }

    fn assert_last_grows(&self, grows: bool, function: &str) {
        let last = self.selectors.last().expect("a selector inside");
        assert_eq!(last.series.grows, grows, "{}: {function} of the wrong kind", self.text);
    }
}

impl Selector {
    /// Which of these values it lets through.
    pub(crate) fn admits(&self, label: &str, value: &str) -> bool {
        self.matchers.iter().filter(|matcher| matcher.name == label).all(|matcher| matcher.is_match(value))
    }

    pub(crate) fn asks_by(&self, label: &str) -> bool {
        self.matchers.iter().any(|matcher| matcher.name == label)
    }
}

fn is_number(expression: &Expr) -> bool {
    match expression {
        Expr::Paren(inner) => is_number(&inner.expr),
        other => matches!(other, Expr::NumberLiteral(_)),
    }
}

// A variable at "All" asks for no value in particular.
fn asked_for(matcher: &Matcher) -> impl Iterator<Item = &str> {
    let many = matches!(matcher.op, MatchOp::Re(_) | MatchOp::NotRe(_));
    let parts = if many { matcher.value.split('|').collect() } else { vec![matcher.value.as_str()] };
    parts.into_iter().filter(move |part| !many || *part != ".+")
}

/// Any of it since the process started is what is asked.
const MEANT_AS_A_WHOLE: [&str; 1] = ["leasehold_classes_overflow_total"];
