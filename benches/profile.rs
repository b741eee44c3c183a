//! What callgrind counted, function by function.
//!
//! Its file names a function once, `fn=(12) malloc`, and by its number from then on. Below stand the costs of its own lines,
//! a position and a count each; behind `calls=` stands what the called function took in all, which is not its own.

/// All instructions of a run.
pub(crate) fn instructions(profile: &str) -> u64 {
    sum(profile, |_| true)
}

/// The same, but for those of the C library's allocator.
pub(crate) fn without_allocator(profile: &str) -> u64 {
    sum(profile, |name| !ALLOCATOR.contains(&name))
}

fn sum(profile: &str, is_wanted: impl Fn(&str) -> bool) -> u64 {
    let mut wanted = Vec::new();
    let (mut counts, mut of_call, mut total) = (false, false, 0);
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            counts = look_up(name, &mut wanted, &is_wanted);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            look_up(name, &mut wanted, &is_wanted);
        } else if line.starts_with("calls=") {
            of_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let own = if std::mem::take(&mut of_call) { 0 } else { count(line) };
            total += if counts { own } else { 0 };
        }
    }
    total
}

/// `(12) malloc`, or `(12)` once it is known.
fn look_up(name: &str, wanted: &mut Vec<bool>, is_wanted: impl Fn(&str) -> bool) -> bool {
    let (number, name) = name.split_once(')').expect("a number in brackets");
    let number: usize = number.trim_start_matches('(').parse().expect("a number");
    if wanted.len() <= number {
        wanted.resize(number + 1, false);
    }
    if !name.is_empty() {
        // `unlink_chunk.constprop.0`, `malloc'2`
        wanted[number] = is_wanted(name.trim().split(['.', '\'']).next().unwrap_or_default());
    }
    wanted[number]
}

fn count(line: &str) -> u64 {
    line.split_whitespace().nth(1).map_or(0, |count| count.parse().expect("a count"))
}

/// Those of glibc that take part.
const ALLOCATOR: [&str; 18] = [
    "malloc",
    "_int_malloc",
    "malloc_consolidate",
    "memalign",
    "_mid_memalign",
    "_int_memalign",
    "posix_memalign",
    "aligned_alloc",
    "calloc",
    "realloc",
    "_int_realloc",
    "free",
    "_int_free",
    "_int_free_merge_chunk",
    "unlink_chunk",
    "sysmalloc",
    "systrim",
    "alloc_perturb",
];
