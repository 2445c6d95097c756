//! Tests whole pages: they are well-formed, safe against hostile names, and complete with little or absurd
//! data.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use spindle_experiment::claims::{Kind, Outcome, PointValues, TransportValue, Verdict};
use spindle_units::Instant;

use spindle_experiment::flow_trace::{FlowEvent, FlowEventKind, FlowTrace};
use spindle_experiment::identity::RunIdentity;

use super::format::Quantity;
use super::*;

const HOSTILE: &str = "</style></script><script>alert('x')</script>\"'&<b>\u{202e}../../x";

fn identity() -> RunIdentity {
    RunIdentity {
        version: "1.2.3".into(),
        configuration: "abc".into(),
    }
}

fn result(name: &str, fct_us: Vec<f64>) -> TransportResult {
    let p = |v: Option<&f64>| v.map(|v| Estimate::new(*v, v * 0.9, v * 1.1));
    TransportResult {
        name: name.into(),
        flows: fct_us.len() as u64,
        completed: fct_us.len() as u64,
        p50_us: p(fct_us.first()),
        p99_us: p(fct_us.last()),
        max_us: fct_us.last().copied(),
        timeout_fraction: Some(Estimate::exact(0.1)),
        fct_us,
        ..TransportResult::default()
    }
}

/// Two runs of each of these transports.
fn runs(id: &str, names: &[&str]) -> RunList {
    let row = |seed| RunRow {
        identity: identity(),
        seed,
        mean_us: Some(3.0),
        follow: format!("spindle trace {id}"),
        ..RunRow::default()
    };
    let group = |name: &&str| RunGroup {
        set: vec![("loss".into(), HOSTILE.into())],
        transport: (*name).into(),
        identity: identity(),
        p90_us: Some(Estimate::new(2.0, 1.0, 3.0)),
        p99_us: Some(Estimate::new(3.0, 2.0, 4.0)),
        rows: vec![row(1), row(2)],
    };
    RunList {
        id: id.into(),
        store: Some("x.jsonl".into()),
        groups: names.iter().map(group).collect(),
    }
}

fn trace(name: &str) -> FlowTrace {
    let at = |us: u64| Instant::from_nanos(us * 1_000);
    let event = |us, subflow, kind, dsn| FlowEvent {
        at: at(us),
        subflow,
        kind,
        dsn,
        len: 1460,
        note: name.into(),
    };
    FlowTrace {
        transport: name.into(),
        number: 7,
        title: name.into(),
        issued: at(0),
        completed: at(900),
        subflows: 2,
        paths: vec![format!("{name} P1"), "P2".into()],
        events: vec![
            event(10, 0, FlowEventKind::New, 7),
            event(20, 1, FlowEventKind::New, 1467),
            event(60, 0, FlowEventKind::Lost { link: name.into() }, 7),
            event(120, 1, FlowEventKind::Arrived, 1467),
            event(200, 1, FlowEventKind::AckedData, 1467),
            event(300, 1, FlowEventKind::Recovery { copy_of_subflow: 0 }, 7),
            event(305, 1, window(14_600, 2_920), 0),
            event(310, 1, FlowEventKind::Probe, 7),
            event(311, 1, parity(), 7),
            event(312, 0, parity(), 1467),
            event(
                315,
                0,
                FlowEventKind::ParityLost { link: name.into() },
                1467,
            ),
            event(316, 1, FlowEventKind::ParityArrived, 7),
            event(316, 0, FlowEventKind::Decoded, 7),
            event(320, 0, FlowEventKind::FastRetransmit, 7),
            event(700, 0, FlowEventKind::Rto, 7),
            event(701, 0, FlowEventKind::Retransmission, 7),
            event(5_000, 0, FlowEventKind::Rto, 7),
        ],
        compare_with: None,
    }
}

fn parity() -> FlowEventKind {
    FlowEventKind::Parity {
        of_subflow: 0,
        packets: 1,
        again: false,
    }
}

fn window(cwnd: u64, in_flight: u64) -> FlowEventKind {
    FlowEventKind::Window { cwnd, in_flight }
}

