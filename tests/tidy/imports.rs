//! What each file of a crate imports from the other files of it, read from the `use` lines and the paths in the code.
//!
//! A re-export (`pub use`) imports nothing: it is followed to the file that has the item.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::sources::{self, Source};

/// A module's path in its crate: `["acquire", "entry"]`; empty for the root.
type Module = Vec<String>;

type Arrows = BTreeMap<Module, BTreeSet<Module>>;

/// The files of one crate, tests left out, with the files that each imports.
pub(crate) struct Crate {
    files: BTreeMap<Module, String>,
    exports: BTreeMap<Module, Module>,
}

impl Crate {
    /// Reads the crate whose root file lies in this folder of the checkout.
    pub(crate) fn read(folder: &str) -> Self {
        let folder = sources::root().join(folder);
        let of_crate = |source: &Source| source.path.strip_prefix(&folder).is_ok_and(|path| !is_test(path));
        let files: BTreeMap<_, _> = sources::all()
            .into_iter()
            .filter(of_crate)
            .map(|source| (module(&folder, &source.path), code(&source.text)))
            .collect();
        assert!(files.len() > 2, "no files in {folder:?}");
        let mut all = Self { files, exports: BTreeMap::new() };
        all.exports = all.files.iter().flat_map(|(module, code)| all.exports_of(module, code)).collect();
        all
    }

    /// Files that import themselves through other files, each with the files of its circle that it imports.
    pub(crate) fn circles(&self) -> BTreeSet<String> {
        let arrows: Arrows =
            self.files.iter().map(|(module, code)| (module.clone(), self.imports(module, code))).collect();
        let behind: Arrows = arrows.keys().map(|module| (module.clone(), reached(&arrows, module))).collect();
        let in_circle = |from: &Module, to: &Module| behind[from].contains(to) && behind[to].contains(from);
        let of_circle = |(from, to): (&Module, &BTreeSet<Module>)| {
            let to: BTreeSet<_> = to.iter().filter(|to| in_circle(from, to)).cloned().collect();
            (!to.is_empty()).then(|| described(from, &to))
        };
        arrows.iter().filter_map(of_circle).collect()
    }

    fn imports(&self, module: &Module, code: &str) -> BTreeSet<Module> {
        let statements = uses(code).filter(|(public, _)| !public).flat_map(|(_, tree)| paths(&tree));
        let in_code = inline_paths(&without_uses(code));
        let all = statements.chain(in_code).filter_map(|path| self.file_of(self.resolved(module, &path)?));
        all.filter(|file| file != module).collect()
    }

    fn exports_of(&self, module: &Module, code: &str) -> Vec<(Module, Module)> {
        let paths = uses(code).filter(|(public, _)| *public).flat_map(|(_, tree)| paths(&tree));
        let export = |path: Module| {
            let name = path.last()?.clone();
            let from = self.resolved(module, &path)?;
            Some(([module.clone(), vec![name]].concat(), from))
        };
        paths.filter_map(export).collect()
    }

    /// The path from the crate's root; `None`: it leads out of the crate.
    fn resolved(&self, module: &Module, path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([module.as_slice(), rest].concat()),
            "super" => self.resolved_above(&module[..module.len().checked_sub(1)?], rest),
            child => {
                let inside: Module = [module.as_slice(), path].concat();
                let is_child = self.files.contains_key(&[module.as_slice(), &[child.to_owned()]].concat());
                is_child.then_some(inside)
            }
        }
    }

    fn resolved_above(&self, above: &[String], rest: &[String]) -> Option<Module> {
        match rest.first().map(String::as_str) {
            Some("super") => self.resolved(&above.to_vec(), rest),
            _ => Some([above, rest].concat()),
        }
    }

    /// The file that has the item, behind all re-exports.
    fn file_of(&self, mut path: Module) -> Option<Module> {
        for _ in 0..RE_EXPORTS_MAX {
            match self.exports.get(&path) {
                Some(from) => path = from.clone(),
                None => break,
            }
        }
        (0..=path.len()).rev().map(|len| path[..len].to_vec()).find(|file| self.files.contains_key(file))
    }
}

/// All files that this one imports, directly or through others.
fn reached(arrows: &Arrows, from: &Module) -> BTreeSet<Module> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        next.extend(arrows[module].iter().filter(|to| reached.insert((*to).clone())));
    }
    reached
}

