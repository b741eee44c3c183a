//! *Pure.* The links and the headings of a Markdown page.

use std::collections::{BTreeMap, BTreeSet};

/// The targets of all links and pictures, without those in code.
pub(crate) fn links(page: &str) -> Vec<String> {
    let text = without_code(&without_blocks(page));
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let defined = text.lines().filter_map(definition);
    inline.chain(defined).map(str::to_owned).collect()
}

/// The names in brackets that no line of the page defines, so that a reader sees the brackets. Names may be code.
pub(crate) fn undefined(page: &str) -> Vec<String> {
    let text = without_blocks(page);
    let defined: BTreeSet<_> = text.lines().filter_map(defined_name).collect();
    let wanted = text.split("\n\n").flat_map(names_wanted);
    wanted.filter(|name| !defined.contains(name.as_str())).collect()
}

fn defined_name(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix('[')?.split_once("]: ")?;
    Some(name)
}

/// The names of `` [`name`] `` and `[text][name]` in one paragraph.
fn names_wanted(paragraph: &str) -> Vec<String> {
    let closed = paragraph.match_indices(']').map(|(end, _)| (&paragraph[..end], &paragraph[end + 1..]));
    let named = closed.filter_map(|(before, behind)| {
        let (text, name) = before.rsplit_once('[')?;
        let is_code = name.len() > 2 && name.starts_with('`') && name.ends_with('`');
        let is_name = text.ends_with(']') || (is_code && !behind.starts_with(['(', '[', ':']));
        let is_in_code = text.matches('`').count() % 2 == 1;
        (is_name && !is_in_code).then(|| name.to_owned())
    });
    named.collect()
}

/// The target of a line `[name]: target`.
fn definition(line: &str) -> Option<&str> {
    let (_, target) = line.strip_prefix('[')?.split_once("]: ")?;
    target.split(' ').next()
}

/// The anchors of a page's headings, as forges make them.
pub(crate) fn anchors(page: &str) -> BTreeSet<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    let mut anchors = BTreeSet::new();
    for line in without_blocks(page).lines() {
        let Some(heading) = heading(line) else { continue };
        let anchor = anchor(heading);
        let before = seen.entry(anchor.clone()).or_default();
        anchors.insert(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
        *before += 1;
    }
    anchors
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    (text.len() < line.len()).then_some(text.strip_prefix(' ')?.trim())
}

fn anchor(heading: &str) -> String {
    let shown = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    shown.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

/// The page without its blocks of code.
fn without_blocks(page: &str) -> String {
    let mut is_code = false;
    let is_text = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    page.lines().filter(is_text).collect::<Vec<_>>().join("\n")
}

/// The text without code between backticks; a span ends in its own paragraph.
fn without_code(text: &str) -> String {
    text.split("\n\n").map(without_spans).collect::<Vec<_>>().join("\n\n")
}

fn without_spans(paragraph: &str) -> String {
    paragraph.split('`').step_by(2).collect()
}

#[test]
fn links_are_found_and_code_is_none() {
    let page = "[a](b.md#c) and\n[`d`](e) `[f](g)`\n\n```sh\n[h](i)\n```\n![j](k.png)\n\n[`l`]: m.rs\n";
    assert_eq!(links(page), ["b.md#c", "e", "k.png", "m.rs"]);
}

#[test]
fn brackets_without_a_link_are_found() {
    let page = "[`a`] and [`b`](c), [d][e], [f\ng][`h`], `[i][j]`, [1], [`k`][l]\n\n[`a`]: m.rs\n[e]: n.md\n";
    assert_eq!(undefined(page), ["`h`", "l"]);
}

#[test]
fn headings_have_the_anchors_of_a_forge() {
    let page = "# A `lock`, first\n```\n# no heading\n```\n## P11, servers\n## Twice\n## Twice\n#none\n";
    let wanted = ["a-lock-first", "p11-servers", "twice", "twice-1"].map(str::to_owned);
    assert_eq!(anchors(page), BTreeSet::from(wanted));
}