fn compare(transports: Vec<TransportResult>) -> CompareReport {
    CompareReport {
        title: "a comparison".into(),
        identity: identity(),
        points: vec![ComparePoint {
            set: Vec::new(),
            transports,
        }],
        ..CompareReport::default()
    }
}

fn figure(series: Vec<LineSeries>, log: bool) -> Figure {
    let axis = |name: &str| AxisSpec {
        name: name.into(),
        quantity: Quantity::Micros,
        log,
        cases: Vec::new(),
    };
    let plot = LinePlot {
        title: "a plot".into(),
        x: axis("x"),
        y: axis("y"),
        series,
    };
    Figure {
        id: "fuso-fig2".into(),
        identity: identity(),
        plots: vec![plot],
        ..Figure::default()
    }
}

fn series(name: &str, points: &[(f64, f64)]) -> LineSeries {
    let point = |&(x, y): &(f64, f64)| SeriesPoint {
        x,
        y: Estimate::new(y, y * 0.5, y * 2.0),
        group: Some(0),
    };
    LineSeries {
        name: name.into(),
        points: points.iter().map(point).collect(),
        ..LineSeries::default()
    }
}

/// Reads every file of a report as XML. HTML leaves void elements open, so they are closed first. The script is
/// left out. Returns the text of `index.html`.
pub(crate) fn check_directory(directory: &Path) -> String {
    let mut page = String::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_directory(&path);
            continue;
        }
        let mut text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("NaN"), "{}: NaN", path.display());
        if path.extension().is_some_and(|e| e == "csv") {
            continue;
        }
        if path.extension().is_some_and(|e| e == "html") {
            page.clone_from(&text);
            assert!(!text.contains("src="), "a page loads nothing");
            text = text.replace("<!DOCTYPE html>", "");
            // The script is not XML. It ends at the first closing tag.
            let (from, to) = (text.find("<script>"), text.find("</script>"));
            text.replace_range(from.unwrap() + 8..to.unwrap(), "");
            for void in ["<meta", "<input"] {
                for part in text.clone().split(void).skip(1) {
                    let tag = format!("{void}{}>", part.split('>').next().unwrap());
                    text = text.replace(&tag, &tag.replace('>', "/>"));
                }
            }
        }
        let parsed = roxmltree::Document::parse(&text);
        let document = parsed.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let scripts = document
            .descendants()
            .filter(|n| n.has_tag_name("script"))
            .count();
        assert!(scripts <= 1, "{}: {scripts} scripts", path.display());
        for link in document.descendants().filter_map(|n| n.attribute("href")) {
            check_link(&path, link);
        }
    }
    page
}

/// Checks that a link of a page leads to an existing file and to an existing place in it. The report does not
/// write the file with the runs' lines of JSON.
fn check_link(page: &Path, link: &str) {
    let (file, place) = link.split_once('#').unwrap_or((link, ""));
    if file.ends_with(".jsonl") {
        return;
    }
    let target = match file {
        "" => page.to_owned(),
        file => page.parent().unwrap().join(file),
    };
    let text = fs::read_to_string(&target);
    let text = text.unwrap_or_else(|e| panic!("{}: {link}: {e}", page.display()));
    let there = place.is_empty() || text.contains(&format!("id=\"{place}\""));
    assert!(there, "{}: {link} leads nowhere", page.display());
}

#[test]
fn a_page_with_everything_is_well_formed() {
    let directory = tempfile::tempdir().unwrap();
    let mut report = compare(vec![
        result("tcp", vec![1.0, 2.0, 9e4]),
        result("fuso", vec![3.0]),
    ]);
    let mut flow = trace("fuso");
    flow.compare_with = Some(Box::new(FlowTrace {
        completed: Instant::from_nanos(2_700_000),
        ..trace("mptcp")
    }));
    report.flows.push(flow);
    report.runs = runs("compare", &["tcp", "fuso"]);
    report.points[0].transports[1].group = Some(1);
    let index = report.write(directory.path()).unwrap();
    assert_eq!(index, directory.path().join("index.html"));
    let page = check_directory(directory.path());
    for text in [
        "waits 690",
        "subflow 0: fuso P1",
        "subflow 1: P2",
        "Under fuso the flow is done after 900",
        "earlier than under mptcp: mptcp takes 3.0 times as long.",
        "recovered on subflow 1",
        "lost at fuso",
        "timeout on subflow 0",
        "class=\"cwnd\"",
        "send kind-parity",
        "class=\"repaired\"",
        "bytes 0 to 1460 of subflow 0 told from parities",
        "href=\"runs/compare.html#g1\"",
    ] {
        assert!(page.contains(text), "no {text:?}");
    }
    for file in ["fct.svg", "tail.svg", "timeouts.svg", "flow-fuso.svg"] {
        assert!(directory.path().join(file).exists(), "{file}");
    }
}

