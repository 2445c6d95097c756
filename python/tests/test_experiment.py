"""Experiments: read, changed, written and read again."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import spindle
from spindle import Experiment, ExperimentError, UnknownName


def keys(e: Experiment) -> list[object]:
    """Everything that identifies its runs."""
    return e._native.keys()


@pytest.mark.parametrize("scale", [None, "quick", "full", "paper-scale"])
def test_every_experiment_is_the_same_when_written_and_read_again(scale: str | None) -> None:
    ids = spindle.experiments()
    assert {"fuso-fig4ab", "caps-fig9", "arena-leaf-spine", "compare"} <= set(ids)
    for id in ids:
        e = Experiment.builtin(id).at_scale(scale)
        again = Experiment.parse(e.to_toml(), "another.toml")
        assert (again.id, again.title, again.paper) == (id, e.title, e.paper)
        assert again.points() == e.points()
        assert again.claims == e.claims
        assert (again.transports, again.seeds, again.parts) == (e.transports, e.seeds, e.parts)
        assert again == e


def test_experiments_from_objects_and_from_files_are_equal(small: Experiment, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    small.save(file)
    loaded = Experiment.load(file)
    built = Experiment.from_dict(small.to_dict())
    assert keys(loaded) == keys(built) == keys(small)
    assert keys(pickle.loads(pickle.dumps(small))) == keys(small)
    assert len(keys(small)) == 48


def test_an_experiment_can_be_made_from_a_mapping() -> None:
    e = Experiment.from_dict(
        {
            "id": "mine",
            "transports": ["tcp", "fuso+roundrobin@rps"],
            "seeds": 2,
            "topology": {"name": "fuso-testbed"},
            "loss": [{"on": ["P1"], "rate": 0.02, "direction": "both"}],
            "traffic": {
                "kind": "requests",
                "clients": ["H4"],
                "servers": ["H1"],
                "pairing": "one-to-one",
                "load": "1Mbps",
                "sizes": "10KB",
                "connections": "new",
                "flows": 20,
            },
            "sweep": {"traffic.load": ["1Mbps", "2Mbps"], "case": [
                {"name": "a", "traffic.sizes": "10KB"}, {"name": "b", "traffic.sizes": "20KB"}]},
        }
    )
    assert (e.id, e.transports, e.seeds) == ("mine", ["tcp", "fuso+roundrobin@rps"], range(1, 3))
    # The first axis varies slowest, in the mapping's order.
    assert [tuple(p.set.values()) for p in e.points()] == [
        ("1Mbps", "a"), ("1Mbps", "b"), ("2Mbps", "a"), ("2Mbps", "b")]
    with pytest.raises(TypeError, match="traffic|want text"):
        Experiment.from_dict({"traffic": object()})


def test_changes_return_other_experiments(small: Experiment) -> None:
    loaded = small.set("traffic.load", "20Mbps")
    assert [p.set for p in loaded.points()] == [p.set for p in small.points()]
    assert all(a.configuration != b.configuration
               for a, b in zip(loaded.points(), small.points(), strict=True))
    swept = small.set("loss", ["1%", "2%", "3%"])
    assert [p.set["loss"] for p in swept.points()] == ["1%", "2%", "3%"]
    assert small.with_seeds(2, first=5).seeds == range(5, 7)
    quick, full = small.at_scale("quick"), small.at_scale("full")
    # Settings override the scale, regardless of their order.
    assert keys(quick) == keys(full) == keys(small)
    assert (quick.scale, small.scale) == ("quick", None)
    assert len({small, quick, Experiment.parse(small.to_toml())}) == 2
    e = Experiment.builtin("fuso-fig4ab")
    assert keys(e.at_scale("quick")) != keys(e.at_scale("full"))


def test_a_reading_and_a_variation_change_runs_and_can_be_sent_to_another_process() -> None:
    plain = Experiment.builtin("caps-fig12").at_scale("quick")
    read, varied = plain.with_reading("ns-2"), plain.with_variation("half-buffers")
    both = read.with_variation("half-buffers")
    assert (both.reading, both.variation, plain.reading, plain.variation) == ("ns-2", "half-buffers", None, None)
    assert len({keys(e)[0] for e in (plain, read, varied, both)}) == len({plain, read, varied, both}) == 4
    for e in (read, varied, both):
        sent = pickle.loads(pickle.dumps(e))
        assert keys(sent) == keys(e) and sent == e
        assert sent.variation == e.variation
    assert keys(both.with_reading(None).with_variation(None)) == keys(plain)


def test_readings_belong_to_papers() -> None:
    assert "ns-2" in spindle.readings("caps") and "ns-2" not in spindle.readings("fuso")
    assert set(spindle.readings("caps")) < set(spindle.readings())
    for name in spindle.readings("caps"):
        assert Experiment.builtin("caps-fig8").with_reading(name).reading == name
    for name in spindle.variations():
        assert Experiment.builtin("caps-fig8").with_variation(name).variation == name
    with pytest.raises(UnknownName, match="--reading: ns-2 is a reading of .*, not of fuso"):
        Experiment.builtin("fuso-fig4ab").with_reading("ns-2")


def test_errors_contain_place_key_and_accepted_values(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    text = Experiment.builtin("fuso-fig4ab").to_toml()
    file.write_text(text.replace('below = "100KB"', 'below = "100 parsecs"'))
    line = 1 + next(i for i, s in enumerate(file.read_text().splitlines()) if "parsecs" in s)
    with pytest.raises(ExperimentError) as caught:
        Experiment.load(file)
    e = caught.value
    assert (e.file, e.line, e.flag, e.key) == (str(file), line, None, "traffic.below")
    assert e.found == '"100 parsecs"' and e.accepted and e.accepted.startswith("a size")
    assert str(e).startswith(f"{file}:{line}: traffic.below: found")
    assert isinstance(e, ValueError) and str(pickle.loads(pickle.dumps(e))) == str(e)
    with pytest.raises(ExperimentError) as caught:
        Experiment.builtin("compare").set("loss.rate", "2ms")
    assert caught.value.flag == "--set loss.rate=2ms" and caught.value.line is None
    with pytest.raises(ExperimentError, match="x.toml:2: not valid TOML"):
        Experiment.parse("id = 'a'\nb = = 2\n", "x.toml")
    with pytest.raises(FileNotFoundError):
        Experiment.load(tmp_path / "none.toml")


def test_unknown_names_are_reported_with_suggestions() -> None:
    with pytest.raises(UnknownName, match="did you mean \"fuso-fig4ab\""):
        Experiment.builtin("fuso-fig4ba")
    with pytest.raises(UnknownName, match="want one of quick, full, paper-scale"):
        Experiment.builtin("compare").at_scale("large")
    with pytest.raises(UnknownName, match="did you mean \"fuso\""):
        spindle.explain("fusso")
    assert "FUSO" in spindle.explain("fuso") and "caps" in spindle.explain()
    assert {"tcp", "fuso", "caps"} <= set(spindle.transports())
    assert {"ecmp", "rps"} <= set(spindle.balancers())
    assert spindle.metrics()["fct.p99"] == ("p99 FCT", "us")


def test_a_written_experiment_contains_the_files_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "mine.cdf").write_text("1000 0\n2000 1\n")
    text = Experiment.builtin("fuso-fig4ab").to_toml()
    text = text.replace('"web-search"', '"file:mine.cdf"').replace('below = "100KB"\n', "")
    e = Experiment.parse(text, "x.toml", tmp_path)
    written = e.to_toml()
    (tmp_path / "mine.cdf").unlink()
    assert keys(Experiment.parse(written)) == keys(e)
