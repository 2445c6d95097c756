"""Stores: finished runs are not repeated."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import spindle
from conftest import essence
from spindle import Experiment, Status, Store, StoreError


def made(experiment: Experiment, store: Path | Store, **options: object) -> tuple[int, dict]:
    """Returns the number of runs made, and the results."""
    told: list[Status] = []
    results = spindle.sweep(experiment, store=store, jobs=2, progress=told.append, **options)
    runs = told[-1].done if told else 0
    assert runs == (told[-1].runs if told else 0)
    return runs, essence(results.comparison())


def test_a_second_start_runs_nothing(small: Experiment, tmp_path: Path) -> None:
    first, results = made(small, tmp_path / "store")
    assert (first, made(small, tmp_path / "store")) == (48, (0, results))
    assert results == essence(spindle.sweep(small, jobs=1, progress=False).comparison())


def test_only_changed_runs_are_made(small: Experiment, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert made(small, store)[0] == 48
    # A run for each of three seeds and four parts: of a point under two transports, of a transport at two points.
    assert made(small.with_loss("1%", "2%"), store)[0] == 24
    assert made(small.with_transports("tcp", "fuso", "mptcp"), store)[0] == 24
    # The parts are unchanged: three more seeds are run, and no stored run is repeated.
    assert made(small.with_seeds(6).set("parts", 4), store)[0] == 48
    # All points depend on the load.
    assert made(small.set("traffic.load", "20Mbps"), store)[0] == 48
    # A change of a description does not make another experiment.
    assert made(small.set("title", "another").set("id", "mine"), store)[0] == 0
    assert made(small, store)[0] == 0


class Enough(Exception):
    """Raised to end a sweep in the middle."""


def test_a_sweep_that_ended_early_continues(small: Experiment, tmp_path: Path) -> None:
    seen: list[int] = []

    def end(status: Status) -> None:
        seen.append(status.done)
        if status.done >= 10:
            raise Enough

    with pytest.raises(Enough):
        spindle.sweep(small, store=tmp_path, jobs=2, progress=end)
    kept = len(Store(tmp_path))
    assert kept == seen[-1] >= 10
    runs, results = made(small, tmp_path)
    assert runs == 48 - kept
    assert results == essence(spindle.sweep(small, jobs=1, progress=False).comparison())


def test_a_store_is_a_dataset_with_a_file_for_each_job(small: Experiment, tmp_path: Path) -> None:
    made(small, tmp_path)
    table = ds.dataset(tmp_path, format="parquet").to_table()
    assert len(table) == 48
    assert set(table["version"].to_pylist()) == {spindle.__version__}
    assert set(table["set"].to_pylist()) == {'{"loss": "1%"}', '{"loss": "4%"}'}
    names = {"experiment", "configuration", "transport", "seed", "part", "parts", "record"}
    assert names <= set(table.column_names)
    assert not list(tmp_path.rglob("*.tmp"))


def test_runs_of_other_versions_are_kept_and_not_used(small: Experiment, tmp_path: Path) -> None:
    made(small, tmp_path)
    own = tmp_path / spindle.__version__
    other = tmp_path / "0.0.1+00000000"
    own.rename(other)
    assert made(small, tmp_path)[0] == 48
    assert made(small, tmp_path)[0] == 0
    assert list(other.iterdir())


def test_a_broken_file_is_reported_by_name(small: Experiment, tmp_path: Path) -> None:
    made(small, tmp_path)
    file = next((tmp_path / spindle.__version__).iterdir())
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(StoreError, match=file.name.replace(".", r"\.")):
        spindle.sweep(small, store=tmp_path, progress=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written to"):
        Store(tmp_path / "file")


def test_experiments_share_their_runs(small: Experiment, tmp_path: Path) -> None:
    told: list[Status] = []
    other = small.set("id", "other").with_transports("fuso")
    both = list(spindle.reproduce([small, other], jobs=2, progress=told.append))
    assert told[-1].done == 48
    alone = spindle.sweep(other, jobs=2, progress=False)
    assert isinstance(both[1].runs(), pa.Table) and both[1].runs().equals(alone.runs())