#[test]
fn hostile_names_are_escaped() {
    let directory = tempfile::tempdir().unwrap();
    let mut report = compare(vec![
        result(HOSTILE, vec![1.0, 2.0]),
        result("tcp", vec![2.0]),
    ]);
    report.title = HOSTILE.into();
    let mut flow = trace(HOSTILE);
    flow.compare_with = Some(Box::new(trace(HOSTILE)));
    report.flows.push(flow);
    report.write(directory.path()).unwrap();
    check_directory(directory.path());

    let directory = tempfile::tempdir().unwrap();
    let mut f = figure(vec![series(HOSTILE, &[(1.0, 2.0)])], false);
    f.id = HOSTILE.into();
    f.source = HOSTILE.into();
    f.runs = runs(HOSTILE, &[HOSTILE]);
    f.flow = Some(trace(HOSTILE));
    f.oracle = Some(OracleDistance {
        oracle: HOSTILE.into(),
        plots: f.plots.clone(),
        beaten: vec![Beaten {
            transport: HOSTILE.into(),
            at: vec![HOSTILE.into()],
            by: vec![HOSTILE.into()],
        }],
    });
    f.claims.push(Outcome {
        id: HOSTILE.into(),
        kind: Kind::Ordering,
        text: HOSTILE.into(),
        paper: HOSTILE.into(),
        measured: String::new(),
        verdict: Verdict::NotCheckable,
        why: HOSTILE.into(),
        points: vec![PointValues {
            point: HOSTILE.into(),
            metric: HOSTILE.into(),
            unit: "us",
            runs: 2,
            values: vec![TransportValue {
                transport: HOSTILE.into(),
                value: 1.0,
                ci95: Some([0.5, 2.0]),
                text: HOSTILE.into(),
                interval: Some(HOSTILE.into()),
            }],
            comparisons: vec![Verdict::Tied],
        }],
    });
    let row = ArenaRow {
        transport: HOSTILE.into(),
        p99_us: Some(Estimate::new(2.0, 1.0, f64::NAN)),
        ..ArenaRow::default()
    };
    let network = ArenaNetwork {
        id: HOSTILE.into(),
        title: HOSTILE.into(),
        transports: vec![row],
        ..ArenaNetwork::default()
    };
    FigureReport {
        title: HOSTILE.into(),
        arena: Some(Arena {
            networks: vec![network],
        }),
        figures: vec![f],
        ..FigureReport::default()
    }
    .write(directory.path())
    .unwrap();
    check_directory(directory.path());
}

#[test]
fn percentile_of_too_few_flows_is_marked_and_the_headline_uses_p90() {
    let few = |name: &str, p90| TransportResult {
        p90_us: Some(Estimate::exact(p90)),
        p99_us: None,
        ..result(name, vec![1.0, 9.0])
    };
    let directory = tempfile::tempdir().unwrap();
    let report = compare(vec![few("tcp", 8000.0), few("fuso", 2000.0)]);
    let page = std::fs::read_to_string(report.write(directory.path()).unwrap()).unwrap();
    assert!(
        page.contains("too few flows<small>2 flows, want 5000</small>"),
        "{page}"
    );
    assert!(
        page.contains("90% of its flows are done within 2"),
        "{page}"
    );
}

