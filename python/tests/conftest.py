"""Shared fixtures: a small experiment, and the command line of the same version."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import spindle

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Installs Python's handler of SIGINT, which would be ignored if these tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def binary() -> Path:
    """The `spindle` program of SPINDLE_BIN, or a built one."""
    given = os.environ.get("SPINDLE_BIN")
    path = Path(given) if given else _built()
    version = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout
    assert version.split()[1] == spindle.__version__, (
        f"{path} is {version.strip()}, the package {spindle.__version__}: build both from the same sources"
    )
    return path


def _built() -> Path:
    cargo = ["cargo", "build", "--release", "-p", "spindle-cli", "--message-format=json"]
    out = subprocess.run(cargo, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    programs = (json.loads(line).get("executable") for line in out.splitlines())
    return next(Path(p) for p in programs if p and Path(p).stem == "spindle")


@pytest.fixture(scope="session")
def command(binary: Path) -> Any:
    """Runs the program and returns its output."""

    def run(*arguments: str | Path) -> str:
        done = subprocess.run([binary, *arguments], capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    return run


@pytest.fixture
def small() -> spindle.Experiment:
    """48 runs that take milliseconds each: two points, two transports, three seeds in four parts."""
    e = spindle.Experiment.builtin("fuso-fig4ab").with_transports("tcp", "fuso")
    return e.with_loss("1%", "4%").with_flows(60).with_seeds(3).set("parts", 4)


@pytest.fixture
def endless() -> spindle.Experiment:
    """An experiment that takes many minutes and that no test completes."""
    e = spindle.Experiment.builtin("fuso-fig4ab").with_transports("tcp", "fuso")
    return e.with_flows(4_000_000).with_seeds(1).set("parts", 4)


def essence(comparison: dict[str, Any]) -> dict[str, Any]:
    """Results without the values that depend on the machine."""
    engine = {k: v for k, v in comparison["engine"].items() if k not in ("wall_s", "peak_rss_bytes")}
    return comparison | {"engine": engine}
