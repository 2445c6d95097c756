"""The same sweep on a dask cluster."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import spindle
from conftest import essence
from spindle import Experiment, Status, Store, VersionMismatch, _native, cluster
from spindle.__main__ import main

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    local = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with local, distributed.Client(local) as client:
        yield client


def test_a_cluster_returns_the_same_results_as_threads(client: Any, small: Experiment, tmp_path: Path) -> None:
    theirs = spindle.sweep(small, client, store=tmp_path, progress=False)
    ours = spindle.sweep(small, jobs=1, progress=False)
    assert essence(theirs.comparison()) == essence(ours.comparison())
    assert theirs.runs(parts=True).equals(ours.runs(parts=True))
    assert theirs.verdicts() == ours.verdicts()
    assert len(Store(tmp_path)) == 48
    told: list[Status] = []
    spindle.sweep(small, client, store=tmp_path, progress=told.append)
    assert told == []
    spindle.sweep(small.with_loss("1%", "2%"), client, store=tmp_path, progress=told.append)
    assert told[-1].done == told[-1].runs == 24


def test_a_killed_worker_costs_only_its_running_jobs(
    client: Any, small: Experiment, tmp_path: Path
) -> None:
    victim = next(iter(client.run(os.getpid).values()))
    told: list[Status] = []

    def kill(status: Status) -> None:
        if not told:
            os.kill(victim, signal.SIGKILL)
        told.append(status)

    results = spindle.sweep(small, client, store=tmp_path, progress=kill)
    assert told[-1].done == told[-1].runs == 48
    assert victim not in client.run(os.getpid).values()
    ours = spindle.sweep(small, jobs=1, progress=False)
    assert essence(results.comparison()) == essence(ours.comparison())
    assert len(Store(tmp_path)) == 48


def test_another_version_on_a_worker_is_refused(small: Experiment) -> None:
    (_, key), *_ = small._native.keys()
    key = cluster.Key(*key)
    text = small.to_toml()
    with pytest.raises(VersionMismatch, match="want 0.0.1"):
        cluster.work("sweep", "0.0.1", (text, "x", None), [0], [key])
    with pytest.raises(VersionMismatch, match="found run"):
        other = key._replace(configuration="0" * 16)
        cluster.work("sweep", spindle.__version__, (text, "x", None), [0], [other])
    [(line, seconds)] = cluster.work("sweep", spindle.__version__, (text, "x", None), [0], [key])
    assert key.configuration in line and seconds > 0


def test_a_worker_makes_the_runs_of_a_varied_experiment(small: Experiment) -> None:
    varied = small.with_variation("half-min-rto")
    key = cluster.Key(*varied._native.keys()[0][1])
    job = (varied.to_toml(), varied.id, varied.variation)
    [(line, _)] = cluster.work("sweep", spindle.__version__, job, [0], [key])
    assert cluster.Key(*_native.head(line)[3]) == key
    with pytest.raises(VersionMismatch, match="found run"):
        cluster.work("sweep", spindle.__version__, (*job[:2], None), [0], [key])


def test_an_interrupt_ends_the_runs_on_workers(client: Any, endless: Experiment) -> None:
    def under_way() -> int:
        # A worker that the previous test has ended may still be listed.
        return sum(client.run(lambda: len(cluster._stops), on_error="ignore").values())

    def interrupt() -> None:
        while under_way() == 0:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        spindle.sweep(endless, client, progress=False)
    thread.join()
    # Each run would take minutes.
    deadline = time.monotonic() + 120
    while under_way() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert under_way() == 0


def test_a_job_that_arrives_after_its_sweep_has_ended_is_ended(endless: Experiment) -> None:
    (_, key), *_ = endless._native.keys()
    job = (spindle.__version__, (endless.to_toml(), "x", None), [0], [cluster.Key(*key)])
    cluster.stop("over")
    with pytest.raises(spindle.Stopped):
        cluster.work("over", *job)
    assert "over" not in cluster._stops


def test_a_run_that_cannot_be_made_ends_a_sweep(client: Any, small: Experiment) -> None:
    class Wrong(Experiment):
        """An experiment whose text differs from the driver's."""

        def to_toml(self) -> str:
            return small.with_loss("3%").to_toml()

    wrong = Wrong(small._source)
    with pytest.raises(VersionMismatch, match="found run"):
        spindle.sweep(wrong, client, progress=False)


def test_the_command_accepts_a_scheduler(
    client: Any, small: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.toml"
    small.save(file)
    address = client.scheduler.address
    store = str(tmp_path / "store")
    assert main(["run", str(file), "--scheduler", address, "--store", store, "--json", "-"]) == 0
    far = capsys.readouterr().out
    assert main(["run", str(file), "--store", store, "--json", "-"]) == 0
    near = capsys.readouterr().out
    drop = ("wall_s", "peak_rss_bytes")
    lines = [[s for s in t.splitlines() if not any(d in s for d in drop)] for t in (far, near)]
    assert lines[0] == lines[1]


def test_the_command_reconnects_if_a_cancellation_interferes_with_its_registration(
    client: Any, small: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "small.toml"
    small.save(file)
    connect, attempts = distributed.Client, []

    def fail_once(address: str) -> Any:
        attempts.append(address)
        # `Client._ensure_connected` checks that the first message contains only the answer.
        assert len(attempts) > 1
        return connect(address)

    monkeypatch.setattr(distributed, "Client", fail_once)
    assert main(["run", str(file), "--scheduler", client.scheduler.address]) == 0
    assert len(attempts) == 2