#[test]
fn a_report_without_data_is_still_a_page() {
    for report in [
        CompareReport::default(),
        compare(Vec::new()),
        compare(vec![result("tcp", vec![])]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        report.write(directory.path()).unwrap();
        check_directory(directory.path());
    }
    for figures in [
        Vec::new(),
        vec![figure(Vec::new(), true)],
        vec![figure(vec![series("tcp", &[])], false)],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let report = FigureReport {
            figures,
            ..FigureReport::default()
        };
        report.write(directory.path()).unwrap();
        check_directory(directory.path());
    }
}

#[test]
fn runs_of_another_version_or_configuration_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut report = compare(vec![result("tcp", vec![1.0])]);
    report.runs = runs("compare", &["tcp", "fuso"]);
    report.write(directory.path()).unwrap();
    report.runs.groups[1].rows[1].identity.version = "1.2.4".into();
    let error = report.write(directory.path()).unwrap_err();
    assert!(
        matches!(error, ReportError::MixedVersions { .. }),
        "{error}"
    );
    for text in ["transport fuso at loss", "1.2.4", "run both again"] {
        assert!(error.to_string().contains(text), "{error}");
    }

    report.runs.groups[1].rows[1].identity = RunIdentity {
        configuration: "def".into(),
        ..identity()
    };
    let error = report.write(directory.path()).unwrap_err();
    assert!(
        matches!(error, ReportError::MixedConfigurations { .. }),
        "{error}"
    );
}

#[test]
fn figures_with_runs_of_another_version_or_configuration_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut two = vec![figure(Vec::new(), false), figure(Vec::new(), false)];
    two[1].identity.configuration = "another figure, another configuration".into();
    two[1].runs = runs("second", &["tcp"]);
    let mut report = FigureReport {
        figures: two,
        ..FigureReport::default()
    };
    report.write(directory.path()).unwrap();
    report.figures[1].runs.groups[0].rows[0]
        .identity
        .configuration = "def".into();
    let error = report.write(directory.path()).unwrap_err();
    assert!(
        matches!(error, ReportError::MixedConfigurations { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("figure fuso-fig2"), "{error}");

    report.figures[1].runs = RunList::default();
    report.figures[1].identity.version = "1.2.4".into();
    let error = report.write(directory.path()).unwrap_err();
    assert!(
        matches!(error, ReportError::MixedVersions { .. }),
        "{error}"
    );
}

#[test]
fn points_link_to_runs_and_figures_link_to_flows() {
    let directory = tempfile::tempdir().unwrap();
    let mut f = figure(vec![series("tcp", &[(1.0, 2.0), (2.0, 3.0)])], false);
    f.runs = runs("fuso-fig2", &["tcp"]);
    f.flow = Some(trace("fuso"));
    let figures = vec![f];
    let report = FigureReport {
        figures,
        ..FigureReport::default()
    };
    report.write(directory.path()).unwrap();
    let page = check_directory(directory.path());
    // Two points in each of two layouts with two kinds of axis, and in the table of values.
    assert_eq!(page.matches("href=\"runs/fuso-fig2.html#g0\"").count(), 10);
    assert!(page.contains("href=\"flows/fuso-fig2.html\""));
    // The command of each cell of the table, and the addition that writes a capture.
    let cell = "<td data-trace=\"spindle trace fuso-fig2\">";
    assert_eq!(page.matches(cell).count(), 2);
    assert!(page.contains("<table data-capture=\" --pcap captures\">"));
    let runs = fs::read_to_string(directory.path().join("runs/fuso-fig2.html")).unwrap();
    assert!(runs.contains("spindle trace fuso-fig2") && runs.contains("x.jsonl"));
}

#[test]
fn single_values_are_drawn_as_bars_and_cases_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let one = figure(vec![series("tcp", &[(1.0, 2.0)])], false);
    let mut cases = figure(vec![series("tcp", &[(0.0, 2.0), (1.0, 3.0)])], false);
    cases.id = "cases".into();
    cases.plots[0].x.cases = vec!["web-search".into(), "data-mining".into()];
    let figures = vec![one, cases];
    let report = FigureReport {
        figures,
        ..FigureReport::default()
    };
    report.write(directory.path()).unwrap();
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    assert!(read("fuso-fig2-0.svg").contains("class=\"bar "));
    let named = read("cases-0.svg");
    assert!(named.contains(">data-mining<") && !named.contains("<path"));
}

