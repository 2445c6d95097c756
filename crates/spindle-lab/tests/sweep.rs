//! Sweeps: the same results on any number of threads, and from a store.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use spindle_experiment::identity::VERSION;
use spindle_experiment::registry::Registry;
use spindle_experiment::{Experiment, Overrides, results};
use spindle_lab::driver::RunError;
use spindle_lab::sweep::{Options, Record, Shared, SweepError, execute, gather, jobs};
use spindle_mptcp::Config;

fn experiment(flows: &str) -> Experiment {
    let file = spindle_experiment::library::find("fuso-fig4ab").unwrap();
    let overrides = Overrides {
        flows: Some(flows.to_owned()),
        seeds: Some("3".to_owned()),
        transports: Some("tcp,fuso".to_owned()),
        loss: Some("1%,4%".to_owned()),
        ..Overrides::default()
    };
    file.read(&Registry::standard(), &overrides).unwrap()
}

fn options(jobs: usize) -> Options {
    Options {
        jobs,
        ..Options::default()
    }
}

fn json(experiment: &Experiment, options: &Options) -> (String, usize) {
    let result = execute(experiment, &Registry::standard(), options).unwrap();
    let mut c = results::comparison(experiment, &result);
    (c.engine.wall_s, c.engine.peak_rss_bytes) = (0.0, 0);
    (serde_json::to_string(&c).unwrap(), result.resumed)
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let e = experiment("60");
    let (one, _) = json(&e, &options(1));
    assert_eq!(one, json(&e, &options(1)).0);
    assert_eq!(one, json(&e, &options(4)).0);
    assert_ne!(one, json(&experiment("61"), &options(1)).0);
}

#[test]
fn runs_that_two_experiments_share_are_made_once() {
    let registry = Registry::standard();
    let dir = tempfile::tempdir().unwrap();
    let (e, mut other) = (experiment("60"), experiment("60"));
    other.id = "other".to_owned();
    other.transports.remove(0);
    let shared = Shared::of([&e, &other], &registry, &options(2)).unwrap();
    // Two points, three seeds and their parts, of one transport.
    assert_eq!(shared.len() as u64, 2 * 3 * e.parts());
    assert!(Shared::of([&e], &registry, &options(2)).unwrap().is_empty());
    let with = |name: &str, resume| Options {
        shared: shared.clone(),
        store: Some(dir.path().join(name)),
        resume,
        ..options(2)
    };
    let first = json(&e, &with("first", false));
    assert_eq!(first.0, json(&e, &options(2)).0);
    let second = json(&other, &with("second", false));
    assert_eq!(second.0, json(&other, &options(2)).0);
    // The store also contains the runs that this experiment did not make itself.
    let again = Options {
        shared: Shared::default(),
        ..with("second", true)
    };
    let (text, resumed) = json(&other, &again);
    assert_eq!((text, resumed as u64), (second.0, 2 * 3 * e.parts()));
}

#[test]
fn a_stopped_sweep_resumes_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("sub/runs.jsonl");
    let e = experiment("60");
    let with = |resume| Options {
        store: Some(store.clone()),
        resume,
        ..options(2)
    };
    let (whole, _) = json(&e, &with(false));
    let text = std::fs::read_to_string(&store).unwrap();
    let runs = text.lines().count();
    // 2 points, 2 transports, 3 seeds of 7 parts.
    assert_eq!(runs, 2 * 2 * 3 * 7);
    // As if stopped in the middle of a line.
    let kept = text.len() * 2 / 3;
    std::fs::write(&store, &text[..kept]).unwrap();
    let complete = text[..kept].lines().count() - 1;
    assert_eq!(json(&e, &with(true)), (whole.clone(), complete));
    assert_eq!(json(&e, &with(true)), (whole, runs));
    // Other settings are different runs.
    assert_eq!(json(&experiment("61"), &with(true)).1, 0);
}

