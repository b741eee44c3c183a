//! Every link of every Markdown page leads to a file or a heading that there is, and no page leads to an unknown site.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
    process::Command,
};

use crate::{markdown, sources::root};

/// The sites that a page may name; each was read, and is not the address of this project.
const SITES: [&str; 7] = [
    "antirez.com",               // the discussion of Redlock
    REDISSON,                    // its issues
    "martin.kleppmann.com",      // fencing
    "redis.io",                  // Redlock
    "redisson.pro",              // what its paid edition has
    "rfd.shared.oxide.computer", // futures that are not polled
    "semver.org",                // versions
];

/// The Markdown pages of the checkout, built files left out.
fn pages() -> BTreeMap<PathBuf, String> {
    let told = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"])
        .current_dir(root())
        .output()
        .expect("git");
    let listed = String::from_utf8(told.stdout).expect("UTF-8");
    let paths = listed.split('\0').filter(|path| !path.is_empty() && root().join(path).exists());
    let pages: BTreeMap<_, _> = paths.map(|path| (PathBuf::from(path), read(path))).collect();
    assert!(pages.len() > 20, "the pages were not found");
    pages
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect("UTF-8")
}

/// Where a link of a page leads, from the root of the checkout: a file or folder, and a heading in it.
fn place<'a>(page: &Path, link: &'a str) -> (PathBuf, Option<&'a str>) {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let file = if file.is_empty() { page.to_owned() } else { plain(&page.with_file_name("").join(file)) };
    (file, anchor)
}

/// The path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

fn is_of_the_web(link: &str) -> bool {
    link.contains("://")
}

/// Rustdoc checks the paths of items.
fn is_of_rustdoc(link: &str) -> bool {
    link.contains("::")
}

/// What is wrong with a link of this page.
fn fault(pages: &BTreeMap<PathBuf, String>, page: &Path, link: &str) -> Option<String> {
    let (file, anchor) = place(page, link);
    if !root().join(&file).exists() {
        return Some(format!("{}: {link} leads to no file", page.display()));
    }
    let headings = pages.get(&file).map(|text| markdown::anchors(text)).unwrap_or_default();
    let leads_nowhere = anchor.is_some_and(|anchor| !headings.contains(anchor));
    leads_nowhere.then(|| format!("{}: {link} leads to no heading of {}", page.display(), file.display()))
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let pages = pages();
    let links =
        pages.iter().flat_map(|(page, text)| markdown::links(text).into_iter().map(move |link| (page, link)));
    let local: Vec<_> = links.filter(|(_, link)| !is_of_the_web(link) && !is_of_rustdoc(link)).collect();
    assert!(local.len() > 50, "{} links", local.len());
    let faults: Vec<_> = local.iter().filter_map(|(page, link)| fault(&pages, page, link)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Where a page is read as a file, as on a forge, a path of Rust leads nowhere, and so do brackets without a definition.
#[test]
fn every_link_leads_somewhere_without_rustdoc() {
    let pages = pages().into_iter().filter(|(page, _)| page != Path::new(FOR_RUSTDOC));
    let mut dead = Vec::new();
    for (page, text) in pages {
        let links = markdown::links(&text).into_iter().filter(|link| is_of_rustdoc(link));
        let all = links.chain(markdown::undefined(&text));
        dead.extend(all.map(|link| format!("{}: {link}", page.display())));
    }
    assert!(dead.is_empty(), "define each at the end of its page, as `[name]: file`: {dead:#?}");
}

/// The sites of a text, also those outside of links.
fn sites(text: &str) -> BTreeSet<&str> {
    let addresses = text.split("https://").skip(1).chain(text.split("http://").skip(1));
    addresses.map(site).collect()
}

/// The host of an address. Of the host that many projects share, the one that may be named.
fn site(address: &str) -> &str {
    let is_end = |character: char| !(character.is_ascii_alphanumeric() || ".-:[]".contains(character));
    let host = address.split(is_end).next().unwrap_or_default();
    if address.starts_with(&format!("{REDISSON}/")) { REDISSON } else { host }
}

/// The definitions that come first in rustdoc; no page to be read.
const FOR_RUSTDOC: &str = "engine/src/guide/links.md";
const REDISSON: &str = "github.com/redisson/redisson";

fn is_this_machine(site: &str) -> bool {
    site.starts_with("127.0.0.1") || site.starts_with("localhost")
}

#[test]
fn no_page_names_an_unknown_site() {
    let more = ["Cargo.toml", "dashboards/rules/alerts.yml"];
    let texts = pages().into_iter().chain(more.map(|path| (PathBuf::from(path), read(path))));
    let mut unknown = Vec::new();
    for (page, text) in texts {
        let strange = sites(&text).into_iter().filter(|site| !SITES.contains(site) && !is_this_machine(site));
        unknown.extend(strange.map(|site| format!("{}: {site}", page.display())));
    }
    assert!(unknown.is_empty(), "look at each, then add it to SITES: {unknown:#?}");
}

#[test]
fn a_link_is_followed_from_the_folder_of_its_page() {
    let page = Path::new("transports/redis/README.md");
    assert_eq!(place(page, "../../README.md#install"), (PathBuf::from("README.md"), Some("install")));
    assert_eq!(place(page, "#tls"), (page.to_owned(), Some("tls")));
    assert_eq!(place(Path::new("README.md"), "cli"), (PathBuf::from("cli"), None));
}

#[test]
fn a_link_to_nothing_is_found() {
    let page = |name: &str, text: &str| (PathBuf::from(name), text.to_owned());
    let pages = BTreeMap::from([page("README.md", "# A\n## To be found"), page("CHANGELOG.md", "")]);
    let fault = |link| fault(&pages, Path::new("README.md"), link);
    assert_eq!(fault("#to-be-found"), None);
    assert!(fault("#lost").is_some() && fault("CHANGELOG.md#to-be-found").is_some());
    assert!(fault("nowhere.md").is_some() && fault("CHANGELOG.md").is_none());
}

#[test]
fn of_a_shared_host_one_project_may_be_named() {
    let text = "https://github.com/redisson/redisson/issues/1 http://127.0.0.1:9464/x https://github.com/a/b";
    assert_eq!(sites(text), BTreeSet::from([REDISSON, "127.0.0.1:9464", "github.com"]));
}