#[test]
fn plot_has_its_values_and_the_other_axis_next_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let plot = figure(vec![series("tcp \"1\"", &[(1.0, 2.0), (2.0, 4.0)])], true);
    let report = FigureReport {
        figures: vec![plot],
        ..FigureReport::default()
    };
    report.write(directory.path()).unwrap();
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    let values = read("fuso-fig2-0.csv");
    let lines: Vec<&str> = values.lines().collect();
    assert!(lines[0].starts_with("series,") && lines[0].ends_with(",low,high,paper,limit"));
    assert_eq!(
        lines[1..],
        ["\"tcp \"\"1\"\"\",1,2,1,4,,", "\"tcp \"\"1\"\"\",2,4,2,8,,"]
    );
    let other = "fuso-fig2-0-linear.svg";
    assert_ne!(read(other), read("fuso-fig2-0.svg"));
    assert!(read("fuso-fig2.html").contains(&format!("href=\"{other}\"")));
}

/// The kind of axis of each picture of a page, and whether the picture is hidden.
fn views(page: &str) -> Vec<(String, bool)> {
    let attribute = |tag: &str, name: &str| {
        let after = tag.split_once(&format!("{name}=\""))?.1;
        Some(after.split_once('"')?.0.to_owned())
    };
    let tags = page.split("<svg ").skip(1);
    let tags = tags.map(|tag| tag.split_once('>').unwrap().0);
    tags.map(|tag| {
        let axis = attribute(tag, "data-axis").unwrap_or_default();
        (axis, attribute(tag, "hidden").is_some())
    })
    .collect()
}

#[test]
fn page_has_both_axes_of_positive_values_and_shows_the_plot_s_own() {
    let axes = |log: bool, y: f64| {
        let directory = tempfile::tempdir().unwrap();
        let plot = figure(vec![series("tcp", &[(1.0, y), (2.0, 4.0)])], log);
        let figures = vec![plot];
        let report = FigureReport {
            figures,
            ..FigureReport::default()
        };
        report.write(directory.path()).unwrap();
        let page = check_directory(directory.path());
        let buttons = page.matches("aria-pressed=\"").count();
        (views(&page), buttons)
    };
    let view = |name: &str, hidden| (name.to_owned(), hidden);
    let both = |shown, hidden| {
        let (shown, hidden) = (view(shown, false), view(hidden, true));
        (vec![shown.clone(), shown, hidden.clone(), hidden], 2)
    };
    assert_eq!(axes(true, 2.0), both("logarithmic", "linear"));
    assert_eq!(axes(false, 2.0), both("linear", "logarithmic"));
    assert_eq!(
        axes(false, 0.0),
        (vec![view("", false), view("", false)], 0)
    );
}

fn paper(x: f64, y: f64, limit: Option<spindle_experiment::Limit>) -> PaperNumber {
    PaperNumber {
        x,
        y,
        limit,
        source: HOSTILE.into(),
        read: Some("from the image".into()),
    }
}

fn written(figures: Vec<Figure>) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let report = FigureReport {
        figures,
        ..FigureReport::default()
    };
    report.write(directory.path()).unwrap();
    let page = check_directory(directory.path());
    (directory, page)
}

#[test]
fn printed_numbers_are_marked_in_pictures_and_have_a_row_and_a_column() {
    let mut line = series("tcp", &[(1.0, 2.0), (2.0, 4.0)]);
    line.paper = vec![
        paper(2.0, 900.0, None),
        paper(3.0, 5.0, Some(spindle_experiment::Limit::Below)),
    ];
    let (directory, page) = written(vec![figure(vec![line], true)]);
    let svg = fs::read_to_string(directory.path().join("fuso-fig2-0.svg")).unwrap();
    // Two numbers and the entry of the key.
    assert_eq!(svg.matches("class=\"printed ").count(), 3);
    assert!(svg.contains(">paper<"), "{svg}");
    let tip = "paper, tcp: 900\u{202f}\u{b5}s at 2";
    assert!(svg.contains(tip), "{svg}");
    assert!(page.contains("aria-label=\"tcp, paper\""));
    assert!(page.contains("below 5\u{202f}\u{b5}s"), "{page}");
    assert!(page.contains("read from the image"));
    let csv = fs::read_to_string(directory.path().join("fuso-fig2-0.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "\"tcp\",1,2,1,4,,",
            "\"tcp\",2,4,2,8,900,",
            "\"tcp\",3,,,,5,below"
        ]
    );
}