/// No fingerprint of Spindle's sources covers a custom scheme. Results of another build must not be mistaken
/// for results of this one.
#[test]
fn a_store_of_another_build_of_a_custom_program_is_refused() {
    let mut e = experiment("20");
    e.transports.truncate(1);
    let standard = Registry::standard();
    let own = Registry::standard().transport("tcp", vec!["mine".to_owned()], Config::default);
    assert_eq!(standard.version(), VERSION);
    assert!(own.version().starts_with(VERSION) && own.version() != VERSION);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runs.jsonl");
    let with = |resume| Options {
        store: Some(path.clone()),
        resume,
        ..options(2)
    };
    let made = execute(&e, &own, &with(false)).unwrap();
    assert_eq!(made.version(), own.version());
    let again = execute(&e, &own, &with(true)).unwrap();
    assert_eq!(again.resumed, jobs(&e, &own, None).unwrap().len());
    // The text that another build would have written.
    let text = std::fs::read_to_string(&path).unwrap();
    let other = format!("{VERSION}.0123456789abcdef");
    std::fs::write(&path, text.replace(own.version(), &other)).unwrap();
    let error = execute(&e, &own, &with(true)).unwrap_err();
    let refused = matches!(&error, SweepError::MixedVersions { found, .. } if *found == other);
    assert!(refused, "{error}");
}

#[test]
fn runs_made_elsewhere_give_the_same_results() {
    let (e, registry) = (experiment("60"), Registry::standard());
    let jobs = jobs(&e, &registry, None).unwrap();
    let line = |job: usize| {
        let result = jobs[job].run(&e, &registry, &options(1)).unwrap();
        Record::new(&e, &jobs[job], result).to_line().unwrap()
    };
    let lines = (0..jobs.len()).rev().map(line);
    let records = lines.map(|line| Record::parse(&line).unwrap());
    let known: HashMap<_, _> = records.map(|r| (r.key(), r.result)).collect();
    let result = gather(&e, &jobs, |key| known.get(key).cloned());
    let mut c = results::comparison(&e, &result);
    c.engine.peak_rss_bytes = 0;
    assert_eq!(serde_json::to_string(&c).unwrap(), json(&e, &options(2)).0);
}

#[test]
fn a_subset_of_an_experiment_has_some_of_its_runs() {
    let (e, registry) = (experiment("60"), Registry::standard());
    let keys = |e: &Experiment| -> Vec<_> {
        let jobs = jobs(e, &registry, None).unwrap();
        jobs.into_iter().map(|j| (j.point, j.key)).collect()
    };
    let part = e.only(|p| p == 1, |t| t.transport == "fuso", 2..3);
    let mine = |(point, key): &(usize, _)| {
        let key: &spindle_experiment::results::RunKey = key;
        *point == 1 && key.transport == "fuso" && key.seed == 2
    };
    let of_whole = keys(&e).into_iter().filter(mine).map(|(_, key)| key);
    let of_part = keys(&part).into_iter().map(|(_, key)| key);
    assert_eq!(of_part.collect::<Vec<_>>(), of_whole.collect::<Vec<_>>());
    assert_eq!((part.seeds, part.parts()), (1, e.parts()));
    assert_eq!(e.only(|_| true, |_| true, 9..10).seeds, 0, "no such seed");
}

#[test]
fn a_stopped_run_ends_early() {
    let stopped = Options {
        stop: Some(Arc::new(AtomicBool::new(true))),
        ..options(2)
    };
    let ended = execute(&experiment("60"), &Registry::standard(), &stopped);
    assert!(matches!(ended, Err(SweepError::Run(RunError::Stopped))));
}

#[test]
fn verdicts_list_every_claim_and_the_missing_transports() {
    let e = experiment("60");
    let result = execute(&e, &Registry::standard(), &options(2)).unwrap();
    let verdicts = results::verdicts(&e, &result);
    assert_eq!(verdicts.claims.len(), 11);
    for claim in &verdicts.claims {
        assert!(
            !claim.why.is_empty() && !claim.measured.is_empty(),
            "{}",
            claim.id
        );
    }
    let next = verdicts
        .claims
        .iter()
        .find(|c| c.id == "fuso-fig4ab-o3")
        .unwrap();
    assert_eq!(
        (next.verdict.word(), next.why.as_str()),
        ("not-checkable", "repflow was not run")
    );
}
