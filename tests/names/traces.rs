//! Our names against those that a live Redisson used.

use std::collections::BTreeSet;

use leasehold_redis::names::{latch_channel, lock_channel, prefix, semaphore_channel};
use serde_json::Value;

const TRACES: [&str; 4] = [
    include_str!("traces/names-3.27.2.json"),
    include_str!("traces/names-4.7.0.json"),
    include_str!("traces/lock-3.27.2.json"),
    include_str!("traces/lock-4.7.0.json"),
];

/// One step of a trace in which a primitive was used.
struct Step {
    name: String,
    plain: bool,
    step: Value,
}

fn steps() -> Vec<Step> {
    let traces = TRACES.iter().map(|trace| serde_json::from_str::<Value>(trace).expect("a trace"));
    let all = traces.flat_map(|trace| trace["steps"].as_array().expect("steps").clone());
    all.filter_map(|step| {
        let name = step["call"]["name"].as_str()?.to_owned();
        Some(Step { name, plain: step["call"].get("kind").is_none(), step })
    })
    .collect()
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[test]
fn every_lock_of_redisson_has_our_key() {
    let mut held = 0;
    for Step { name, step, .. } in steps().iter().filter(|step| step.plain) {
        for (key, content) in step["state"].as_object().expect("a state") {
            assert_eq!((key, &content["type"]), (name, &Value::from("hash")), "{step}");
            held += 1;
        }
        for sent in step["sent"].as_array().into_iter().flatten().filter(|sent| sent[0] == "EVALSHA") {
            assert_eq!(strings(&sent[1])[0], name, "{step}");
        }
    }
    assert!(held >= 20, "{held}");
}

#[test]
fn every_notice_of_redisson_came_on_our_channel() {
    let mut names = BTreeSet::new();
    for Step { name, step, .. } in steps().iter().filter(|step| step.plain) {
        for published in step["published"].as_array().into_iter().flatten() {
            assert_eq!(strings(published), ["PUBLISH", &lock_channel(name), "0"], "{step}");
            names.insert(name.clone());
        }
    }
    assert!(names.len() >= 3, "{names:?}");
}

/// What other primitives use, too: all of them are wrapped alike, but for the latch.
#[test]
fn every_name_that_redisson_derived_is_wrapped_as_ours() {
    let mut prefixes = BTreeSet::new();
    for Step { name, step, .. } in &steps() {
        let sent = step["sent"].as_array().into_iter().flatten().flat_map(|sent| strings(&sent[1]));
        let published = step["published"].as_array().into_iter().flatten().map(|sent| strings(sent)[1]);
        for derived in sent.chain(published).filter(|text| text.starts_with("redisson_")) {
            // The unlock latch is a thing of Redisson's own with a number behind it.
            let derived = derived.strip_suffix(":<req>").unwrap_or(derived);
            if let Some((p, _)) = derived.split_once(':').filter(|(p, _)| !p.contains("countdownlatch")) {
                assert_eq!(derived, prefix(p, name), "{step}");
                prefixes.insert(p.to_owned());
            }
        }
    }
    let expected =
        ["redisson_lock__channel", "redisson_lock_queue", "redisson_lock_timeout", "redisson_rwlock"];
    assert!(expected.iter().all(|p| prefixes.contains(*p)), "{prefixes:?}");
}

#[test]
fn every_notice_of_redissons_counters_came_on_our_channel() {
    type Channel = fn(&str) -> String;
    let of_counters: [(&str, Channel); 4] = [
        (include_str!("traces/semaphore-3.27.2.json"), semaphore_channel),
        (include_str!("traces/semaphore-4.7.0.json"), semaphore_channel),
        (include_str!("traces/latch-3.27.2.json"), latch_channel),
        (include_str!("traces/latch-4.7.0.json"), latch_channel),
    ];
    for (trace, channel) in of_counters {
        let trace: Value = serde_json::from_str(trace).expect("a trace");
        let steps = trace["steps"].as_array().expect("steps");
        let published: Vec<_> = steps.iter().flat_map(|step| strings_of(&step["published"])).collect();
        assert!(published.len() >= 6, "{published:?}");
        assert!(published.iter().all(|sent| sent[1] == channel("L")), "{published:?}");
    }
}

fn strings_of(published: &Value) -> Vec<Vec<&str>> {
    published.as_array().into_iter().flatten().map(strings).collect()
}