#[test]
fn measured_value_that_covers_a_printed_number_names_it_as_well() {
    let mut line = series("tcp", &[(1.0, 500.0), (2.0, 900.0)]);
    line.paper = vec![paper(2.0, 900.0, None)];
    let (directory, _) = written(vec![figure(vec![line], true)]);
    let svg = fs::read_to_string(directory.path().join("fuso-fig2-0.svg")).unwrap();
    let text = "; paper, tcp: 900\u{202f}\u{b5}s at 2";
    assert_eq!(svg.matches(text).count(), 1, "{svg}");
}

#[test]
fn picture_without_printed_numbers_does_not_mention_the_paper() {
    let (directory, page) = written(vec![figure(vec![series("tcp", &[(1.0, 2.0)])], true)]);
    let svg = fs::read_to_string(directory.path().join("fuso-fig2-0.svg")).unwrap();
    assert!(!svg.contains(">paper<") && !svg.contains("class=\"printed "));
    assert!(!page.contains("tr class=\"paper\""));
}

#[test]
fn printed_number_is_marked_next_to_a_bar_even_without_a_measured_value() {
    let mut tcp = series("tcp", &[(1.0, 2.0)]);
    tcp.paper = vec![paper(1.0, 3.0, None)];
    let mut fuso = series("fuso", &[]);
    fuso.paper = vec![paper(1.0, 4.0, None)];
    let (directory, page) = written(vec![figure(vec![tcp, fuso], false)]);
    let svg = fs::read_to_string(directory.path().join("fuso-fig2-0.svg")).unwrap();
    assert_eq!(svg.matches("class=\"bar ").count(), 1);
    assert_eq!(svg.matches("class=\"printed ").count(), 3);
    assert!(page.contains("aria-label=\"fuso, paper\""));
}

#[test]
fn first_page_of_several_figures_lists_them_and_each_has_its_page() {
    let named = |id: &str| {
        let mut f = figure(vec![series("tcp", &[(1.0, 2.0)])], false);
        (f.id, f.title) = (id.into(), format!("title of {id}"));
        f
    };
    let figures = ["a", "b", "c"].map(named).to_vec();
    let (directory, _) = written(figures);
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    let index = read("index.html");
    assert!(
        !index.contains("<svg"),
        "pictures are on their figures' pages"
    );
    for id in ["a", "b", "c"] {
        assert!(index.contains(&format!("href=\"{id}.html\"")), "{id}");
        assert!(read(&format!("{id}.html")).contains("<svg"), "{id}");
    }
    let b = read("b.html");
    for link in ["index.html", "a.html", "c.html"] {
        assert!(b.contains(&format!("href=\"{link}\"")), "{link}");
    }
}

#[test]
fn a_directory_that_cannot_be_created_is_named_in_the_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("taken");
    fs::write(&file, "").unwrap();
    let error = compare(Vec::new()).write(&file.join("report")).unwrap_err();
    assert!(error.to_string().contains("taken"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_values_make_well_formed_pages(
        samples in prop::collection::vec(any::<f64>(), 0..12),
        points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..8),
        log in any::<bool>(),
        name in "\\PC{0,12}",
    ) {
        let directory = tempfile::tempdir().unwrap();
        let report = compare(vec![result(&name, samples), result("tcp", vec![1.0])]);
        report.write(directory.path()).unwrap();
        check_directory(directory.path());
        let directory = tempfile::tempdir().unwrap();
        let figures = vec![figure(vec![series(&name, &points)], log)];
        FigureReport { figures, ..FigureReport::default() }.write(directory.path()).unwrap();
        check_directory(directory.path());
    }
}