fn described(from: &Module, to: &BTreeSet<Module>) -> String {
    let to: Vec<_> = to.iter().map(|module| module.join("::")).collect();
    format!("{} -> {}", from.join("::"), to.join(", "))
}

fn is_test(path: &Path) -> bool {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    name.ends_with("tests") || name.ends_with("model") || path.iter().any(|part| part == "tests")
}

fn module(folder: &Path, path: &Path) -> Module {
    let inside = path.strip_prefix(folder).expect("of this crate").with_extension("");
    let mut parts: Module = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// The text without comments and without the tests at its end.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Every `use`: whether it is a re-export, and its tree.
fn uses(code: &str) -> impl Iterator<Item = (bool, String)> {
    let statements = code.split(';').filter_map(|statement| {
        let start = statement.rfind("use ").filter(|start| starts_a_line(statement, *start))?;
        let line = statement[..start].rsplit('\n').next().unwrap_or_default();
        Some((line.trim_start().starts_with("pub"), statement[start + 4..].to_owned()))
    });
    statements.collect::<Vec<_>>().into_iter()
}

fn without_uses(code: &str) -> String {
    let rest = |statement: &str| {
        let start = statement.rfind("use ").filter(|start| starts_a_line(statement, *start));
        statement[..start.unwrap_or(statement.len())].to_owned()
    };
    code.split(';').map(rest).collect::<Vec<_>>().join(";")
}

fn starts_a_line(statement: &str, start: usize) -> bool {
    let before = statement[..start].rsplit('\n').next().unwrap_or_default().trim();
    before.is_empty() || before.starts_with("pub")
}

/// The paths of a tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn paths(tree: &str) -> Vec<Module> {
    let tree: String = tree.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((base, rest)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or_default();
        let parts = name.split("::").map(|part| part.trim().to_owned());
        return vec![parts.filter(|part| !part.is_empty()).collect()];
    };
    let inside = rest.rsplit_once('}').map_or("", |(inside, _)| inside);
    branches(inside)
        .iter()
        .flat_map(|branch| paths(&format!("{}{}", base.trim(), branch.trim())))
        .map(without_self)
        .collect()
}

/// `a::self` is `a`.
fn without_self(mut path: Module) -> Module {
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    path
}

fn branches(inside: &str) -> Vec<String> {
    let (mut all, mut depth) = (vec![String::new()], 0_i32);
    for character in inside.chars() {
        depth += i32::from(character == '{') - i32::from(character == '}');
        match (character, depth) {
            (',', 0) => all.push(String::new()),
            _ => all.last_mut().expect("never empty").push(character),
        }
    }
    all.retain(|branch| !branch.trim().is_empty());
    all
}

/// `crate::a`, `super::a` and `child::a` in the code itself.
fn inline_paths(code: &str) -> Vec<Module> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    let words = code.split(|character| !is_part(character));
    let paths = words.filter(|word| word.contains("::"));
    let parts = |path: &str| path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
    paths.map(parts).filter(|path: &Module| path.len() > 1).collect()
}

const RE_EXPORTS_MAX: usize = 5;

#[test]
fn a_tree_of_imports_is_read_as_paths() {
    let path = |text: &str| text.split("::").map(str::to_owned).collect::<Module>();
    assert_eq!(
        paths("crate::a::{self, b::{C, D as E}, f}"),
        ["crate::a", "crate::a::b::C", "crate::a::b::D", "crate::a::f"].map(path)
    );
}

#[test]
fn a_circle_is_found_behind_a_re_export() {
    let file = |name: &str, code: &str| (vec![name.to_owned()], code.to_owned());
    let files = BTreeMap::from([
        (Vec::new(), "mod room;\nmod user;".to_owned()),
        file("room", "mod part;\npub use part::Part;"),
        (vec!["room".to_owned(), "part".to_owned()], "use crate::user::User;".to_owned()),
        file("user", "use crate::room::Part;"),
    ]);
    let mut all = Crate { files, exports: BTreeMap::new() };
    all.exports = all.files.iter().flat_map(|(module, code)| all.exports_of(module, code)).collect();
    assert_eq!(
        all.circles(),
        BTreeSet::from(["room::part -> user".to_owned(), "user -> room::part".to_owned()])
    );
}
