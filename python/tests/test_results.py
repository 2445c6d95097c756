"""Results: those of the command line, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import spindle
from conftest import essence
from spindle import Experiment, UnknownName

FCT = ("mean", "p50", "p90", "p95", "p99", "p999")


@pytest.fixture
def results(small: Experiment) -> spindle.Results:
    return spindle.sweep(small, jobs=2, progress=False)


def test_a_sweep_equals_that_of_the_command_line(
    small: Experiment, results: spindle.Results, command: Any, tmp_path: Path
) -> None:
    file = tmp_path / "small.toml"
    small.save(file)
    theirs = json.loads(command("run", file, "--json", "-"))
    assert essence(results.comparison()) == essence(theirs)
    # With the verdicts, as text.
    assert str(results) == command("run", file)
    assert len(results.claims()) == 11 == len(results.verdicts()["claims"])


def test_a_summary_has_the_numbers_of_the_command_line(results: spindle.Results) -> None:
    table = results.summary()
    rows = iter(table.to_pylist())
    for i, point in enumerate(results.comparison()["points"]):
        for name, t in point["transports"].items():
            row = next(rows)
            assert (row["point"], row["loss"], row["transport"]) == (i, point["set"]["loss"], name)
            for q in FCT:
                low, high = t["fct_us"]["ci95"][q] or (None, None)
                assert row[f"fct.{q}"] == t["fct_us"][q]
                assert (row[f"fct.{q}.low"], row[f"fct.{q}.high"]) == (low, high)
            assert row["fct.max"] == t["fct_us"]["max"]
            assert row["goodput"] == t["goodput_bps"]["mean"]
            for metric in ("timeout_fraction", "extra_load"):
                assert row[metric] == t[metric]
            for count in ("flows", "completed", "timeouts", "late_timeouts", "bytes_delivered"):
                assert row[count] == t[count]
    assert next(rows, None) is None
    assert table["loss.value"].to_pylist() == [0.01, 0.01, 0.04, 0.04]
    assert table.schema.field("fct.p90").metadata == {b"unit": b"us"}


def test_percentile_of_too_few_flows_is_null_and_its_column_says_how_many_it_needs(results: spindle.Results) -> None:
    table = results.summary(["fct.p99", "fct.p90"])
    assert table["fct.p99"].null_count == len(table) and table["fct.p90"].null_count == 0
    assert table.schema.field("fct.p99").metadata == {b"unit": b"us", b"flows wanted": b"5000"}


def test_rows_of_runs_sum_to_the_summary(small: Experiment, results: spindle.Results) -> None:
    seeds, parts, flows = results.runs(), results.runs(parts=True), results.completions()
    assert (len(seeds), len(parts)) == (2 * 2 * 3, 2 * 2 * 3 * 4)
    assert seeds["seed"].to_pylist()[:3] == [1, 2, 3]
    assert parts["part"].to_pylist()[:5] == [0, 1, 2, 3, 0]
    total = pc.sum(results.summary()["flows"]).as_py()
    assert pc.sum(seeds["flows"]).as_py() == pc.sum(parts["flows"]).as_py() == total
    assert len(flows) == pc.sum(seeds["completed"]).as_py()
    longest = pc.max(flows["fct"]).as_py() / 1e3
    assert longest == pc.max(results.summary()["fct.max"]).as_py()


def test_completions_can_be_read_back_from_a_parquet_file_with_their_version_and_seeds(
    results: spindle.Results, tmp_path: Path
) -> None:
    file = tmp_path / "flows.parquet"
    results.write_completions(file)
    table = pq.read_table(file)
    assert table.equals(results.completions())
    assert sorted(set(table["seed"].to_pylist())) == [1, 2, 3]
    made = table.schema.metadata
    assert made[b"spindle.version"].decode() == spindle.__version__
    assert made[b"spindle.experiment"].decode() == results.experiment.id


def test_metrics_are_chosen_by_name(results: spindle.Results) -> None:
    table = results.summary(["fct.p75", "completed", "queueing.short"])
    assert table["completed.share"].to_pylist() == [1.0] * 4
    assert table["queueing.short"].null_count == 4, "the metric was not observed"
    assert "fct.p99" not in table.column_names and "fct.p75.low" in table.column_names
    with pytest.raises(UnknownName, match="did you mean \"fct.p99\""):
        results.summary(["fct.99"])
    with pytest.raises(TypeError, match="want a list"):
        results.summary("fct.p99")


def test_tables_convert_to_pandas(results: spindle.Results) -> None:
    pytest.importorskip("pandas")
    frame = results.summary(["fct.p90"]).to_pandas()
    assert list(frame.groupby("transport")["fct.p90"].count()) == [2, 2]


def test_the_runs_of_a_sweep_contain_each_part(small: Experiment, results: spindle.Results) -> None:
    part = spindle.run(small, point=1, transport="fuso", seed=2, jobs=1).runs(parts=True)
    whole = results.runs(parts=True)
    mine = pc.and_(pc.equal(whole["point"], 1), pc.equal(whole["seed"], 2))
    mine = pc.and_(mine, pc.equal(whole["transport"], "fuso"))
    assert part.drop(["point"]).equals(whole.filter(mine).drop(["point"]))
    assert spindle.run(small, jobs=2).runs().equals(results.runs())
    for wrong in ({"point": 2}, {"transport": "caps"}, {"seed": 4}):
        with pytest.raises(UnknownName, match="found"):
            spindle.run(small, **wrong)


def test_an_axis_with_the_name_of_a_count_is_renamed(small: Experiment) -> None:
    tree = small.to_dict()
    tree["sweep"] = {"flows": [20, 40]}
    tree["loss"]["rate"] = "2%"
    table = spindle.sweep(Experiment.from_dict(tree), jobs=2, progress=False).summary(["fct.mean"])
    assert table["set.flows"].to_pylist() == ["20", "20", "40", "40"]
    assert table["flows"].to_pylist() == [60, 60, 120, 120]


def test_computed_points_have_their_metrics() -> None:
    e = Experiment.builtin("caps-fig9").at_scale("quick")
    results = spindle.sweep(e, jobs=1, progress=False)
    assert {c["verdict"] for c in results.verdicts()["claims"]} <= {"holds", "fails", "not-checkable"}
    table = results.summary()
    assert "fct.p99" not in table.column_names, "nothing was sent"
    assert any(name.startswith("caps.") for name in table.column_names)


def test_flows_and_traces_equal_those_of_the_command_line(
    small: Experiment, command: Any, tmp_path: Path
) -> None:
    file = tmp_path / "small.toml"
    small.save(file)
    which = ["--transport", "fuso", "--point", "1", "--part", "3/4"]
    listed = command("trace", file, *which, "--slowest", "5").splitlines()[2:]
    table = spindle.flows(small, "fuso", point=1, part=(3, 4), slowest=5)
    assert [[int(x) for x in (row.split()[i] for i in (0, 1, 3, 4, 5))] for row in listed] == [
        [row[c] for c in ("flow", "bytes", "losses", "timeouts", "recoveries")]
        for row in table.to_pylist()
    ]
    assert [row.split()[2] for row in listed] == [f"{t / 1e3:.1f}" for t in table["fct"].to_pylist()]
    flow = table["flow"][0].as_py()
    trace = spindle.trace(small, "fuso", flow, point=1, part=(3, 4))
    printed = command("trace", file, *which, "--flow", str(flow))
    assert printed.split("\n", 1)[1] == str(trace)
    assert trace.completion_ns == table["fct"][0].as_py()
    events = trace.events
    assert len(events) == len(str(trace).splitlines()) - 2
    assert {"send", "arrived", "window"} <= set(events["kind"].to_pylist())
    with pytest.raises(UnknownName, match="want 0 to 14"):
        spindle.trace(small, "fuso", 99, part=(3, 4))
    with pytest.raises(UnknownName, match="point 7"):
        spindle.flows(small, "fuso", point=7)
