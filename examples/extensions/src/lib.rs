//! Extensions of Spindle in a separate crate: one file for each, and one line for each in [`registry`].

mod abandoned;
mod controller;
mod path_manager;
mod periodic;
mod ring;
mod rpc;
mod scheduler;
mod spread;
mod star;

use spindle_experiment::registry::Registry;

pub use controller::Scalable;
pub use path_manager::PerAddress;
pub use scheduler::MostRoom;

/// Spindle's names and those of this crate. `spindle::cli(registry())` is the whole command line with them.
pub fn registry() -> Registry {
    Registry::standard()
        .topology_kind("star", star::SUMMARY, star::Kind)
        .loss_model("periodic", periodic::SUMMARY, periodic::read)
        .traffic_kind("ring", ring::SUMMARY, ring::Kind)
        .sizes("rpc", rpc::SUMMARY, rpc::sizes())
        .metric(&abandoned::ABANDONED)
        .claim_test("spread", spread::SUMMARY, spread::read)
        .congestion_controller(Scalable::default())
        .scheduler(MostRoom)
        .path_manager(PerAddress::default())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use spindle_experiment::claims::{PointView, Verdict, evaluate};
    use spindle_experiment::stats::Pool;
    use spindle_experiment::{Experiment, Overrides, RunResult, explain, library};

    use super::registry;

    const FILE: &str = r#"
        transports = ["tcp"]
        [topology]
        name = "star"
        hosts = 4
        rate = "10Gbps"
        [loss]
        model = "periodic"
        every = 1000
        on = "h1"
        [traffic]
        kind = "requests"
        clients = "h0"
        servers = "h1-h3"
        sizes = "rpc"
        load = "1Gbps"
        [[claims]]
        id = "even"
        kind = "numeric"
        text = "TCP is about as fast at every load"
        test = "spread"
        of = "tcp"
        within = 2
    "#;

    fn read(text: &str) -> Result<Experiment, String> {
        let file = ("mine.toml", text);
        let read = library::parse(&registry(), file, Path::new("."), &Overrides::default());
        read.map_err(|e| e.to_string())
    }

    #[test]
    fn file_with_the_names_of_this_crate_is_read() {
        let experiment = read(FILE).unwrap();
        let scenario = &experiment.points[0].scenario;
        let network = scenario.topology.build().unwrap();
        assert_eq!((network.hosts(), network.switches().len()), (4, 1));
        let loss = scenario.loss[0].model.process().unwrap();
        assert!(!loss.is_none());
    }

    #[test]
    fn mistakes_are_reported_with_line_and_key() {
        let hosts = read(&FILE.replace("hosts = 4", "hosts = 1")).unwrap_err();
        assert_eq!(
            hosts,
            "mine.toml:5: topology.hosts: found 1, want 2 to 65536"
        );
        let every = read(&FILE.replace("every = 1000", "every = 1")).unwrap_err();
        assert_eq!(every, "mine.toml:9: loss.every: found 1, want 2 or more");
        let sizes = read(&FILE.replace("\"rpc\"", "\"rcp\"")).unwrap_err();
        assert!(sizes.ends_with("did you mean \"rpc\"?"), "{sizes}");
        let star = read(&FILE.replace("\"star\"", "\"sta\"")).unwrap_err();
        assert!(star.ends_with("did you mean \"star\"?"), "{star}");
    }

    #[test]
    fn claim_holds_if_all_values_are_near_each_other() {
        // A percentile above p90 would need more flows.
        let text = FILE.replace("within = 2", "within = 2\nmetric = \"fct.mean\"");
        let experiment = read(&text).unwrap();
        let pool = |us: u64| {
            let runs: Vec<RunResult> = (0..10)
                .map(|_| RunResult {
                    flows: 2,
                    completed: 2,
                    fct_ns: vec![us * 1000, us * 1000],
                    ..RunResult::default()
                })
                .collect();
            [("tcp".to_owned(), Pool::new(&runs))]
        };
        let verdict = |slowest: u64| {
            let pools = [pool(100), pool(slowest)];
            let view = |pools| PointView {
                set: &[],
                scenario: &experiment.points[0].scenario,
                pools,
            };
            let points = [view(&pools[0][..]), view(&pools[1][..])];
            evaluate(&experiment.claims[0], &points).verdict
        };
        assert_eq!(verdict(150), Verdict::Holds);
        assert_eq!(verdict(250), Verdict::Tied);
    }

    #[test]
    fn added_metric_is_a_ratio_of_sums_over_runs() {
        let text = FILE.replace("within = 2", "within = 2\nmetric = \"abandoned\"");
        let metric = read(&text).unwrap().claims[0].metric;
        let run = |aborted| RunResult {
            flows: 10,
            aborted,
            ..RunResult::default()
        };
        assert_eq!(Pool::new(&[run(1), run(2)]).value(metric), Some(0.15));
        assert_eq!(metric.show(0.15), "15%");
        let unknown = read(&text.replace("\"abandoned\"", "\"abandond\"")).unwrap_err();
        assert!(
            unknown.ends_with("did you mean \"abandoned\"?"),
            "{unknown}"
        );
    }

    #[test]
    fn names_of_this_crate_are_explained() {
        let all = explain::names(&registry());
        for name in [
            "star",
            "periodic",
            "ring",
            "rpc",
            "abandoned",
            "spread",
            "scalable",
            "most-room",
            "per-address",
        ] {
            assert!(
                all.lines()
                    .any(|l| l.split_whitespace().next() == Some(name)),
                "{name}"
            );
        }
    }
}
